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
    value : the number, > 0.
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
        """Plain values, ready for JSON."""
        return {"value": self.value, "better": self.better, "tolerance": self.tolerance}


@dataclass(frozen=True)
class BenchSection:
    """One table.

    Attributes
    ----------
    title : a sentence above it.
    columns : their headings.
    rows : a cell for each column; the first names the case.
    ratios : by what they are and of which case, such as ``growth, 10,000 sites``.
    notes : sentences below the table.
    facts : numbers beside it by their names, of what is counted and not timed.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    ratios: Mapping[str, Ratio] = field(default_factory=dict)
    notes: Sequence[str] = ()
    facts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class BenchReport:
    """All sections of a run by name, and the machine it ran on."""

    machine: Mapping[str, str | int]
    sections: Mapping[str, BenchSection]

    @property
    def ratios(self) -> dict[str, Ratio]:
        """Those of all sections, with the section's name in front."""
        return {f"{name}: {key}": r for name, s in self.sections.items() for key, r in s.ratios.items()}

    def to_dict(self) -> dict[str, Any]:
        """The content of ``bench.json``."""
        sections = {
            name: {"title": s.title, "columns": list(s.columns), "rows": [list(r) for r in s.rows],
                   "notes": list(s.notes), "facts": dict(s.facts)}
            for name, s in self.sections.items()
        }  # fmt: skip
        ratios = {name: ratio.to_dict() for name, ratio in self.ratios.items()}
        return {"machine": dict(self.machine), "sections": sections, "ratios": ratios}

    def table(self) -> str:
        """All sections below each other, for a terminal; the numbers of each begin at the same column."""
        first = max((len(cell_text(row[0])) for s in self.sections.values() for row in s.rows), default=0)
        lines = [", ".join(f"{key} {value}" for key, value in self.machine.items())]
        for name, section in self.sections.items():
            rows = [list(section.columns), *([cell_text(c) for c in row] for row in section.rows)]
            widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
            lines += ["", f"{name}: {section.title}"]
            for head, *cells in rows:
                lines.append(
                    f"  {head:<{first}}" + "".join(f"  {c:>{w}}" for c, w in zip(cells, widths[1:], strict=True))
                )
            lines += [f"  {note}" for note in section.notes]
            if section.facts:
                lines.append("  " + ", ".join(f"{value:,} {key}" for key, value in section.facts.items()))
        return "\n".join(lines)


def cell_text(value: Cell) -> str:
    """A cell with three digits that count.

    Examples
    --------
    >>> [cell_text(v) for v in (None, "x", 1000, 1234.5, 12.345, 1.2345, 0.012345)]
    ['-', 'x', '1,000', '1,234', '12.3', '1.23', '0.0123']
    """
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    if isinstance(value, int) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}" if abs(value) >= 1 else f"{value:.3g}"
