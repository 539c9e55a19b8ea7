"""``napari-gsw replay SESSION [--image IMAGE] -o OUT``."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from napari_gsw.cli.options import (
    add_output,
    add_output_options,
    add_overwrite_and_quiet,
    make_output_options,
    natural_number,
    open_named_image,
)
from napari_gsw.cli.segment import SweepBar, resolve_target, write_and_report
from napari_gsw.core.errors import InputError

if TYPE_CHECKING:
    from napari_gsw.core.interactive.saved_session import SavedSession
    from napari_gsw.core.pipeline.saved_run import SavedRun
    from napari_gsw.files.geometry import Geometry


def add_parser(commands: Any) -> None:
    """Add the command and its options."""
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
    add_output(command, "folder, or the labels' file")
    command.add_argument("--format", choices=("tif", "png", "zarr"), help="format of the labels in the folder OUT")
    add_output_options(command)
    command.add_argument("--jobs", type=natural_number, metavar="N", help="processes at a time, for a folder")
    add_overwrite_and_quiet(command)


def run_replay(arguments: argparse.Namespace) -> int:
    """Replay a session."""
    from napari_gsw import methods
    from napari_gsw.core.image.lazy import is_lazy
    from napari_gsw.core.interactive.replay import replay
    from napari_gsw.core.posterior.result import MethodResult
    from napari_gsw.files import geometry, images, output_folder, results, session_file

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
        image, axes = open_named_image(arguments.image, other)
        known = images.read_geometry(arguments.image)
        is_same = bool(saved.looks) and _is_image_of(saved, image)
        other = None if is_same else other.with_axes(axes).with_spacing(arguments.image)
    settings = saved.settings if other is None else other.settings
    place = geometry.resolve_geometry(known, settings.axes, settings.spacing)
    folder, name = resolve_target(arguments, is_lazy(image))
    names = results.list_output_files(name, make_output_options(arguments), True, is_lazy(image))
    results.check_outputs(folder, names, arguments.overwrite)
    with output_folder.writable_folder(folder), SweepBar(saved.target, arguments.quiet) as progress:
        if other is None:
            result: Any = replay(saved, image, report=progress.report)
            axes, outcome = result.summary.settings.axes, MethodResult(result.labels, result.provenance, result)
        else:
            axes, outcome = other.settings.axes, methods.segment(image, other, saved.seed, report=progress.report)
        progress.close()
        if other is not None and not arguments.quiet:
            print("napari-gsw: another image than that of the session: its settings and its seed are taken")
        write_and_report(arguments, image, axes, outcome, folder / name, place)
    return 0 if progress.stopped is None else 128 + progress.stopped


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
