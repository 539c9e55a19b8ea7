"""``napari-gsw segment IMAGE -o OUT``."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from napari_gsw.cli.checkpoint import add_checkpoint_options, checkpointed
from napari_gsw.cli.choices import add_choices, chosen, image_to_segment, output_argument, resolve_choices
from napari_gsw.cli.loading import loading
from napari_gsw.cli.progress import SweepBar
from napari_gsw.core.errors import InputError

if TYPE_CHECKING:
    from napari_gsw.core.posterior.result import Outcome, Result
    from napari_gsw.files.geometry import Geometry
    from napari_gsw.files.results import Extras

LABEL_FILES = (".tif", ".tiff", ".png", ".npy", ".zarr")
# What is read, and must not be written over.
INPUTS = ("image", "mask", "sites", "seeds", "init", "features", "boundaries", "foreground", "session")
OTHER_IMAGES = (".jpg", ".jpeg", ".bmp", ".gif", ".webp")


def add_to(commands: Any) -> None:
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
    add_maps(command)
    command.add_argument(
        "--format",
        choices=("tif", "png", "zarr"),
        help="format of the labels in the folder OUT (default tif; zarr for a zarr image that is read in blocks)",
    )
    add_extras(command)
    add_checkpoint_options(command)
    command.add_argument(
        "--overwrite", action="store_true", help="write over files that are in the way and are not ours"
    )
    command.add_argument("-q", "--quiet", action="store_true", help="print nothing but errors")
    add_choices(command)


def add_maps(command: argparse.ArgumentParser) -> None:
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


def add_extras(command: argparse.ArgumentParser) -> None:
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
    with loading():
        resolve_choices(arguments)
        from napari_gsw.core.evidence.given_maps import MAPS
        from napari_gsw.core.image.lazy import is_lazy
        from napari_gsw.core.jit import cache_folder
        from napari_gsw.core.pipeline.warm_up import is_cold, warm_up
        from napari_gsw.files.folders import writable_folder
        from napari_gsw.files.images import open_labels, read_labels
        from napari_gsw.files.maps import open_map_file
        from napari_gsw.files.results import Extras, check_results, planned_files
        from napari_gsw.methods.registry import METHODS, segment

    if (notice := cache_folder().notice) and not arguments.quiet:
        print(f"napari-gsw: {notice}", file=sys.stderr)
    choice = chosen(arguments)
    image, axes = image_to_segment(arguments.image, choice)
    choice = choice.with_axes(axes).with_spacing(arguments.image)
    where, lazily = choice.place(arguments.image), is_lazy(image)
    arrays: dict[str, Any] = {
        name: open_labels(path) if lazily else read_labels(path)
        for name in ("mask", "sites", "seeds", "init")
        if (path := getattr(arguments, name)) is not None
    }
    arrays |= {name: open_map_file(path, lazily) for name in MAPS if (path := getattr(arguments, name)) is not None}
    folder, name = targets(arguments, lazily)
    extras = Extras(arguments.save_sites, arguments.save_plot, arguments.uncertainty, arguments.table)
    # All that can be in the way is seen before the chain begins.
    names = planned_files(name, extras, METHODS[choice.method].samples, lazily)
    check_results(folder, names, arguments.overwrite)
    with writable_folder(folder), SweepBar(choice.settings.sweeps, arguments.quiet) as progress:
        if choice.method == "gsw" and is_cold():
            warm_up()
        with checkpointed(arguments, choice, image, arrays) as (keep, saved):
            outcome = segment(image, choice, arguments.seed, report=progress.report, keep=keep, saved=saved, **arrays)
        progress.close()
        write_and_tell(arguments, image, choice.settings.axes, outcome, (folder, name), extras, where)
    return 0 if progress.stopped is None else 128 + progress.stopped


def write_and_tell(
    arguments: argparse.Namespace,
    image: Any,
    axes: str,
    outcome: Outcome,
    target: tuple[Path, str],
    extras: Extras,
    place: Geometry,
) -> None:
    """Write what was made of an image to its `target`, a folder and the name of the labels, and say so in a line."""
    from napari_gsw.core.evidence.given_maps import note_lines
    from napari_gsw.files.folders import output_folder
    from napari_gsw.files.label_formats import companion
    from napari_gsw.files.ownership import PROVENANCE
    from napari_gsw.files.results import write_outcome
    from napari_gsw.files.tables import printable

    folder, name = target
    with output_folder(folder, companion(name, PROVENANCE), arguments.overwrite) as scratch:
        remarks = write_outcome(image, axes, outcome, scratch, name, extras, place)
    if not arguments.quiet:
        maps = {} if outcome.result is None else outcome.result.problem.maps
        for line in note_lines(maps):
            print(f"napari-gsw: {line}", file=sys.stderr)
        print(printable(summary(outcome, folder / name)))
        for remark in remarks:
            print(f"napari-gsw: {remark}", file=sys.stderr)


def targets(arguments: argparse.Namespace, lazily: bool = False) -> tuple[Path, str]:
    """The folder to write into and the name of the labels in it; nothing that was read is written over."""
    from napari_gsw.files.label_formats import companion
    from napari_gsw.files.results import COMPANIONS

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
    outputs = [target, target.with_suffix(".tif"), *(folder / companion(name, other) for other in COMPANIONS)]
    inputs = [getattr(arguments, name, None) for name in INPUTS]
    for source in inputs:
        if source is None or not os.path.exists(source):
            continue
        for path in outputs:
            if os.path.exists(path) and os.path.samefile(source, path):
                raise InputError(f"the output {str(path)!r} would write over an input; choose another name")
    return folder, name


def summary(outcome: Outcome, labels_path: Path) -> str:
    """What an image was segmented into and where the labels are, in one line."""
    if outcome.result is None:
        return f"{_many(int(outcome.provenance['regions']), 'region')}; written to {labels_path}"
    result = outcome.result
    parts = "" if result.summary.settings.view == "clusters" else f", {_many(result.n_regions, _part(result))}"
    best = result.snapshot.best
    verdict = f"; {result.diagnosis.sentence}" if len(result.traces) > 1 else ""
    verdict += f"; {result.remark}" if result.remark else ""
    return (
        f"{_many(result.n_clusters, 'cluster')}{parts} of {result.problem.n} sites after {result.snapshot.sweep} "
        f"sweeps; best log posterior {best.log_posterior:,.2f} at sweep {best.sweep}{verdict}; written to {labels_path}"
    )


def _part(result: Result) -> str:
    return "object" if result.objects else "region"


def _many(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"
