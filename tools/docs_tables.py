"""Numbers and tables as the pages of the documentation have them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "docs" / "data"


def share(value: float, digits: int = 3) -> str:
    """A number between -1 and 1, without the 0 before its point.

    >>> share(0.94158), share(1.0), share(-0.25, 2)
    ('.942', '1.000', '-.25')
    """
    return f"{value:.{digits}f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.{digits}f}"


def small(p: float) -> str:
    """A p value with two digits, or how small it is at most.

    >>> small(0.0321), small(0.00012), small(3.4e-6), small(3e-9)
    ('.032', '.0001', '3e-6', '< 1e-6')
    """
    if p < 1e-6:
        return "< 1e-6"
    if p < 5e-5:
        return f"{p:.0e}".replace("e-0", "e-")
    return share(p, 4 if p < 0.001 else 3)


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Lines of a table in Markdown."""
    head = list(head)
    lines = [head, ["---"] * len(head), *map(list, rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
