"""The seeded bugs of ``make mutants`` are found in the code, and their tests exist."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MUTANTS = runpy.run_path(str(ROOT / "tools" / "mutants.py"))["MUTANTS"]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_seeded_bug_has_its_line_and_its_tests(mutant):
    assert mutant.line in (ROOT / "src" / "napari_gsw" / mutant.file).read_text()
    assert (ROOT / mutant.tests[0]).exists()
