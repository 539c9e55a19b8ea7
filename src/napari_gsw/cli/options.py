"""Options that several commands share, and what they mean."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

from napari_gsw.core.errors import InputError
from napari_gsw.core.settings import SECTIONS, setting_fields, upgrade_names
from napari_gsw.core.settings.presets import DEFAULT_PRESET, PRESETS, describe_default, shared_preset
from napari_gsw.core.threads import count_cores

if TYPE_CHECKING:
    from napari_gsw.batch.jobs import JobOptions
    from napari_gsw.files.results import OutputOptions
    from napari_gsw.methods import Choice

# Exit code of a run that is done except for some images.
PARTIAL_FAILURE = 3
OVERWRITE, QUIET = "write over files that are in the way and are not ours", "print nothing but errors"
SAMPLE = "sample:"
RANDOM = "random"
# Method, settings, seed, and remarks on why these alone do not reproduce the labels.
SettingsFile = tuple[str | None, dict[str, Any], int | None, list[str]]
# Named here so that --help need not import the engine.
MAPS = ("features", "boundaries", "foreground")


def add_choices(command: argparse.ArgumentParser) -> None:
    """Add options for method, preset, seed and every setting."""
    add, methods = command.add_argument, ("gsw", *sorted(entry_points(group="napari_gsw.methods").names))
    text = "begin with the method, the settings and the seed of a result: its provenance.json, or labels (.tif, .zarr) "
    add("--settings", metavar="FILE", help=f"{text}that carry it; options beside it have the last word")
    add("--method", metavar="M", help=f"one of {', '.join(methods)} (default gsw, which is ours)")
    add("--preset", metavar="P", help=f"settings to start from: {', '.join(PRESETS)} (default {DEFAULT_PRESET})")
    text = "change one setting, of the method's own or of those below; may be repeated"
    add("--set", action="append", default=[], metavar="NAME=VALUE", help=text)
    add_seed(command, "the same seed gives the same labels")
    groups = {section: command.add_argument_group(f"settings: {section}") for section in SECTIONS}
    for name, setting in setting_fields().items():
        symbol = f" [{setting.symbol}]" if setting.symbol else ""
        text = f"{setting.help}{symbol} ({setting.allowed}; default {describe_default(name)})".replace("%", "%%")
        flag = f"--{name.replace('_', '-')}"
        groups[setting.section].add_argument(flag, dest=f"set_{name}", metavar="VALUE", help=text)


def add_seed(command: argparse.ArgumentParser, meaning: str) -> None:
    """Add the option ``--seed``."""
    text = f"{meaning} (default 0); `random` draws a new one and records it"
    command.add_argument("--seed", metavar="N", help=text, type=lambda x: x if x == RANDOM else whole_argument(x))


def add_flags(command: Any, **helps: str) -> None:
    """Add options without a value, by name with their help."""
    for name, text in helps.items():
        short = ("-q",) if name == "quiet" else ()
        command.add_argument(*short, f"--{name.replace('_', '-')}", action="store_true", help=text)


def resolve_choice(arguments: argparse.Namespace, shared: bool = False) -> Choice:
    """Return method and settings, and set the seed in `arguments`.

    Later ones win: preset, changes for images that share clusters, file of ``--settings``, ``--set``, single options.
    """
    from napari_gsw.core.errors import check_seed
    from napari_gsw.methods import choose

    no_file: SettingsFile = (None, {}, None, [])
    file = no_file if arguments.settings is None else read_settings_file(arguments.settings)
    file_method, file_changes, file_seed, remarks = file
    if arguments.settings is not None and arguments.preset is not None:
        raise InputError("--settings has a value for every setting, and --preset too; choose one of them")
    if file_method is not None and arguments.method not in (None, file_method):
        raise InputError(f"{arguments.settings!r} has settings of {file_method}, not of {arguments.method}")
    for remark in remarks:
        print_remark(remark)
    seed = arguments.seed if arguments.seed is not None else file_seed or 0
    arguments.seed = check_seed(None) if seed == RANDOM else seed
    method, preset = arguments.method, arguments.preset
    method = (file_method or "gsw") if method is None else method
    preset = DEFAULT_PRESET if preset is None else preset
    changes: dict[str, Any] = {**(shared_preset(preset) if shared and method == "gsw" else {}), **file_changes}
    for pair in arguments.set:
        name, equals, value = pair.partition("=")
        if not equals:
            raise InputError(f"--set takes NAME=VALUE, not {pair!r}")
        changes[name.strip().replace("-", "_")] = value.strip()
    changes |= {n: v for n in setting_fields() if (v := getattr(arguments, f"set_{n}")) is not None}
    return choose(method, preset, changes)


def read_settings_file(path: str) -> SettingsFile:
    """Read settings from a provenance, labels that carry one, ``batch.json``, a session, or plain JSON.

    Plain JSON has a value for each setting by name, and may have ``method`` and ``seed``.
    """
    from napari_gsw.files.results import read_provenance

    record = read_provenance(path)
    parts = record.get("parts")  # slices of a stack, which must have the same settings
    if isinstance(parts, Mapping) and parts:
        shared = [
            [part.get(key) for key in ("settings", "method", "seed")] if isinstance(part, Mapping) else None
            for part in parts.values()
        ]
        if None in shared or any(values != shared[0] for values in shared):
            raise InputError(f"{path!r} has parts with different settings; none of them is that of all")
        record = dict(next(iter(parts.values())))
    is_plain = "software" not in record and "settings" not in record
    method = record.get("method")
    # The provenance of a method that does not sample has its settings beside its name.
    own = dict(method) if isinstance(method, Mapping) else {} if method is None else {"method": method}
    if "name" in own:  # the key in the provenance of chains of other methods
        own["method"] = own.pop("name")
    settings = record if is_plain else record.get("settings", {})
    if not isinstance(settings, Mapping):
        raise InputError(f"{path!r} carries no settings: they must be names with values")
    changes = upgrade_names({**settings, **own})
    name = changes.pop("method", None)
    seed = changes.pop("seed", None if is_plain else record.get("seed"))
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int) or seed < 0):
        raise InputError(f"the seed in {path!r} must be a whole number >= 0, not {seed!r}")
    remarks = []
    if record.get("reproducible") is False:
        remarks.append("a person had a hand in that result: settings and seed alone do not make its labels again")
    given = record.get("given")
    if isinstance(given, Mapping) and given:
        remarks.append(f"that result was also given {', '.join(map(str, given))}, which the settings do not hold")
    return None if name is None else str(name), changes, seed, remarks


def add_output(command: argparse.ArgumentParser, help: str) -> None:
    """Add the option ``-o``."""
    command.add_argument("-o", "--output", metavar="OUT", type=output_argument, required=True, help=help)


def add_output_options(command: argparse.ArgumentParser) -> None:
    """Add options for what is written besides the labels."""
    add_flags(
        command,
        save_plot="also write overlay.png, trace.png and uncertainty.png",
        uncertainty="also write entropy.tif, boundary.tif, contour.tif, people.tif, the range of plausible "
        "segmentations and posterior.json with the agreement of the chains",
        table="also write regions.csv: size, place, values, shape and certainty, a row for each label",
        save_sites="also write the superpixels as sites.tif",
    )


def make_output_options(arguments: argparse.Namespace) -> OutputOptions:
    """Return what :func:`add_output_options` asks for."""
    from napari_gsw.files.results import OutputOptions

    return OutputOptions(arguments.save_sites, arguments.save_plot, arguments.uncertainty, arguments.table)


def add_job_options(command: argparse.ArgumentParser) -> None:
    """Add options of commands that run over many images."""
    add, text = command.add_argument, "take only N images, spread evenly over the data set"
    add("--limit", type=natural_number, metavar="N", help=text)
    add("--jobs", type=natural_number, metavar="N", help="processes at a time (default: one for each core)")
    add_flags(command, fresh="begin anew, whatever an earlier run has left in OUT", overwrite=OVERWRITE, quiet=QUIET)


def make_job_options(arguments: argparse.Namespace) -> JobOptions:
    """Return what :func:`add_job_options` asks for, and compile the kernels for the processes."""
    from napari_gsw.batch.jobs import JobOptions
    from napari_gsw.core.pipeline.warm_up import warm_up

    warm_up()
    jobs = arguments.jobs or count_cores()
    return JobOptions(Path(arguments.output), jobs, arguments.fresh, arguments.quiet, overwrite=arguments.overwrite)


def open_named_image(name: str, choice: Choice | None = None) -> tuple[Any, str]:
    """Open the image of a file or a sample, and return it with its axes.

    A zarr stays on disk; with a choice, only if it is to be segmented in blocks.
    """
    import numpy as np

    from napari_gsw.files.images import open_image
    from napari_gsw.methods import open_image_for
    from napari_gsw.sample_data import sample

    if name.startswith(SAMPLE):
        return np.asarray(sample(name.removeprefix(SAMPLE))[0]), "auto"
    return open_image(name) if choice is None else open_image_for(name, choice)


def print_remark(text: str) -> None:
    """Print a remark for the user where it does not mix with the results."""
    print(f"napari-gsw: {text}", file=sys.stderr)


def output_argument(text: str) -> str:
    """Parse ``-o``: an empty name would be the current folder."""
    if not text:
        raise argparse.ArgumentTypeError("it must have a name; . is the current folder")
    return text


def whole_argument(text: str, minimum: int = 0) -> int:
    """Parse a whole number."""
    if not re.fullmatch("[+]?[0-9]+", text.strip()) or int(text) < minimum:
        raise argparse.ArgumentTypeError(f"it must be a whole number >= {minimum}")
    return int(text)


natural_number = partial(whole_argument, minimum=1)
