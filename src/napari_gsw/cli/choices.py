"""Options that several commands share: method, preset, single settings, seed; and the images they name."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_gsw.core.errors import InputError
from napari_gsw.core.presets import DEFAULT_PRESET, PRESETS, default_words
from napari_gsw.core.settings import SECTIONS, declarations

if TYPE_CHECKING:
    from napari_gsw.methods.registry import Choice

SAMPLE = "sample:"
# Named here so that --help need not load the methods; a test holds the two lists together.
METHOD_NAMES = ("gsw", "rdd-crp", "dd-crp", "mean-shift", "felzenszwalb", "normalized-cut")


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
    command.add_argument("--seed", type=whole_number, default=0, help="the same seed gives the same labels (default 0)")
    for section in SECTIONS:
        group = command.add_argument_group(f"settings: {section}")
        for name, setting in declarations().items():
            if setting.section == section:
                symbol = f" [{setting.symbol}]" if setting.symbol else ""
                text = f"{setting.help}{symbol} ({setting.allowed}; default {default_words(name)})"
                flag = f"--{name.replace('_', '-')}"
                group.add_argument(flag, dest=f"set_{name}", metavar="VALUE", help=text.replace("%", "%%"))


def chosen(given: argparse.Namespace) -> Choice:
    """The method and its settings: preset, then ``--set``, then options of their own; the last word counts."""
    from napari_gsw.methods.registry import choose

    changes: dict[str, Any] = {}
    for pair in given.set:
        name, equals, value = pair.partition("=")
        if not equals:
            raise InputError(f"--set takes NAME=VALUE, not {pair!r}")
        changes[name.strip().replace("-", "_")] = value.strip()
    changes |= {n: v for n in declarations() if (v := getattr(given, f"set_{n}")) is not None}
    return choose(given.method, given.preset, changes)


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


def whole_number(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError("it must be a whole number >= 0")
    return value


def natural_number(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("it must be a whole number >= 1")
    return value
