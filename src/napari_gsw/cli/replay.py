"""``napari-gsw replay SESSION [--image IMAGE] -o OUT``."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from napari_gsw.cli.options import natural_number, output_argument
from napari_gsw.cli.progress import SweepBar
from napari_gsw.cli.segment import add_output_options, resolve_target, write_and_report
from napari_gsw.core.errors import InputError

if TYPE_CHECKING:
    from napari_gsw.core.interactive.saved_session import SavedSession
    from napari_gsw.core.pipeline.saved_run import SavedRun
    from napari_gsw.files.geometry import Geometry
    from napari_gsw.methods import Choice


def add_parser(commands: Any) -> None:
    """Add the command and its options to the parsers of all commands."""
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
    command.add_argument(
        "-o", "--output", metavar="OUT", type=output_argument, required=True, help="folder, or the labels' file"
    )
    command.add_argument("--format", choices=("tif", "png", "zarr"), help="format of the labels in the folder OUT")
    add_output_options(command)
    command.add_argument("--jobs", type=natural_number, metavar="N", help="processes at a time, for a folder")
    command.add_argument(
        "--overwrite", action="store_true", help="write over files that are in the way and are not ours"
    )
    command.add_argument("-q", "--quiet", action="store_true", help="print nothing but errors")


def run_replay(arguments: argparse.Namespace) -> int:
    """``napari-gsw replay``."""
    from napari_gsw.core.image.lazy import is_lazy
    from napari_gsw.core.interactive.replay import replay
    from napari_gsw.core.posterior.result import MethodResult
    from napari_gsw.files.geometry import resolve_geometry
    from napari_gsw.files.images import read_geometry_or_unknown
    from napari_gsw.files.output_folder import writable_folder
    from napari_gsw.files.results import OutputOptions, check_outputs, list_output_files
    from napari_gsw.files.session_file import open_session
    from napari_gsw.methods import segment

    session = open_session(arguments.session)
    if arguments.image is not None and _is_folder(arguments.image):
        return _replay_folder(arguments)
    saved = session.run
    if "images" in saved.looks:
        raise InputError("a session of several images is replayed in Python: napari_gsw.replay")
    other: Choice | None = None
    if arguments.image is None:
        image, known = _own_image(session, arguments.session)
    else:
        (other, image), known = _other_image(saved, arguments.image), read_geometry_or_unknown(arguments.image)
    settings = saved.settings if other is None else other.settings
    place = resolve_geometry(known, settings.axes, settings.spacing)
    folder, name = resolve_target(arguments, is_lazy(image))
    extras = OutputOptions(arguments.save_sites, arguments.save_plot, arguments.uncertainty, arguments.table)
    check_outputs(folder, list_output_files(name, extras, True, is_lazy(image)), arguments.overwrite)
    with writable_folder(folder), SweepBar(saved.target, arguments.quiet) as progress:
        if other is None:
            result: Any = replay(saved, image, report=progress.report)
            axes, outcome = result.summary.settings.axes, MethodResult(result.labels, result.provenance, result)
        else:
            axes, outcome = other.settings.axes, segment(image, other, saved.seed, report=progress.report)
        progress.close()
        if other is not None and not arguments.quiet:
            print("napari-gsw: another image than that of the session: its settings and its seed are taken")
        write_and_report(arguments, image, axes, outcome, (folder, name), extras, place)
    return 0 if progress.stopped is None else 128 + progress.stopped


def _replay_folder(arguments: argparse.Namespace) -> int:
    """The settings and the seed of the session, on every image of a folder, as ``napari-gsw batch`` does it."""
    from napari_gsw.cli import parser

    words = ["batch", arguments.image, "-o", arguments.output, "--settings", arguments.session]
    words += ["--jobs", str(arguments.jobs)] if arguments.jobs else []
    words += ["--format", arguments.format] if arguments.format else []
    switches = ("save_plot", "uncertainty", "table", "save_sites", "overwrite", "quiet")
    words += [f"--{name.replace('_', '-')}" for name in switches if getattr(arguments, name)]
    batch = parser().parse_args(words)
    return int(batch.run(batch))


def _own_image(session: SavedSession, path: str) -> tuple[Any, Geometry]:
    """The image that a session worked on, which is known by its hash, and where its pixels lie.

    It is the one in the session, or that of one of its places.
    """
    from napari_gsw.core.image.lazy import is_lazy
    from napari_gsw.core.sites.blocked_labels import BlockedLabels
    from napari_gsw.files.geometry import geometry_from_layer
    from napari_gsw.files.images import open_image, read_geometry_or_unknown, read_image
    from napari_gsw.files.session_file import find_image_files

    saved, (first, *_) = session.run, session.images or (None,)
    places = [] if first is None else find_image_files(first, path)
    if first is not None and first.pixels is not None and _is_own(saved, first.pixels):
        return first.pixels, geometry_from_layer(first.layer, saved.settings.axes)
    for place in places:
        image, _ = open_image(place)
        if is_lazy(image) and not isinstance(saved.problem.sites, BlockedLabels):  # it was not worked on in blocks
            image, _ = read_image(place)
        if _is_own(saved, image):
            return image, read_geometry_or_unknown(place)
    if not places and (first is None or first.pixels is None):
        raise InputError(f"the image of {path!r} is not where it was; name it with --image")
    raise InputError(
        f"the image of {path!r} is not what was segmented: it has changed, or the session is of a part of it or of "
        "several layers. Open the session in the window; or name an image with --image, to take the settings alone"
    )


def _is_own(saved: SavedRun, image: Any) -> bool:
    from napari_gsw.core.pipeline.provenance import describe_image

    return not saved.looks or describe_image(image) == dict(saved.looks)


def _other_image(saved: SavedRun, name: str) -> tuple[Choice | None, Any]:
    """An image that was named, and how to segment it: axes and spacing are its own. None if it is the session's."""
    from napari_gsw.cli.options import open_image_to_segment
    from napari_gsw.methods import Choice

    choice = Choice("gsw", saved.settings.replace(axes="auto", spacing="auto"), None)
    image, axes = open_image_to_segment(name, choice)
    return (None if saved.looks and _is_own(saved, image) else choice.with_axes(axes).with_spacing(name)), image


def _is_folder(path: str) -> bool:
    """Whether images are meant that lie in a folder; a zarr is an image."""
    from napari_gsw.files.zarr_io import is_zarr

    return os.path.isdir(path) and not is_zarr(Path(path))
