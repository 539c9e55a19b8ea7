"""Results of the benchmark: tables, JSON, and the comparison of ratios with recorded ones."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from napari_gsw.core.errors import InputError
from napari_gsw.core.threads import count_cores
from napari_gsw.core.versions import collect_versions

Cell = str | int | float | None


@dataclass(frozen=True)
class Ratio:
    """A number > 0 that is about the same on every machine."""

    value: float
    better: Literal["low", "high"]
    tolerance: float  # how much worse it may become, as a fraction of the recorded value


@dataclass(frozen=True)
class BenchSection:
    """A table: title, headings, rows whose first cell names the case, ratios by name, notes, and counts."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    ratios: Mapping[str, Ratio] = field(default_factory=dict)
    notes: Sequence[str] = ()
    facts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class BenchReport:
    """All sections of a run by name, and the machine."""

    machine: Mapping[str, str | int]
    sections: Mapping[str, BenchSection]

    @property
    def ratios(self) -> dict[str, Ratio]:
        """Ratios of all sections, with the section's name in front."""
        return {f"{name}: {key}": r for name, s in self.sections.items() for key, r in s.ratios.items()}

    def record(self, earlier: Mapping[str, Ratio]) -> dict[str, Any]:
        """Return the content of a file of ratios: those of this run, and earlier ones that it did not measure."""
        ratios = {name: asdict(ratio) for name, ratio in {**earlier, **self.ratios}.items()}
        return {"machine": dict(self.machine), "ratios": ratios}

    def to_dict(self) -> dict[str, Any]:
        """Return the content of ``bench.json``."""
        content = {name: asdict(section) for name, section in self.sections.items()}
        sections = {name: {k: v for k, v in section.items() if k != "ratios"} for name, section in content.items()}
        return {"software": "napari-gsw", "machine": dict(self.machine), "sections": sections, **self.record({})}

    def table(self) -> str:
        """Return all sections as text with aligned columns."""
        width = max((len(cell_text(row[0])) for s in self.sections.values() for row in s.rows), default=0)
        lines = [", ".join(f"{key} {value}" for key, value in self.machine.items())]
        for name, section in self.sections.items():
            rows = [list(section.columns), *([cell_text(c) for c in row] for row in section.rows)]
            widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
            lines += ["", f"{name}: {section.title}"]
            for first, *cells in rows:
                numbers = "".join(f"  {c:>{w}}" for c, w in zip(cells, widths[1:], strict=True))
                lines.append(f"  {first:<{width}}{numbers}")
            lines += [f"  {note}" for note in section.notes]
            if section.facts:
                lines.append("  " + ", ".join(f"{value:,} {key}" for key, value in section.facts.items()))
        return "\n".join(lines)


def cell_text(value: Cell) -> str:
    """Format a cell with three significant digits."""
    if isinstance(value, str):
        return value
    if value is None or value != value:  # NaN
        return "-"
    if isinstance(value, int) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}" if abs(value) >= 1 else f"{value:.3g}"


def find_regressions(measured: Mapping[str, Ratio], recorded: Mapping[str, Ratio]) -> list[str]:
    """Describe each measured ratio that is worse than recorded by more than the recorded tolerance."""
    lines = []
    for name in filter(measured.__contains__, recorded):
        new, old = measured[name].value, recorded[name]
        worse = (new / old.value if old.better == "low" else old.value / new) - 1
        if worse > old.tolerance:
            change = f"{name} is {cell_text(new)}, recorded {cell_text(old.value)}"
            lines.append(f"{change}: worse by {100 * worse:.0f} %, {100 * old.tolerance:.0f} % allowed")
    return lines


def read_ratios(path: str | os.PathLike[str]) -> dict[str, Ratio]:
    """Read the ratios of a recorded file, or of a ``bench.json``."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        return {name: Ratio(**entry) for name, entry in content["ratios"].items()}
    except OSError as error:
        raise InputError(f"{str(path)!r} cannot be read: {error.strerror or error}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InputError(
            f"{str(path)!r} holds no ratios; make such a file with: napari-gsw bench --record FILE"
        ) from None


def describe_machine() -> dict[str, str | int]:
    """Return cores, processor, system, and the versions that speed depends on; nothing that names the owner."""
    return {"cores": count_cores(), "cpu": cpu_name(), "system": platform.system(), **collect_versions()}


def cpu_name() -> str:
    """Return the name of the processor, or at least its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
