"""What was measured: sections of rows, and the ratios among them that are held against recorded ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Cell = str | int | float | None


@dataclass(frozen=True)
class Ratio:
    """A number that is about the same on every machine.

    Attributes
    ----------
    better : ``low`` or ``high``, which way is better.
    tolerance : how much worse it may become, as a share of what was recorded.
    """

    value: float
    better: str
    tolerance: float

    def __post_init__(self) -> None:
        if self.better not in ("low", "high"):
            raise ValueError(f"better must be low or high, not {self.better!r}")

    def to_dict(self) -> dict[str, Any]:
        return {"value": self.value, "better": self.better, "tolerance": self.tolerance}


@dataclass(frozen=True)
class Section:
    """One table: the first column names the cases.

    Attributes
    ----------
    ratios : by what they are and of which case, such as ``growth, 10,000 sites``.
    notes : sentences below the table.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    ratios: Mapping[str, Ratio] = field(default_factory=dict)
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Report:
    """All sections of a run by name, and the machine it ran on."""

    machine: Mapping[str, str | int]
    sections: Mapping[str, Section]

    @property
    def ratios(self) -> dict[str, Ratio]:
        """Those of all sections, with the section's name in front."""
        return {f"{name}: {key}": r for name, s in self.sections.items() for key, r in s.ratios.items()}

    def to_dict(self) -> dict[str, Any]:
        sections = {
            name: {"title": s.title, "columns": list(s.columns), "rows": [list(r) for r in s.rows],
                   "notes": list(s.notes)}
            for name, s in self.sections.items()
        }  # fmt: skip
        ratios = {name: ratio.to_dict() for name, ratio in self.ratios.items()}
        return {"machine": dict(self.machine), "sections": sections, "ratios": ratios}

    def table(self) -> str:
        """All sections below each other, for a terminal; columns are as wide in one as in the next."""
        cells = {name: [[shown(c) for c in row] for row in s.rows] for name, s in self.sections.items()}
        lines = [[list(s.columns), *cells[name]] for name, s in self.sections.items()]
        first = max((len(row[0]) for rows in lines for row in rows), default=0)
        other = max((len(c) for rows in lines for row in rows for c in row[1:]), default=0)
        told = [", ".join(str(self.machine[key]) for key in ("cpu", "system") if key in self.machine)]
        told[0] += f", {self.machine.get('cores', '?')} cores"
        for (name, section), rows in zip(self.sections.items(), lines, strict=True):
            told += ["", f"{name}: {section.title}"]
            told += [f"  {row[0]:<{first}}" + "".join(f"  {c:>{other}}" for c in row[1:]) for row in rows]
            told += [f"  {note}" for note in section.notes]
        return "\n".join(told)


def shown(value: Cell) -> str:
    """A cell with three digits that count.

    >>> [shown(v) for v in (None, "x", 1000, 1234.5, 12.345, 1.2345, 0.012345)]
    ['-', 'x', '1,000', '1,234', '12.3', '1.23', '0.0123']
    """
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    if isinstance(value, int) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}" if abs(value) >= 1 else f"{value:.3g}"
