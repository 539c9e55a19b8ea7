"""``--settings FILE``: the method, the settings and the seed that a result carries, read back."""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from napari_gsw.core.errors import InputError
from napari_gsw.core.settings import SECTIONS, setting_fields, upgrade_names
from napari_gsw.core.settings.presets import DEFAULT_PRESET, PRESETS, describe_default
from napari_gsw.core.threads import count_cores


class SettingsFile(NamedTuple):
    """What a file of settings says.

    Attributes
    ----------
    method : its name; None if the file does not tell.
    changes : settings by name.
    seed : None if the file does not tell.
    remarks : why these settings alone do not make the labels again, a sentence each.
    """

    method: str | None
    changes: Mapping[str, Any]
    seed: int | None
    remarks: tuple[str, ...] = ()


def read_settings_file(path: str) -> SettingsFile:
    """The settings in a file: a provenance, labels that carry one, ``batch.json``, or a plain JSON of settings.

    A plain one has a name and a value for each setting, and may have ``method`` and ``seed``.
    """
    from napari_gsw.files.provenance import read_provenance

    record = _shared_record(read_provenance(path), path)
    plain = "software" not in record and "settings" not in record
    method = record.get("method")
    # The provenance of a method that does not sample has its settings beside its name.
    own = dict(method) if isinstance(method, Mapping) else {} if method is None else {"method": method}
    if "name" in own:  # as the chains that this one is compared with call it
        own["method"] = own.pop("name")
    settings = record if plain else record.get("settings", {})
    if not isinstance(settings, Mapping):
        raise InputError(f"{path!r} carries no settings: they must be names with values")
    changes = upgrade_names({**settings, **own})
    name = changes.pop("method", None)
    seed = changes.pop("seed", None if plain else record.get("seed"))
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int) or seed < 0):
        raise InputError(f"the seed in {path!r} must be a whole number >= 0, not {seed!r}")
    return SettingsFile(None if name is None else str(name), changes, seed, _remarks(record))


def _shared_record(record: Mapping[str, Any], path: str) -> Mapping[str, Any]:
    """A record, or that of all its parts (the slices of a stack) if they were made with the same settings."""
    parts = record.get("parts")
    if not isinstance(parts, Mapping) or not parts:
        return record
    first, *others = parts.values()
    same = all(isinstance(part, Mapping) for part in parts.values())
    same = same and all(part.get(key) == first.get(key) for part in others for key in ("settings", "method", "seed"))
    if not same:
        raise InputError(f"{path!r} has parts with different settings; none of them is that of all")
    return dict(first)


def _remarks(record: Mapping[str, Any]) -> tuple[str, ...]:
    remarks = []
    if record.get("reproducible") is False:
        remarks.append("a person had a hand in that result: settings and seed alone do not make its labels again")
    given = record.get("given")
    if isinstance(given, Mapping) and given:
        remarks.append(f"that result was also given {', '.join(map(str, given))}, which the settings do not hold")
    return tuple(remarks)


@contextmanager
def without_gc() -> Iterator[None]:
    """For what a command imports: Python does not look for cycles meanwhile.

    It would do so again and again while the modules come in, through more of them each time, and to no end: what is
    imported stays. That is a twelfth of what a segmentation takes where all is compiled. Nor does it look at it later.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.freeze()
            gc.enable()


if TYPE_CHECKING:
    from napari_gsw.batch.jobs import JobOptions
    from napari_gsw.methods import Choice

# The exit code of a run that is done but for some images.
PARTIAL_FAILURE = 3
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
        for name, setting in setting_fields().items():
            if setting.section == section:
                symbol = f" [{setting.symbol}]" if setting.symbol else ""
                text = f"{setting.help}{symbol} ({setting.allowed}; default {describe_default(name)})"
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
    from napari_gsw.core.errors import check_seed

    file = SettingsFile(None, {}, None) if arguments.settings is None else read_settings_file(arguments.settings)
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
    arguments.seed = check_seed(None) if seed == RANDOM else seed


def choice_from_arguments(arguments: argparse.Namespace, first: Mapping[str, Any] | None = None) -> Choice:
    """The method and its settings, after :func:`resolve_choices`; the last word counts.

    The order is preset, `first`, the file of ``--settings``, ``--set``, then options of their own.
    """
    from napari_gsw.methods import choose

    changes: dict[str, Any] = {**(first or {}), **arguments.recalled}
    for pair in arguments.set:
        name, equals, value = pair.partition("=")
        if not equals:
            raise InputError(f"--set takes NAME=VALUE, not {pair!r}")
        changes[name.strip().replace("-", "_")] = value.strip()
    changes |= {n: v for n in setting_fields() if (v := getattr(arguments, f"set_{n}")) is not None}
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


def make_job_options(arguments: argparse.Namespace) -> JobOptions:
    """Where the results go and how the jobs are run, as :func:`add_job_options` takes it; everything is compiled."""
    from napari_gsw.batch.jobs import JobOptions
    from napari_gsw.core.pipeline.warm_up import warm_up

    warm_up()  # so that the processes find everything compiled
    return JobOptions(
        Path(arguments.output),
        arguments.jobs or count_cores(),
        arguments.fresh,
        arguments.quiet,
        overwrite=arguments.overwrite,
    )


def open_named_image(name: str) -> tuple[Any, str]:
    """The image of a file or of a sample, and the order of its axes; of a zarr nothing has been read yet."""
    import numpy as np

    from napari_gsw.files.images import open_image
    from napari_gsw.sample_data import sample

    if name.startswith(SAMPLE):
        return np.asarray(sample(name.removeprefix(SAMPLE))[0]), "auto"
    return open_image(name)


def open_image_to_segment(name: str, choice: Choice) -> tuple[Any, str]:
    """As :func:`named_image`; lazy only where it is to be worked on in blocks."""
    from napari_gsw.methods import open_image_for

    return open_named_image(name) if name.startswith(SAMPLE) else open_image_for(name, choice)


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
