"""The command line: ``napari-gsw segment IMAGE -o OUT``.

Exit codes: 0 done, 1 a defect of the program, 2 something the user can mend (said in one line), 130 stopped by Ctrl+C
(what the chain had found until then is written).
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.chain import Snapshot
from napari_gsw.core.errors import InputError
from napari_gsw.core.pipeline import Result, segment
from napari_gsw.core.settings import DEFAULT_PRESET, PRESETS, SECTIONS, Settings, default_words, knobs, preset
from napari_gsw.core.versions import own_version

SAMPLE = "sample:"
LABEL_FILES = (".tif", ".tiff", ".png", ".npy", ".zarr")
OTHER_IMAGES = (".jpg", ".jpeg", ".bmp", ".gif", ".webp")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    given = parser().parse_args(arguments)
    try:
        return int(given.run(given))
    except InputError as reason:
        print(f"napari-gsw: {reason}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("napari-gsw: stopped, nothing was written", file=sys.stderr)
        return 130


class Parser(argparse.ArgumentParser):
    """A parser whose complaint is one line, like every other error."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"napari-gsw: {message}; {self.prog} --help tells more\n")


def parser() -> argparse.ArgumentParser:
    """All commands and options; those of the settings are made from their declaration."""
    top = Parser(prog="napari-gsw", description="Bayesian image segmentation.", allow_abbrev=False)
    top.add_argument("--version", action="version", version=f"napari-gsw {own_version()}")
    commands = top.add_subparsers(required=True, metavar="COMMAND")

    one = commands.add_parser(
        "segment",
        usage="%(prog)s IMAGE -o OUT [options]",
        help="segment one image",
        description="Segment one image: writes labels, provenance.json and trace.csv into the folder OUT.",
        epilog="Exit codes: 0 done, 2 wrong input (one line tells), 130 stopped by Ctrl+C (the result so far is kept).",
        allow_abbrev=False,
    )
    one.set_defaults(run=run_segment)
    one.add_argument(
        "image", metavar="IMAGE", help="image file, or sample:astronaut, sample:tissue, sample:mosaic, sample:mosaic_3d"
    )
    one.add_argument(
        "-o", "--output", metavar="OUT", required=True, help="folder to write into, or the labels' file (.tif, .png)"
    )
    one.add_argument(
        "--preset",
        default=DEFAULT_PRESET,
        help=f"settings to start from: {', '.join(PRESETS)} (default {DEFAULT_PRESET})",
    )
    one.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="change one setting; may be repeated"
    )
    one.add_argument(
        "--seed", type=_whole, default=0, help="seed of the chain; the same seed gives the same labels (default 0)"
    )
    one.add_argument("--mask", metavar="FILE", help="image that is non-zero where to segment")
    one.add_argument("--sites", metavar="FILE", help="label image of your own superpixels; 0 is background")
    one.add_argument(
        "--seeds", metavar="FILE", help="label image whose non-zero pixels clamp their sites to that label"
    )
    one.add_argument("--init", metavar="FILE", help="label image to start the chain from")
    one.add_argument(
        "--format", choices=("tif", "png"), default="tif", help="format of the labels in the folder OUT (default tif)"
    )
    one.add_argument("--save-plot", action="store_true", help="also write overlay.png, trace.png and uncertainty.png")
    one.add_argument("--save-sites", action="store_true", help="also write the superpixels as sites.tif")
    one.add_argument("-q", "--quiet", action="store_true", help="print nothing but errors")
    add_settings(one)

    window = commands.add_parser(
        "gui", help="open napari with the widget docked", description="Open napari with the widget docked."
    )
    window.set_defaults(run=run_gui)
    window.add_argument("image", metavar="IMAGE", nargs="?", help="image file, or a sample such as sample:astronaut")
    return top


def add_settings(command: argparse.ArgumentParser) -> None:
    """An option for every setting, grouped by section."""
    for section in SECTIONS:
        group = command.add_argument_group(f"settings: {section}")
        for name, knob in knobs().items():
            if knob.section == section:
                symbol = f" [{knob.symbol}]" if knob.symbol else ""
                text = f"{knob.help}{symbol} ({knob.allowed}; default {default_words(name)})"
                flag = f"--{name.replace('_', '-')}"
                group.add_argument(flag, dest=f"set_{name}", metavar="VALUE", help=text.replace("%", "%%"))


def chosen_settings(given: argparse.Namespace) -> Settings:
    """Preset, then ``--set``, then options of their own; the last word counts."""
    changes: dict[str, Any] = {}
    for pair in given.set:
        name, equals, value = pair.partition("=")
        if not equals:
            raise InputError(f"--set takes NAME=VALUE, not {pair!r}")
        changes[name.strip().replace("-", "_")] = value.strip()
    changes |= {n: v for n in knobs() if (v := getattr(given, f"set_{n}")) is not None}
    return preset(given.preset, **changes)


def run_segment(given: argparse.Namespace) -> int:
    """``napari-gsw segment``."""
    from napari_gsw.io import COMPANIONS, companion, output_folder, read_labels, write_result

    settings = chosen_settings(given)
    image, axes = _image(given.image)
    if settings.axes == "auto":
        settings = settings.replace(axes=axes)
    files: dict[str, Any] = {
        name: read_labels(path)
        for name in ("mask", "sites", "seeds", "init")
        if (path := getattr(given, name)) is not None
    }
    folder, name = _targets(given)
    ours = [companion(name, other) for other in COMPANIONS]
    with output_folder(folder, ours) as scratch, Progress(settings.sweeps, given.quiet) as progress:
        result = segment(image, settings, seed=given.seed, report=progress.report, **files)
        progress.close()
        remarks = write_result(result, scratch, name, given.save_sites)
        if given.save_plot:
            _plots(image, settings.axes, result, scratch, name)
    if not given.quiet:
        print(summary(result, folder / name))
        for remark in remarks:
            print(f"napari-gsw: {remark}", file=sys.stderr)
    return 130 if progress.stopped else 0


def _targets(given: argparse.Namespace) -> tuple[Path, str]:
    """The folder to write into and the name of the labels in it; nothing that was read is written over."""
    from napari_gsw.io import COMPANIONS, companion

    output = Path(given.output)
    kind = output.suffix.lower()
    if kind in OTHER_IMAGES:
        raise InputError(f"labels are written as .tif, .ome.tif, .png, .npy or .zarr, or into a folder, not as {kind}")
    if kind in LABEL_FILES:
        folder, name = output.parent, output.name
    else:
        folder, name = output, f"labels.{given.format}"
    target = folder / name
    if os.path.isdir(target) and kind != ".zarr":
        raise InputError(f"{str(target)!r} is a folder; name a file for the labels")
    # Everything that a run writes, or clears away as left over from an earlier one.
    written = [target, target.with_suffix(".tif"), *(folder / companion(name, other) for other in COMPANIONS)]
    for source in (given.image, given.mask, given.sites, given.seeds, given.init):
        if source is None or not os.path.exists(source):
            continue
        for path in written:
            if os.path.exists(path) and os.path.samefile(source, path):
                raise InputError(f"the output {str(path)!r} would write over an input; choose another name")
    return folder, name


def run_gui(given: argparse.Namespace) -> int:
    """``napari-gsw gui``."""
    try:
        import napari
    except ImportError:
        raise InputError('napari is not installed; try: pip install "napari-gsw[all]"') from None
    image = None if given.image is None else _image(given.image)[0]
    viewer = napari.Viewer()
    if given.image is not None:
        viewer.add_image(image, name=Path(given.image.removeprefix(SAMPLE)).stem)
    viewer.window.add_plugin_dock_widget("napari-gsw", "GSW segmentation")
    napari.run()
    return 0


def summary(result: Result, labels: Path) -> str:
    best, count = result.snapshot.best, result.n_clusters
    return (
        f"{count} cluster{'' if count == 1 else 's'} of {result.problem.n} sites after {result.snapshot.sweep} sweeps; "
        f"best log posterior {best.log_posterior:,.2f} at sweep {best.sweep}; written to {labels}"
    )


def _plots(image: NDArray[Any], axes: str, result: Result, folder: Path, labels_name: str) -> None:
    from napari_gsw import plots
    from napari_gsw.io import companion

    plots.save_overlay(image, result.labels, folder / companion(labels_name, "overlay.png"), axes)
    plots.save_trace(result.traces, folder / companion(labels_name, "trace.png"))
    plots.save_uncertainty(result, folder / companion(labels_name, "uncertainty.png"))


def _image(name: str) -> tuple[NDArray[Any], str]:
    from napari_gsw.io import read_image
    from napari_gsw.sample_data import sample

    if name.startswith(SAMPLE):
        return np.asarray(sample(name.removeprefix(SAMPLE))[0]), "auto"
    return read_image(name)


def _whole(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError("seed must be a whole number >= 0")
    return value


class Progress:
    """The bar of a segmentation, and its Ctrl+C: the first one ends the chain and keeps what it has found."""

    def __init__(self, sweeps: int, quiet: bool) -> None:
        from tqdm import tqdm

        form = (
            "{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} sweeps [{elapsed}<{remaining}, {rate_fmt}{postfix}]"
        )
        self.bar = tqdm(
            total=sweeps, desc="reading", disable=quiet, unit=" sweeps", bar_format=form, dynamic_ncols=True
        )
        self.stopped = False
        self._stage = ""

    def __enter__(self) -> Progress:
        self._before = signal.signal(signal.SIGINT, self._interrupt)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        signal.signal(signal.SIGINT, self._before)

    def close(self) -> None:
        self.bar.close()

    def report(self, stage: str, snapshot: Snapshot | None) -> bool:
        if stage != self._stage:
            self._stage = stage
            self.bar.set_description_str(stage)
            if snapshot is not None:  # the speed is that of the chain, without what came before it
                self.bar.reset()
        if snapshot is not None:
            best = f"{snapshot.best.log_posterior:,.1f}"
            self.bar.set_postfix_str(f"{snapshot.n_clusters} clusters, best {best}", refresh=False)
            self.bar.update(snapshot.sweep - self.bar.n)
        return self.stopped

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self.stopped or self._stage != "sampling":
            raise KeyboardInterrupt
        self.stopped = True
