"""Draws the rooms of the package in docs/architecture.md, from the contracts in pyproject.toml that `make lint` checks.

With ``--check`` it writes nothing and says what is out of date: the drawing, or a file, folder or module that the
documentation names and that is not there.
"""

from __future__ import annotations

import ast
import re
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "napari_gsw"
PAGE = ROOT / "docs" / "architecture.md"
BEGIN = "<!-- The rooms, made from pyproject.toml by `make docs`; do not edit. -->"
END = "<!-- End of the rooms. -->"
WIDTH = 116
# Where what a room holds is told, and the wall of a house on the left of its rooms.
COLUMN, WALL = 29, "│   "
# Folders that the documentation names and that are not ours, but a user's.
USERS = {"demo-output/", "images/", "labels/", "scribbles/"}

# A contract of pyproject.toml, and the floors of each house (a container of contracts) from the top to the ground.
Contract = dict[str, Any]
Houses = dict[str, list[list[str]]]


def page(text: str) -> str:
    """The page with the drawing between its two marks made anew."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{PAGE.relative_to(ROOT)} must hold the two lines\n{BEGIN}\n{END}")
    every = contracts()
    drawing = "\n".join(drawn(houses(every), PACKAGE))
    return f"{before}{BEGIN}\n\n```text\n{drawing}\n```\n\n{chr(10).join(bans(every))}\n\n{END}{after}"


def contracts() -> list[Contract]:
    """The contracts of import-linter."""
    declared: list[Contract] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    return declared


def houses(every: list[Contract]) -> Houses:
    """The floors of every container that has some: rooms on one floor may not import one another."""
    return {
        container: [[name.strip(" ()") for name in re.split(r"[|:]", layer)] for layer in contract["layers"]]
        for contract in every
        if contract["type"] == "layers"
        for container in contract["containers"]
    }


def drawn(floors_of: Houses, house: str, depth: int = 0) -> Iterator[str]:
    """The lines of a house, from its top floor down, with the houses inside it."""
    floors = floors_of[house]
    for number, rooms in zip(range(len(floors), 0, -1), floors, strict=True):
        for room in rooms:
            name = f"{house}.{room}"
            label = f"{WALL * depth}{number:>2}  {room}"
            words = textwrap.wrap(summary(name), WIDTH - COLUMN) or [""]
            yield f"{label:<{COLUMN}}{words[0]}".rstrip()
            yield from (f"{WALL * depth:<{COLUMN}}{more}" for more in words[1:])
            if name in floors_of:
                yield from drawn(floors_of, name, depth + 1)


def summary(name: str) -> str:
    """The first sentence of the docstring of a module or package; empty if it has none."""
    path = module_file(name)
    docstring = None if path is None else ast.get_docstring(ast.parse(path.read_text()))
    paragraph = " ".join((docstring or "").partition("\n\n")[0].split()).replace("``", "")
    return paragraph.partition(". ")[0].rstrip(".")


def module_file(name: str) -> Path | None:
    """The file of a module, or the `__init__` of a package, by its dotted name."""
    path = ROOT.joinpath("src", *name.split("."))
    return next((file for file in (path / "__init__.py", path.with_suffix(".py")) if file.is_file()), None)


def bans(every: list[Contract]) -> Iterator[str]:
    """What the other contracts forbid, a point each."""
    for contract in every:
        name = contract["name"][0].upper() + contract["name"][1:]
        if contract["type"] == "forbidden":
            sources = _listed(source.removeprefix(f"{PACKAGE}.") for source in contract["source_modules"])
            but = _listed(line.replace(f"{PACKAGE}.", "") for line in contract.get("ignore_imports", ()))
            rest = f" The one way out: {but}." if but else ""
            yield _point(f"{name}: {sources} must not import {_listed(contract['forbidden_modules'])}.{rest}")
        elif contract["type"] != "layers":
            yield _point(f"{name}.")


def _listed(names: Iterator[str] | list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _point(text: str) -> str:
    return textwrap.fill(text, WIDTH, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False)


def strays() -> list[str]:
    """Files, folders and modules that the documentation names and that are not there, as sentences."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
    return [
        f"{file.relative_to(ROOT)} names {name}, which does not exist"
        for file in pages
        for name, there in dict.fromkeys(_names(file.read_text()))
        if not there
    ]


def _names(text: str) -> Iterator[tuple[str, bool]]:
    """Every file, folder and module that a page names, and whether it is there."""
    for name in re.findall(r"(?<![\w./*-])[\w*][\w./*-]*\.py\b", text):
        yield name, _is_there(name)
    for name in re.findall(r"`((?:\w[\w.-]*/)+)`", text):
        yield name, name in USERS or _is_there(name)
    for name in re.findall(rf"\b{PACKAGE}(?:\.\w+)+", text):
        module, _, last = name.rpartition(".")
        inside = module_file(module)
        # The names of a package that loads them when they are used are in its stub.
        sources = [] if inside is None else [file for file in (inside, inside.with_suffix(".pyi")) if file.is_file()]
        known = any(re.search(rf"\b{last}\b", file.read_text()) for file in sources)
        yield name, known or module_file(name) is not None


def _is_there(name: str) -> bool:
    """Whether a path from the package, its parent or the repository exists; a bare file name may be anywhere."""
    if "/" not in name:
        return any(next((ROOT / top).rglob(name), None) for top in ("src", "tests", "tools"))
    return any(next(top.glob(name.rstrip("/")), None) for top in (ROOT / "src" / PACKAGE, ROOT / "src", ROOT))


def main() -> None:
    text = PAGE.read_text()
    fresh = page(text)
    if "--check" in sys.argv[1:]:
        wrong = strays() + ([] if fresh == text else [f"{PAGE.relative_to(ROOT)} is out of date; run: make docs"])
        raise SystemExit("\n".join(wrong) or 0)
    PAGE.write_text(fresh)


if __name__ == "__main__":
    main()
