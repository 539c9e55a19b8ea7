"""``napari-gsw segment IMAGE -o OUT`` and ``napari-gsw replay SESSION [--image IMAGE] -o OUT``.

With ``--checkpoint FILE --resume``, ``segment`` resumes a run that was killed.
"""

from __future__ import annotations

import argparse
import math
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from napari_gsw.batch.interruption import handle_signals, interrupt
from napari_gsw.cli import options
from napari_gsw.cli.options import MAPS, SAMPLE, add_flags, print_remark
from napari_gsw.core.errors import InputError, check_number

if TYPE_CHECKING:
    from napari_gsw.core.interactive.saved_session import SavedSession
    from napari_gsw.core.pipeline.prepare import Stage
    from napari_gsw.core.pipeline.saved_run import SavedRun
    from napari_gsw.core.posterior.result import MethodResult
    from napari_gsw.core.sampler.snapshot import Snapshot
    from napari_gsw.files.geometry import Geometry
    from napari_gsw.files.session_file import Autosave
    from napari_gsw.methods import Choice

OTHER_IMAGES = (".jpg", ".jpeg", ".bmp", ".gif", ".webp")
# Arguments that are files to read, which must not be replaced.
INPUTS = ("image", "mask", "sites", "seeds", "init", *MAPS, "session")


def add_parser(commands: Any) -> None:
    """Add the command ``segment`` and its options."""
    command = commands.add_parser(
        "segment",
        usage="%(prog)s IMAGE -o OUT [options]",
        help="segment one image",
        description="Segment one image: writes labels, provenance.json and (if the method samples) trace.csv into OUT.",
        epilog="Exit codes: 0 done, 2 wrong input (one line tells), 130 stopped by Ctrl+C and 143 by the system (the "
        "result so far is kept).",
        allow_abbrev=False,
    )
    command.set_defaults(run=run_segment)
    add, text = command.add_argument, "image file, or sample:astronaut, sample:tissue, sample:mosaic, sample:mosaic_3d"
    add("image", metavar="IMAGE", help=text)
    options.add_output(command, "folder to write into, or the labels' file (.tif, .png)")
    for name, text in (
        ("mask", "image that is non-zero where to segment"),
        ("sites", "label image of your own superpixels; 0 is background"),
        ("seeds", "label image of strokes: non-zero pixels clamp their sites to that label, or a method spreads it"),
        ("init", "label image to start the chain from"),
        ("features", "map of features with any number of channels, on the first or the last axis"),
        ("boundaries", "map of how probable a boundary is; it becomes couplings of both signs"),
        ("foreground", "map of how probable the foreground is; it names the background's cluster"),
    ):
        add(f"--{name}", metavar="FILE", help=text)
    text = "format of the labels in the folder OUT (default tif; zarr for a zarr image that is read in blocks)"
    add("--format", choices=("tif", "png", "zarr"), help=text)
    options.add_output_options(command)
    text = "save the run to FILE (.zarr.zip) again and again and at its end; the window opens it, too"
    add("--checkpoint", metavar="FILE", help=text)
    add("--checkpoint-every", metavar="SECONDS", type=float, default=30.0, help="how often it is saved (default 30)")
    text = "go on with the run in the checkpoint, if there is one; the labels are those of a run that never stopped"
    add_flags(command, resume=text)
    add_flags(command, overwrite=options.OVERWRITE, quiet=options.QUIET)
    options.add_choices(command)


def run_segment(arguments: argparse.Namespace) -> int:
    """Segment one image."""
    from napari_gsw import methods
    from napari_gsw.core import jit
    from napari_gsw.core.image.lazy import is_lazy
    from napari_gsw.core.pipeline import warm_up
    from napari_gsw.files import images

    choice = options.resolve_choice(arguments)
    if (notice := jit.cache_folder().notice) and not arguments.quiet:
        print_remark(notice)
    image, axes = options.open_named_image(arguments.image, choice)
    choice = choice.with_axes(axes, arguments.image)
    arrays: dict[str, Any] = {}
    for name in ("mask", "sites", "seeds", "init", *MAPS):
        if (path := getattr(arguments, name)) is not None:
            arrays[name] = (images.open_map_file if name in MAPS else images.read_labels)(path, is_lazy(image))

    def make(bar: SweepBar) -> tuple[MethodResult, str]:
        if choice.method == "gsw" and warm_up.is_cold():
            warm_up.warm_up()
        with open_checkpoint(arguments, choice, image, arrays) as (keep, saved):
            outcome = methods.segment(
                image, choice, arguments.seed, report=bar.report, keep=keep, saved=saved, **arrays
            )
        return outcome, choice.settings.axes

    samples = methods.METHODS[choice.method].samples
    return make_and_write(
        arguments, image, choice.read_geometry(arguments.image), samples, choice.settings.sweeps, make
    )


def make_and_write(
    arguments: argparse.Namespace,
    image: Any,
    geometry: Geometry,
    samples: bool,
    sweeps: int,
    make: Callable[[SweepBar], tuple[MethodResult, str]],
) -> int:
    """Make the result of an image, write its files, print a summary, and return the exit code.

    `make` returns the result and the axes of the image.
    """
    from napari_gsw.core.features.input_maps import format_map_notes
    from napari_gsw.core.image.lazy import is_lazy
    from napari_gsw.files.output_folder import PROVENANCE, output_folder, sibling_name, writable_folder
    from napari_gsw.files.results import check_outputs, make_printable, write_results

    labels, extras = resolve_target(arguments, is_lazy(image)), options.make_output_options(arguments)
    # What is in the way shows before the chain begins.
    check_outputs(labels, extras, samples, is_lazy(image), arguments.overwrite)
    with writable_folder(labels.parent), SweepBar(sweeps, arguments.quiet) as bar:
        outcome, axes = make(bar)
        bar.close()
        with output_folder(labels.parent, sibling_name(labels.name, PROVENANCE), arguments.overwrite) as scratch:
            remarks = write_results(image, axes, outcome, scratch, labels.name, extras, geometry)
        if not arguments.quiet:
            for line in format_map_notes({} if outcome.result is None else outcome.result.problem.maps):
                print_remark(line)
            print(make_printable(summarize(outcome, labels)))
            for remark in remarks:
                print_remark(remark)
    return 0 if bar.stopped is None else 128 + bar.stopped


@contextmanager
def open_checkpoint(
    arguments: argparse.Namespace, choice: Choice, image: Any, arrays: Mapping[str, Any]
) -> Iterator[tuple[Autosave | None, SavedRun | None]]:
    """Open what saves the run, and the run to resume, as far as the options ask for them."""
    every = check_number("--checkpoint-every", arguments.checkpoint_every, 0.0, math.inf)
    if arguments.checkpoint is None:
        if arguments.resume:
            raise InputError("--resume goes on with the run in a checkpoint: name it with --checkpoint FILE")
        yield None, None
        return
    from napari_gsw.files.session_file import Autosave, open_session

    if choice.method != "gsw":
        raise InputError(f"{choice.method} has no state to save; leave --checkpoint out")
    exists = os.path.lexists(arguments.checkpoint)
    saved = open_session(arguments.checkpoint).run if exists and arguments.resume else None
    if exists and saved is None and not arguments.overwrite:
        raise InputError(f"{arguments.checkpoint!r} is there already: add --resume to go on with it, or --overwrite")
    if saved is not None:
        check_same_run(saved, choice, arguments.seed, image, arrays)
    image_path = None if arguments.image.startswith(SAMPLE) else arguments.image
    more = {"image_path": image_path, "overwrite": arguments.overwrite}
    with Autosave(arguments.checkpoint, every, print_remark, **more) as keep:
        yield keep, saved


def check_same_run(saved: SavedRun, choice: Choice, seed: int, image: Any, arrays: Mapping[str, Any]) -> None:
    """Refuse to resume a run of another image, other settings or other arrays."""
    from napari_gsw.core.image.lazy import is_lazy
    from napari_gsw.core.pipeline.provenance import describe_image, hash_inputs

    before, now = saved.settings.to_dict(), choice.settings.to_dict()
    differences = [f"{name} {before[name]}, not {now[name]}" for name in now if before[name] != now[name]]
    if saved.seed != seed:
        differences.append(f"seed {saved.seed}, not {seed}")
    if differences:
        raise InputError(f"the checkpoint belongs to a run with other settings: {'; '.join(differences)}")
    if dict(saved.looks) != describe_image(image):
        raise InputError("the checkpoint belongs to another image")
    # A lazy array is not in the session, and a codebook and its softness belong to the settings.
    theirs = hash_inputs({name: value for name, value in saved.given.items() if name not in ("codebook", "softness")})
    ours = hash_inputs({name: value for name, value in arrays.items() if name in theirs or not is_lazy(value)})
    for name in {**theirs, **ours}:
        if theirs.get(name) != ours.get(name):
            raise InputError(f"the checkpoint belongs to a run with another {name}")


def resolve_target(arguments: argparse.Namespace, lazily: bool = False) -> Path:
    """Return the path of the labels; refuses to replace an input."""
    from napari_gsw.files.output_folder import LABEL_SUFFIXES, sibling_name
    from napari_gsw.files.results import SIBLING_FILES

    output = Path(arguments.output)
    ending = output.suffix.lower()
    if ending in OTHER_IMAGES:
        raise InputError(
            f"labels are written as .tif, .ome.tif, .png, .npy or .zarr, or into a folder, not as {ending}"
        )
    folder, name = output, f"labels.{arguments.format or ('zarr' if lazily else 'tif')}"
    if ending in LABEL_SUFFIXES:
        folder, name = output.parent, output.name
    if lazily and not name.endswith(".zarr"):
        raise InputError(f"labels of an image that is read in blocks are written as .zarr, not as {name!r}")
    target = folder / name
    if os.path.isdir(target) and not name.endswith(".zarr"):
        raise InputError(f"{str(target)!r} is a folder; name a file for the labels")
    # Everything that a run may write, or remove as a leftover of an earlier one.
    outputs = [target, target.with_suffix(".tif"), *(folder / sibling_name(name, other) for other in SIBLING_FILES)]
    inputs = [path for name in INPUTS if (path := getattr(arguments, name, None)) and os.path.exists(path)]
    for path in filter(os.path.exists, outputs):
        if any(os.path.samefile(source, path) for source in inputs):
            raise InputError(f"the output {str(path)!r} would write over an input; choose another name")
    return target


def summarize(outcome: MethodResult, labels_path: Path) -> str:
    """Return a line about a segmentation and its file."""

    def count(number: int, noun: str) -> str:
        return f"{number} {noun}{'' if number == 1 else 's'}"

    result = outcome.result
    if result is None:
        return f"{count(int(outcome.provenance['regions']), 'region')}; written to {labels_path}"
    parts = f", {count(result.n_regions, 'object' if result.has_background else 'region')}"
    parts = "" if result.summary.settings.view == "clusters" else parts
    best = result.snapshot.best
    notes = f"; {result.diagnosis.summary}" if len(result.traces) > 1 else ""
    notes += f"; {result.remark}" if result.remark else ""
    return (
        f"{count(result.n_clusters, 'cluster')}{parts} of {result.problem.n} sites after {result.snapshot.sweep} "
        f"sweeps; best log posterior {best.log_posterior:,.2f} at sweep {best.sweep}{notes}; written to {labels_path}"
    )


class SweepBar:
    """Progress bar of a segmentation. The first Ctrl+C ends the chain and keeps its result.

    `stopped` is the signal that came while the chain ran, SIGINT or SIGTERM, or None.
    """

    def __init__(self, sweeps: int, quiet: bool) -> None:
        from tqdm import tqdm

        tqdm.set_lock(threading.RLock())  # its default is also for processes, and takes longer to import than a bar
        numbers = "{n_fmt}/{total_fmt}{unit} [{elapsed}<{remaining}, {rate_fmt}{postfix}]"
        options: dict[str, Any] = {"bar_format": f"{{desc}}: {{percentage:3.0f}}%|{{bar}}| {numbers}"}
        self.bar = tqdm(total=sweeps, desc="reading", disable=quiet, unit=" sweeps", dynamic_ncols=True, **options)
        self.sweeps = sweeps
        self.stopped: int | None = None
        self._handlers = ExitStack()
        self._unit, self._stage = "sweeps", ""

    def __enter__(self) -> SweepBar:
        from napari_gsw.core.jit import PROGRESS

        self._handlers.enter_context(handle_signals(self._interrupt))
        PROGRESS.watchers.append(self._show_compilation)
        self._handlers.callback(PROGRESS.watchers.remove, self._show_compilation)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        self._handlers.close()

    def close(self) -> None:
        """Draw the bar for the last time."""
        self.bar.close()

    def report(self, stage: Stage, snapshot: Snapshot | None) -> bool:
        """Show the progress of a segmentation; returns whether it is to end."""
        if stage.name == "blocks":  # a large image is read in blocks, which have a bar of their own
            self._count("blocks", stage.total)
            self.bar.set_description_str("reading")
            self.bar.update(stage.done - self.bar.n)
        elif stage.name != self._stage:
            self._count("sweeps", self.sweeps)
            self._stage = stage.name
            self.bar.set_description_str(stage.name)
            if snapshot is not None:  # the speed is that of the chain, without what came before it
                self.bar.reset()
        if snapshot is not None:
            best = f"{snapshot.best.log_posterior:,.1f}"
            self.bar.set_postfix_str(f"{snapshot.n_clusters} clusters, best {best}", refresh=False)
            self.bar.update(snapshot.sweep - self.bar.n)
        return self.stopped is not None

    def _count(self, unit: str, total: int) -> None:
        if unit != self._unit:
            self._unit, self.bar.unit = unit, f" {unit}"
            self.bar.reset(total)

    def _show_compilation(self) -> None:
        from napari_gsw.core.pipeline.warm_up import compiling_stage

        stage = compiling_stage()
        text = self._stage if stage is None else f"compiling, once on this machine, {stage.done} of {stage.total}"
        self.bar.set_description_str(text)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self.stopped is not None or self._stage != "sampling":
            interrupt(number)
        self.stopped = number


def add_replay_parser(commands: Any) -> None:
    """Add the command ``replay`` and its options."""
    command = commands.add_parser(
        "replay",
        usage="%(prog)s SESSION [--image IMAGE] -o OUT [options]",
        help="do a session again: on its own image, on another one, or on every image of a folder",
        description="Do again what a session holds, from the first sweep: on its own image (by hash) with all strokes, "
        "locks and edits, which gives the same labels; on other images with its settings and its seed.",
        epilog="Exit codes: 0 done, 2 wrong input (one line tells), 3 done but for some images of a folder (named).",
        allow_abbrev=False,
    )
    command.set_defaults(run=run_replay)
    command.add_argument("session", metavar="SESSION", help="file of a session (.zarr.zip)")
    command.add_argument("--image", metavar="IMAGE", help="image file or folder (default: the session's own image)")
    options.add_output(command, "folder, or the labels' file")
    command.add_argument("--format", choices=("tif", "png", "zarr"), help="format of the labels in the folder OUT")
    options.add_output_options(command)
    command.add_argument("--jobs", type=options.natural_number, metavar="N", help="processes at a time, for a folder")
    add_flags(command, overwrite=options.OVERWRITE, quiet=options.QUIET)


def run_replay(arguments: argparse.Namespace) -> int:
    """Replay a session."""
    from napari_gsw import methods
    from napari_gsw.core.interactive.interactive_run import replay
    from napari_gsw.core.posterior.result import MethodResult
    from napari_gsw.files import geometry, images, session_file

    session = session_file.open_session(arguments.session)
    if arguments.image is not None and os.path.isdir(arguments.image) and not images.is_zarr(arguments.image):
        return _replay_folder(arguments)
    saved = session.run
    if "images" in saved.looks:
        raise InputError("a session of several images is replayed in Python: napari_gsw.replay")
    other: methods.Choice | None = None  # settings for another image: axes and spacing are its own
    if arguments.image is None:
        image, known = _find_image(session, arguments.session)
    else:
        other = methods.Choice("gsw", saved.settings.replace(axes="auto", spacing="auto"), None)
        image, axes = options.open_named_image(arguments.image, other)
        known = images.read_geometry(arguments.image)
        is_same = bool(saved.looks) and _is_image_of(saved, image)
        other = None if is_same else other.with_axes(axes, arguments.image)
    settings = saved.settings if other is None else other.settings

    def make(bar: SweepBar) -> tuple[MethodResult, str]:
        if other is None:
            result: Any = replay(saved, image, report=bar.report)
            outcome = MethodResult(result.labels, result.provenance, result)
            return outcome, result.summary.settings.axes
        outcome = methods.segment(image, other, saved.seed, report=bar.report)
        bar.close()
        if not arguments.quiet:
            print("napari-gsw: another image than that of the session: its settings and its seed are taken")
        return outcome, settings.axes

    place = geometry.resolve_geometry(known, settings.axes, settings.spacing)
    return make_and_write(arguments, image, place, True, saved.target, make)


def _replay_folder(arguments: argparse.Namespace) -> int:
    """Segment every image of a folder with the settings and the seed of the session, by ``napari-gsw batch``."""
    from napari_gsw.cli import parser

    words = ["batch", arguments.image, "-o", arguments.output, "--settings", arguments.session]
    words += ["--jobs", str(arguments.jobs)] if arguments.jobs else []
    words += ["--format", arguments.format] if arguments.format else []
    switches = ("save_plot", "uncertainty", "table", "save_sites", "overwrite", "quiet")
    words += [f"--{name.replace('_', '-')}" for name in switches if getattr(arguments, name)]
    batch = parser().parse_args(words)
    return int(batch.run(batch))


def _find_image(session: SavedSession, path: str) -> tuple[Any, Geometry]:
    """Find the image of a session by its hash, in the session or in a file that it names."""
    from napari_gsw.core.image.lazy import is_lazy
    from napari_gsw.core.sites.blocked_labels import BlockedLabels
    from napari_gsw.files.geometry import geometry_from_layer
    from napari_gsw.files.images import open_image, read_geometry, read_image
    from napari_gsw.files.session_file import find_image_files

    saved, (first, *_) = session.run, session.images or (None,)
    files = [] if first is None else find_image_files(first, path)
    if first is not None and first.pixels is not None and _is_image_of(saved, first.pixels):
        return first.pixels, geometry_from_layer(first.layer, saved.settings.axes)
    for file in files:
        image, _ = open_image(file)
        if is_lazy(image) and not isinstance(saved.problem.sites, BlockedLabels):  # it was segmented in memory
            image, _ = read_image(file)
        if _is_image_of(saved, image):
            return image, read_geometry(file)
    if not files and (first is None or first.pixels is None):
        raise InputError(f"the image of {path!r} is not where it was; name it with --image")
    raise InputError(
        f"the image of {path!r} is not what was segmented: it has changed, or the session is of a part of it or of "
        "several layers. Open the session in the window; or name an image with --image, to take the settings alone"
    )


def _is_image_of(saved: SavedRun, image: Any) -> bool:
    from napari_gsw.core.pipeline.provenance import describe_image

    return not saved.looks or describe_image(image) == dict(saved.looks)
