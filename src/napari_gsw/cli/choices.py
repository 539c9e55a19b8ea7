"""What several commands share: options of methods and of jobs, what they mean, and the images they name."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from napari_gsw.cli.settings_file import Recalled, recalled
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
RANDOM = "random"
# Named here so that --help need not load the methods; a test holds the two lists together.
METHOD_NAMES = (
    "gsw", "rdd-crp", "dd-crp", "mean-shift", "felzenszwalb", "normalized-cut", "otsu-watershed", "network-watershed",
    "multicut", "gasp", "mutex-watershed", "distance-watershed", "random-walker", "watershed", "forest", "graph-cut",
)  # fmt: skip


def add_choices(command: argparse.ArgumentParser) -> None:
    """Method, preset, seed, and an option for every setting, grouped by section."""
    command.add_argument(
        "--settings",
        metavar="FILE",
        help="begin with the method, the settings and the seed of a result: its provenance.json, or labels (.tif, "
        ".zarr) that carry it; options beside it have the last word",
    )
    command.add_argument("--method", metavar="M", help=f"one of {', '.join(METHOD_NAMES)} (default gsw, which is ours)")
    command.add_argument(
        "--preset",
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
    add_seed(command, "the same seed gives the same labels")
    for section in SECTIONS:
        group = command.add_argument_group(f"settings: {section}")
        for name, setting in declarations().items():
            if setting.section == section:
                symbol = f" [{setting.symbol}]" if setting.symbol else ""
                text = f"{setting.help}{symbol} ({setting.allowed}; default {default_words(name)})"
                flag = f"--{name.replace('_', '-')}"
                group.add_argument(flag, dest=f"set_{name}", metavar="VALUE", help=text.replace("%", "%%"))


def add_seed(command: argparse.ArgumentParser, meaning: str) -> None:
    """The option ``--seed``; :func:`resolve_choices` turns it into a number."""
    command.add_argument(
        "--seed",
        type=seed_argument,
        metavar="N",
        help=f"{meaning} (default 0); `random` takes one that nobody has chosen, and writes it down",
    )


def resolve_choices(arguments: argparse.Namespace) -> None:
    """Give method, preset and seed their values: those of the command line, of ``--settings``, or the defaults."""
    from napari_gsw.core.inputs import random_seed

    file = Recalled(None, {}, None) if arguments.settings is None else recalled(arguments.settings)
    if arguments.settings is not None and arguments.preset is not None:
        raise InputError("--settings has a value for every setting, and --preset too; choose one of them")
    if file.method is not None and arguments.method not in (None, file.method):
        raise InputError(f"{arguments.settings!r} has settings of {file.method}, not of {arguments.method}")
    for remark in file.remarks:
        print(f"napari-gsw: {remark}", file=sys.stderr)
    arguments.recalled = file.changes
    arguments.method = arguments.method or file.method or "gsw"
    arguments.preset = arguments.preset or DEFAULT_PRESET
    seed = arguments.seed if arguments.seed is not None else file.seed or 0
    arguments.seed = random_seed(None) if seed == RANDOM else seed


def chosen(arguments: argparse.Namespace, first: Mapping[str, Any] | None = None) -> Choice:
    """The method and its settings, after :func:`resolve_choices`; the last word counts.

    The order is preset, `first`, the file of ``--settings``, ``--set``, then options of their own.
    """
    from napari_gsw.methods.registry import choose

    changes: dict[str, Any] = {**(first or {}), **arguments.recalled}
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
    command.add_argument(
        "--overwrite", action="store_true", help="write over files in OUT that are in the way and not ours"
    )
    command.add_argument("-q", "--quiet", action="store_true", help="print nothing but errors")


def job_options_of(arguments: argparse.Namespace) -> JobOptions:
    """Where the results go and how the jobs are run, as :func:`add_job_options` takes it; everything is compiled."""
    from napari_gsw.core.pipeline.warm_up import warm_up
    from napari_gsw.jobs.records import JobOptions

    warm_up()  # so that the processes find everything compiled
    return JobOptions(
        Path(arguments.output),
        arguments.jobs or cores(),
        arguments.fresh,
        arguments.quiet,
        overwrite=arguments.overwrite,
    )


def named_image(name: str) -> tuple[Any, str]:
    """The image of a file or of a sample, and the order of its axes; of a zarr nothing has been read yet."""
    import numpy as np

    from napari_gsw.files.images import open_image
    from napari_gsw.sample_data import sample

    if name.startswith(SAMPLE):
        return np.asarray(sample(name.removeprefix(SAMPLE))[0]), "auto"
    return open_image(name)


def image_to_segment(name: str, choice: Choice) -> tuple[Any, str]:
    """As :func:`named_image`; lazy only where it is to be worked on in blocks."""
    from napari_gsw.methods.registry import image_of

    return named_image(name) if name.startswith(SAMPLE) else image_of(name, choice)


def output_argument(text: str) -> str:
    """The type of the option ``-o``: a name that is empty would be the current folder."""
    if not text:
        raise argparse.ArgumentTypeError("it must have a name; . is the current folder")
    return text


def seed_argument(text: str) -> int | str:
    """The type of a seed."""
    return RANDOM if text == RANDOM else whole_argument(text)


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
