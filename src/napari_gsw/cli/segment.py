"""``segment --checkpoint FILE [--resume]``: a run that was killed goes on where it was."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from napari_gsw.cli.options import (
    add_choices,
    choice_from_arguments,
    open_image_to_segment,
    output_argument,
    resolve_choices,
    without_gc,
)
from napari_gsw.cli.progress import SweepBar
from napari_gsw.core.errors import InputError

if TYPE_CHECKING:
    from napari_gsw.core.pipeline.saved_run import SavedRun
    from napari_gsw.files.autosave import Autosave
    from napari_gsw.methods import Choice


class Checkpoint(NamedTuple):
    """How a run is kept, if it is, and what it goes on from, if there is something."""

    keep: Autosave | None = None
    saved: SavedRun | None = None


def add_checkpoint_options(command: argparse.ArgumentParser) -> None:
    """The options."""
    command.add_argument(
        "--checkpoint",
        metavar="FILE",
        help="save the run to FILE (.zarr.zip) again and again and at its end; the window opens it, too",
    )
    command.add_argument(
        "--checkpoint-every", metavar="SECONDS", type=float, default=30.0, help="how often it is saved (default 30)"
    )
    command.add_argument(
        "--resume",
        action="store_true",
        help="go on with the run in the checkpoint, if there is one; the labels are those of a run that never stopped",
    )


@contextmanager
def open_checkpoint(
    arguments: argparse.Namespace, choice: Choice, image: Any, arrays: Mapping[str, Any]
) -> Iterator[Checkpoint]:
    """The checkpoint that the options ask for; at the end of the block the last state is on the disk."""
    if arguments.checkpoint is None:
        if arguments.resume:
            raise InputError("--resume goes on with the run in a checkpoint: name it with --checkpoint FILE")
        yield Checkpoint()
        return
    from napari_gsw.files.autosave import Autosave
    from napari_gsw.files.session_file import open_session

    if choice.method != "gsw":
        raise InputError(f"{choice.method} has no state to save; leave --checkpoint out")
    there = os.path.lexists(arguments.checkpoint)
    saved = open_session(arguments.checkpoint).run if there and arguments.resume else None
    if there and saved is None and not arguments.overwrite:
        raise InputError(f"{arguments.checkpoint!r} is there already: add --resume to go on with it, or --overwrite")
    if saved is not None:
        check_same_run(saved, choice, arguments.seed, image, arrays)
    place = None if arguments.image.startswith("sample:") else arguments.image
    every, overwrite = arguments.checkpoint_every, arguments.overwrite
    with Autosave(arguments.checkpoint, every, _tell, image_path=place, overwrite=overwrite) as keep:
        yield Checkpoint(keep, saved)


def check_same_run(saved: SavedRun, choice: Choice, seed: int, image: Any, arrays: Mapping[str, Any]) -> None:
    """Refuse to go on with a run of another image, other settings or other arrays: the labels would be of neither."""
    from napari_gsw.core.image.lazy import is_lazy
    from napari_gsw.core.pipeline.provenance import describe_image, hash_inputs

    before, now = saved.settings.to_dict(), choice.settings.to_dict()
    other = [f"{name} {before[name]}, not {now[name]}" for name in now if before[name] != now[name]]
    if saved.seed != seed:
        other.append(f"seed {saved.seed}, not {seed}")
    if other:
        raise InputError(f"the checkpoint belongs to a run with other settings: {'; '.join(other)}")
    if dict(saved.looks) != describe_image(image):
        raise InputError("the checkpoint belongs to another image")
    # A lazy array is not in the session; a codebook and its softness are a matter of the settings.
    theirs = hash_inputs({name: value for name, value in saved.given.items() if name not in ("codebook", "softness")})
    ours = hash_inputs({name: value for name, value in arrays.items() if name in theirs or not is_lazy(value)})
    differing = [name for name in {**theirs, **ours} if theirs.get(name) != ours.get(name)]
    if differing:
        raise InputError(f"the checkpoint belongs to a run with another {differing[0]}")


def _tell(sentence: str) -> None:
    print(f"napari-gsw: {sentence}", file=sys.stderr)


if TYPE_CHECKING:
    from napari_gsw.core.posterior.result import MethodResult, Result
    from napari_gsw.files.geometry import Geometry
    from napari_gsw.files.results import OutputOptions

LABEL_FILES = (".tif", ".tiff", ".png", ".npy", ".zarr")
# What is read, and must not be written over.
INPUTS = ("image", "mask", "sites", "seeds", "init", "features", "boundaries", "foreground", "session")
OTHER_IMAGES = (".jpg", ".jpeg", ".bmp", ".gif", ".webp")


def add_parser(commands: Any) -> None:
    """Add the command and its options to the parsers of all commands."""
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
    command.add_argument(
        "image", metavar="IMAGE", help="image file, or sample:astronaut, sample:tissue, sample:mosaic, sample:mosaic_3d"
    )
    command.add_argument(
        "-o",
        "--output",
        metavar="OUT",
        type=output_argument,
        required=True,
        help="folder to write into, or the labels' file (.tif, .png)",
    )
    command.add_argument("--mask", metavar="FILE", help="image that is non-zero where to segment")
    command.add_argument("--sites", metavar="FILE", help="label image of your own superpixels; 0 is background")
    command.add_argument(
        "--seeds",
        metavar="FILE",
        help="label image of strokes: non-zero pixels clamp their sites to that label, or a method spreads it",
    )
    command.add_argument("--init", metavar="FILE", help="label image to start the chain from")
    add_map_options(command)
    command.add_argument(
        "--format",
        choices=("tif", "png", "zarr"),
        help="format of the labels in the folder OUT (default tif; zarr for a zarr image that is read in blocks)",
    )
    add_output_options(command)
    add_checkpoint_options(command)
    command.add_argument(
        "--overwrite", action="store_true", help="write over files that are in the way and are not ours"
    )
    command.add_argument("-q", "--quiet", action="store_true", help="print nothing but errors")
    add_choices(command)


def add_map_options(command: argparse.ArgumentParser) -> None:
    """Maps that are evidence beside the image; TIFF, .npy, zarr or HDF5 (file.h5/dataset)."""
    command.add_argument(
        "--features", metavar="FILE", help="map of features with any number of channels, on the first or the last axis"
    )
    command.add_argument(
        "--boundaries", metavar="FILE", help="map of how probable a boundary is; it becomes couplings of both signs"
    )
    command.add_argument(
        "--foreground", metavar="FILE", help="map of how probable the foreground is; it names the background's cluster"
    )


def add_output_options(command: argparse.ArgumentParser) -> None:
    """What else is written beside the labels."""
    command.add_argument(
        "--save-plot", action="store_true", help="also write overlay.png, trace.png and uncertainty.png"
    )
    command.add_argument(
        "--uncertainty",
        action="store_true",
        help="also write entropy.tif, boundary.tif, contour.tif, people.tif, the range of plausible segmentations and "
        "posterior.json with the agreement of the chains",
    )
    command.add_argument(
        "--table",
        action="store_true",
        help="also write regions.csv: size, place, values, shape and certainty, a row for each label",
    )
    command.add_argument("--save-sites", action="store_true", help="also write the superpixels as sites.tif")


def run_segment(arguments: argparse.Namespace) -> int:
    """``napari-gsw segment``."""
    with without_gc():
        resolve_choices(arguments)
        from napari_gsw.core.features.input_maps import MAP_NAMES
        from napari_gsw.core.image.lazy import is_lazy
        from napari_gsw.core.jit import cache_folder
        from napari_gsw.core.pipeline.warm_up import is_cold, warm_up
        from napari_gsw.files.images import open_labels, read_labels
        from napari_gsw.files.maps import open_map_file
        from napari_gsw.files.output_folder import writable_folder
        from napari_gsw.files.results import OutputOptions, check_outputs, list_output_files
        from napari_gsw.methods import METHODS, segment

    if (notice := cache_folder().notice) and not arguments.quiet:
        print(f"napari-gsw: {notice}", file=sys.stderr)
    choice = choice_from_arguments(arguments)
    image, axes = open_image_to_segment(arguments.image, choice)
    choice = choice.with_axes(axes).with_spacing(arguments.image)
    where, lazily = choice.place(arguments.image), is_lazy(image)
    arrays: dict[str, Any] = {
        name: open_labels(path) if lazily else read_labels(path)
        for name in ("mask", "sites", "seeds", "init")
        if (path := getattr(arguments, name)) is not None
    }
    arrays |= {
        name: open_map_file(path, lazily) for name in MAP_NAMES if (path := getattr(arguments, name)) is not None
    }
    folder, name = resolve_target(arguments, lazily)
    extras = OutputOptions(arguments.save_sites, arguments.save_plot, arguments.uncertainty, arguments.table)
    # All that can be in the way is seen before the chain begins.
    names = list_output_files(name, extras, METHODS[choice.method].samples, lazily)
    check_outputs(folder, names, arguments.overwrite)
    with writable_folder(folder), SweepBar(choice.settings.sweeps, arguments.quiet) as progress:
        if choice.method == "gsw" and is_cold():
            warm_up()
        with open_checkpoint(arguments, choice, image, arrays) as (keep, saved):
            outcome = segment(image, choice, arguments.seed, report=progress.report, keep=keep, saved=saved, **arrays)
        progress.close()
        write_and_report(arguments, image, choice.settings.axes, outcome, (folder, name), extras, where)
    return 0 if progress.stopped is None else 128 + progress.stopped


def write_and_report(
    arguments: argparse.Namespace,
    image: Any,
    axes: str,
    outcome: MethodResult,
    target: tuple[Path, str],
    extras: OutputOptions,
    place: Geometry,
) -> None:
    """Write what was made of an image to its `target`, a folder and the name of the labels, and say so in a line."""
    from napari_gsw.core.features.input_maps import format_map_notes
    from napari_gsw.files.output_folder import PROVENANCE, output_folder, sibling_name
    from napari_gsw.files.results import make_printable, write_results

    folder, name = target
    with output_folder(folder, sibling_name(name, PROVENANCE), arguments.overwrite) as scratch:
        remarks = write_results(image, axes, outcome, scratch, name, extras, place)
    if not arguments.quiet:
        maps = {} if outcome.result is None else outcome.result.problem.maps
        for line in format_map_notes(maps):
            print(f"napari-gsw: {line}", file=sys.stderr)
        print(make_printable(summary(outcome, folder / name)))
        for remark in remarks:
            print(f"napari-gsw: {remark}", file=sys.stderr)


def resolve_target(arguments: argparse.Namespace, lazily: bool = False) -> tuple[Path, str]:
    """The folder to write into and the name of the labels in it; nothing that was read is written over."""
    from napari_gsw.files.output_folder import sibling_name
    from napari_gsw.files.results import SIBLING_FILES

    output = Path(arguments.output)
    ending = output.suffix.lower()
    if ending in OTHER_IMAGES:
        raise InputError(
            f"labels are written as .tif, .ome.tif, .png, .npy or .zarr, or into a folder, not as {ending}"
        )
    if ending in LABEL_FILES:
        folder, name = output.parent, output.name
    else:
        folder, name = output, f"labels.{arguments.format or ('zarr' if lazily else 'tif')}"
    if lazily and not name.endswith(".zarr"):
        raise InputError(f"labels of an image that is read in blocks are written as .zarr, not as {name!r}")
    target = folder / name
    if os.path.isdir(target) and not name.endswith(".zarr"):
        raise InputError(f"{str(target)!r} is a folder; name a file for the labels")
    # Everything that a run may write, or clear away as left over from an earlier one.
    outputs = [target, target.with_suffix(".tif"), *(folder / sibling_name(name, other) for other in SIBLING_FILES)]
    inputs = [getattr(arguments, name, None) for name in INPUTS]
    for source in inputs:
        if source is None or not os.path.exists(source):
            continue
        for path in outputs:
            if os.path.exists(path) and os.path.samefile(source, path):
                raise InputError(f"the output {str(path)!r} would write over an input; choose another name")
    return folder, name


def summary(outcome: MethodResult, labels_path: Path) -> str:
    """What an image was segmented into and where the labels are, in one line."""
    if outcome.result is None:
        return f"{_many(int(outcome.provenance['regions']), 'region')}; written to {labels_path}"
    result = outcome.result
    parts = "" if result.summary.settings.view == "clusters" else f", {_many(result.n_regions, _part(result))}"
    best = result.snapshot.best
    verdict = f"; {result.diagnosis.summary}" if len(result.traces) > 1 else ""
    verdict += f"; {result.remark}" if result.remark else ""
    return (
        f"{_many(result.n_clusters, 'cluster')}{parts} of {result.problem.n} sites after {result.snapshot.sweep} "
        f"sweeps; best log posterior {best.log_posterior:,.2f} at sweep {best.sweep}{verdict}; written to {labels_path}"
    )


def _part(result: Result) -> str:
    return "object" if result.has_background else "region"


def _many(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"
