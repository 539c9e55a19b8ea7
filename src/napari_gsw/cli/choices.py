"""What several commands share: options of methods and of jobs, what they mean, and the images they name."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_gsw.core.errors import InputError
from napari_gsw.core.presets import DEFAULT_PRESET, PRESETS, default_words
from napari_gsw.core.settings import SECTIONS, declarations
from napari_gsw.core.threads import cores

if TYPE_CHECKING:
    from napari_gsw.jobs.records import JobOptions
    from napari_gsw.methods.registry import Choice

# The exit code of a run that is done but for some images.
PARTLY = 3
SAMPLE = "sample:"
# Named here so that --help need not load the methods; a test holds the two lists together.
METHOD_NAMES = (
    "gsw", "rdd-crp", "dd-crp", "mean-shift", "felzenszwalb", "normalized-cut",
    "random-walker", "watershed", "forest", "graph-cut",
)  # fmt: skip


def add_choices(command: argparse.ArgumentParser) -> None:
    """Method, preset, seed, and an option for every setting, grouped by section."""
    command.add_argument(
        "--method", default="gsw", metavar="M", help=f"one of {', '.join(METHOD_NAMES)} (default gsw, which is ours)"
    )
    command.add_argument(
        "--preset",
        default=DEFAULT_PRESET,
        metavar="P",
        help=f"settings to start from: {', '.join(PRESETS)} (default {DEFAULT_PRESET})",
    )
    command.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="change one setting, of the method's own or of those below; may be repeated",
    )
    command.add_argument(
        "--seed", type=whole_argument, default=0, help="the same seed gives the same labels (default 0)"
    )
    for section in SECTIONS:
        group = command.add_argument_group(f"settings: {section}")
        for name, setting in declarations().items():
            if setting.section == section:
                symbol = f" [{setting.symbol}]" if setting.symbol else ""
                text = f"{setting.help}{symbol} ({setting.allowed}; default {default_words(name)})"
                flag = f"--{name.replace('_', '-')}"
                group.add_argument(flag, dest=f"set_{name}", metavar="VALUE", help=text.replace("%", "%%"))


def chosen(arguments: argparse.Namespace) -> Choice:
    """The method and its settings: preset, then ``--set``, then options of their own; the last word counts."""
    from napari_gsw.methods.registry import choose

    changes: dict[str, Any] = {}
    for pair in arguments.set:
        name, equals, value = pair.partition("=")
        if not equals:
            raise InputError(f"--set takes NAME=VALUE, not {pair!r}")
        changes[name.strip().replace("-", "_")] = value.strip()
    changes |= {n: v for n in declarations() if (v := getattr(arguments, f"set_{n}")) is not None}
    return choose(arguments.method, arguments.preset, changes)


def add_job_options(command: argparse.ArgumentParser) -> None:
    """Options of everything that runs over many images."""
    command.add_argument(
        "--limit", type=natural_number, metavar="N", help="take only N images, spread evenly over the data set"
    )
    command.add_argument(
        "--jobs", type=natural_number, metavar="N", help="processes at a time (default: one for each core)"
    )
    command.add_argument("--fresh", action="store_true", help="begin anew, whatever an earlier run has left in OUT")
    command.add_argument("-q", "--quiet", action="store_true", help="print nothing but errors")


def job_options_of(arguments: argparse.Namespace) -> JobOptions:
    """Where the results go and how the jobs are run, as :func:`add_job_options` takes it; everything is compiled."""
    from napari_gsw.core.pipeline.segment import warm_up
    from napari_gsw.jobs.records import JobOptions

    warm_up()  # so that the processes find everything compiled
    return JobOptions(Path(arguments.output), arguments.jobs or cores(), arguments.fresh, arguments.quiet)


def named_image(name: str) -> tuple[Any, str]:
    """The image of a file or of a sample, and the order of its axes; of a zarr nothing has been read yet."""
    from napari_gsw.files.images import open_image
    from napari_gsw.sample_data import sample

    if name.startswith(SAMPLE):
        return np.asarray(sample(name.removeprefix(SAMPLE))[0]), "auto"
    return open_image(name)


def image_to_segment(name: str, choice: Choice) -> tuple[Any, str]:
    """As :func:`named_image`; lazy only where it is to be worked on in blocks."""
    from napari_gsw.methods.registry import image_of

    return named_image(name) if name.startswith(SAMPLE) else image_of(name, choice)


def whole_argument(text: str) -> int:
    """The type of an option that is a number >= 0."""
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError("it must be a whole number >= 0")
    return value


def natural_number(text: str) -> int:
    """The type of an option that is a number >= 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("it must be a whole number >= 1")
    return value
