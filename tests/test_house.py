"""The rules of the house that no linter knows: how long files and functions may be, and what names may not say."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "napari_gsw"
MODULES = sorted(SOURCE.rglob("*.py"))
# Words that say that something was found or made, and not what it is.
EMPTY_WORDS = {"found", "made", "told", "whole"}


def functions(module: Path) -> list[ast.FunctionDef]:
    return [node for node in ast.walk(ast.parse(module.read_text())) if isinstance(node, ast.FunctionDef)]


def is_kernel(function: ast.FunctionDef) -> bool:
    return any(
        isinstance(d, ast.Name) and d.id in ("jit", "inner", "lean", "inlined", "merged")
        for d in function.decorator_list
    )


def test_there_is_something_to_look_at():
    assert len(MODULES) > 150
    assert sum(is_kernel(f) for module in MODULES for f in functions(module)) > 100


def test_no_file_is_long():
    assert [m.name for m in MODULES if len(m.read_text().splitlines()) > 400] == []


def test_no_function_is_long():
    assert [f.name for m in MODULES for f in functions(m) if f.end_lineno - f.lineno >= 120] == []


def test_no_kernel_takes_many_arguments():
    assert [f.name for m in MODULES for f in functions(m) if is_kernel(f) and len(f.args.args) > 8] == []


def test_every_kernel_and_every_public_function_of_core_says_what_it_does():
    silent = [
        f"{m.name}: {f.name}"
        for m in MODULES
        if "core" in m.relative_to(SOURCE).parts
        for f in ast.parse(m.read_text()).body
        if isinstance(f, ast.FunctionDef)
        if (is_kernel(f) or not f.name.startswith("_")) and not ast.get_docstring(f)
    ]
    assert silent == []


def test_every_room_says_what_lives_there():
    rooms = [m for m in MODULES if m.name == "__init__.py" and m.parent.name != "data"]
    assert [str(m.parent.relative_to(SOURCE)) for m in rooms if not ast.get_docstring(ast.parse(m.read_text()))] == []


def test_no_name_says_only_that_a_thing_was_made():
    named: set[str] = set()
    for module in MODULES:
        for node in ast.walk(ast.parse(module.read_text())):
            name = getattr(node, "id", None) or getattr(node, "arg", None) or getattr(node, "attr", None)
            name = name or getattr(node, "name", None)
            if isinstance(name, str) and name.strip("_") in EMPTY_WORDS:
                named.add(f"{module.relative_to(SOURCE)}: {name}")
    assert named == set()


def test_the_drawing_of_the_rooms_and_the_paths_in_the_docs_are_up_to_date():
    spec = importlib.util.spec_from_file_location("architecture_page", ROOT / "tools" / "architecture_page.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    page = ROOT / "docs" / "architecture.md"
    assert script.page(page.read_text(encoding="utf-8")) == page.read_text(encoding="utf-8"), "run: make docs"
    assert script.strays() == []
