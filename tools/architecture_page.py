"""Write the package tables of docs/architecture.md from the docstrings of the modules.

``--check`` writes nothing. It fails if the tables are out of date, or if a page of the documentation names a file,
folder or module that does not exist.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "napari_gsw"
SOURCE = ROOT / "src" / PACKAGE
PAGE = ROOT / "docs" / "architecture.md"
BEGIN = "<!-- Tables made by tools/architecture_page.py; do not edit. -->"
END = "<!-- End of the tables. -->"
# Folders of the user that the documentation names.
USER_FOLDERS = {"demo-output/", "images/", "labels/", "scribbles/"}


def update_page(text: str) -> str:
    """Return the page with the tables between its two marks made anew."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{PAGE.relative_to(ROOT)} must contain the two lines\n{BEGIN}\n{END}")
    return f"{before}{BEGIN}\n\n{chr(10).join(make_tables())}\n{END}{after}"


def make_tables() -> Iterator[str]:
    """Yield the lines of one table for each package, in the order in which data flow through them."""
    for package in order_packages():
        folder = ROOT.joinpath("src", *package.split("."))
        modules = [file for file in sorted(folder.glob("*.py")) if file.stem != "__init__"]
        if modules:
            title = package.removeprefix(PACKAGE).lstrip(".").replace(".", "/") or PACKAGE
            yield f"### `{title}/`\n\n{summarize(folder / '__init__.py')}.\n\n| module | contents |\n|---|---|"
            yield from (f"| `{file.name}` | {summarize(file)} |" for file in modules)
            yield ""


def order_packages() -> list[str]:
    """Return the names of all packages: low layers first, each followed by the packages within it."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = {c["containers"][0]: c["layers"] for c in contracts if c["type"] == "layers"}

    def visit(package: str) -> Iterator[str]:
        folder = ROOT.joinpath("src", *package.split("."))
        yield package
        ordered = [name.strip() for layer in reversed(layers.get(package, [])) for name in layer.split("|")]
        present = sorted(path.parent.name for path in folder.glob("*/__init__.py"))
        for name in [n for n in ordered if n in present] + [n for n in present if n not in ordered]:
            yield from visit(f"{package}.{name}")

    return list(visit(PACKAGE))


def summarize(file: Path) -> str:
    """Return the first sentence of a module's docstring, without its full stop."""
    paragraph = " ".join((ast.get_docstring(ast.parse(file.read_text())) or "").partition("\n\n")[0].split())
    sentence = re.split(r"(?<!\beq)\. ", paragraph)[0]
    return sentence.rstrip(".").replace("``", "`").replace("|", r"\|")


def find_missing_names() -> list[str]:
    """Return a message for each file, folder or module that a page names and that does not exist."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
    return [
        f"{page.relative_to(ROOT)} names {name}, which does not exist"
        for page in pages
        for name, exists in dict.fromkeys(iterate_names(page.read_text()))
        if not exists
    ]


def iterate_names(text: str) -> Iterator[tuple[str, bool]]:
    """Yield every file, folder and module that a page names, and whether it exists."""
    for name in re.findall(r"(?<![\w./*-])[\w*][\w./*-]*\.py\b", text):
        yield name, file_exists(name)
    for name in re.findall(r"`((?:\w[\w.-]*/)+)`", text):
        yield name, name in USER_FOLDERS or name == f"{PACKAGE}/" or file_exists(name)
    for name in re.findall(rf"\b{PACKAGE}(?:\.\w+)+", text):
        module, _, last = name.rpartition(".")
        path = find_module(module)
        # A package that loads its names lazily declares them in its stub.
        sources = [] if path is None else [file for file in (path, path.with_suffix(".pyi")) if file.is_file()]
        is_defined = any(re.search(rf"\b{last}\b", file.read_text()) for file in sources)
        yield name, is_defined or find_module(name) is not None


def find_module(name: str) -> Path | None:
    """Return the file of a module, or the `__init__.py` of a package, by its dotted name."""
    path = ROOT.joinpath("src", *name.split("."))
    return next((file for file in (path / "__init__.py", path.with_suffix(".py")) if file.is_file()), None)


def file_exists(name: str) -> bool:
    """Return whether a path exists below the package, `src` or the repository; a bare file name may be anywhere."""
    if "/" not in name:
        return any(next((ROOT / top).rglob(name), None) for top in ("src", "tests", "tools"))
    return any(next(top.glob(name.rstrip("/")), None) for top in (SOURCE, ROOT / "src", ROOT))


def main() -> None:
    """Write the page, or check it."""
    text = PAGE.read_text()
    updated = update_page(text)
    if "--check" in sys.argv[1:]:
        messages = find_missing_names()
        if updated != text:
            messages.append(f"{PAGE.relative_to(ROOT)} is out of date. Run: make docs")
        raise SystemExit("\n".join(messages) or 0)
    PAGE.write_text(updated)


if __name__ == "__main__":
    main()
