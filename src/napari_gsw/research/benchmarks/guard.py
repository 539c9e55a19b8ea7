"""Measured ratios against recorded ones: what has become worse than it may."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from napari_gsw.core.errors import InputError
from napari_gsw.research.benchmarks.report import BenchReport, Ratio, cell_text


def find_regressions(measured: Mapping[str, Ratio], recorded: Mapping[str, Ratio]) -> list[str]:
    """What has become worse than it may.

    Parameters
    ----------
    measured : ratios by name; one that is not among them is not judged.
    recorded : what they are held against, with the tolerance of each.

    Returns
    -------
    A line for each ratio that is worse than recorded by more than the recorded tolerance.

    Examples
    --------
    >>> regressions({"cost": Ratio(1.4, "low", 0.3)}, {"cost": Ratio(1.0, "low", 0.3)})
    ['cost is 1.40, recorded 1.00: worse by 40 %, 30 % allowed']
    >>> regressions({"speed-up": Ratio(40.0, "high", 0.3)}, {"speed-up": Ratio(50.0, "high", 0.3)})
    []
    """
    lines = []
    for name, old in recorded.items():
        if name in measured:
            new = measured[name].value
            worse = (new / old.value if old.better == "low" else old.value / new) - 1
            if worse > old.tolerance:
                change = f"{name} is {cell_text(new)}, recorded {cell_text(old.value)}"
                lines.append(f"{change}: worse by {worse:.0%}, {old.tolerance:.0%} allowed".replace("%", " %"))
    return lines


def read_ratios(path: str | os.PathLike[str]) -> dict[str, Ratio]:
    """The ratios of a file that was recorded, or of a bench.json."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        ratios = {name: Ratio(**entry) for name, entry in content["ratios"].items()}
    except OSError as reason:
        raise InputError(f"{str(path)!r} cannot be read: {reason.strerror or reason}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InputError(
            f"{str(path)!r} holds no ratios; make such a file with: napari-gsw bench --record FILE"
        ) from None
    return ratios


def format_record(report: BenchReport, earlier: Mapping[str, Ratio]) -> str:
    """The content of a file of ratios: those of a report, and of the earlier ones those that it did not measure."""
    ratios = {name: ratio.to_dict() for name, ratio in (dict(earlier) | report.ratios).items()}
    return json.dumps({"machine": dict(report.machine), "ratios": ratios}, indent=2) + "\n"
