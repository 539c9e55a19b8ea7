"""Every example in the documentation runs, every command is one, every link leads somewhere."""

from __future__ import annotations

import re
import shlex
from importlib.machinery import SourceFileLoader
from pathlib import Path

import numpy as np
import pytest
from skimage.data import astronaut
from skimage.io import imsave

from napari_gsw.cli import parser

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))
# Pages whose examples are experiments of minutes.
LONG = ("model.md",)
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


def with_examples():
    """The pages with Python in them; long ones have a target of their own."""
    for page in PAGES:
        if BLOCK.search(page.read_text()):
            yield pytest.param(page, id=page.name, marks=[pytest.mark.slow] if page.name in LONG else [])


def names_of_readers(folder):
    """Names for the examples: an image, paint on it, counts of words, and a folder of images."""
    image = astronaut()[:80, :80]
    painted = np.zeros(image.shape[:2], np.int32)
    painted[5:9, 5:40], painted[60:64, 20:60] = 1, 2
    (folder / "images").mkdir()
    for k in range(2):
        imsave(folder / "images" / f"{k}.png", image[: 40 + k])
    rng = np.random.default_rng(0)
    return dict(
        np=np, image=image, counts=rng.integers(0, 5, (5, 3)), edges=[(i, i + 1) for i in range(4)], labels=[0] * 5,
        painted=painted, strokes=painted, wanted=1 + (np.indices(image.shape[:2])[0] > 30), a=image, b=image, c=image,
    )  # fmt: skip


@pytest.mark.parametrize("page", with_examples())
def test_the_examples_run_in_turn(page, tmp_path, monkeypatch, capsys):
    import napari_gsw as gsw

    monkeypatch.chdir(tmp_path)
    names = names_of_readers(tmp_path)
    if page.name not in ("README.md", "scripting.md", "sessions.md"):  # those that say so themselves
        names |= dict(gsw=gsw, result=gsw.segment(names["image"], seeds=names["painted"], seed=0))
    for example in BLOCK.findall(page.read_text()):
        exec(example, names)


def commands():
    """Every command line of ours, as it stands on a line of its own."""
    for page in PAGES:
        fences = re.sub(r"```python.*?```", "", page.read_text(), flags=re.DOTALL)
        for line in re.findall(r"^(?: {4})?(napari-gsw [a-z]+ .*)$", fences, re.MULTILINE):
            words = re.split(r" {3,}", line.partition(" #")[0])[0]
            if re.match(r"napari-gsw (segment|batch|evaluate|reproduce|bench|replay|gui) ", words):
                yield pytest.param(words, id=f"{page.name}: {words[:60]}")


@pytest.mark.parametrize("words", commands())
def test_every_command_is_one(words):
    parser().parse_args(shlex.split(words)[1:])


def test_functions_are_in_the_files_that_the_pages_name():
    named = re.compile(r"`(\w+)` of `((?:core|files|widgets|methods|batch)/[\w/]+\.py)`")
    there = [(page.name, *match) for page in PAGES for match in named.findall(page.read_text(encoding="utf-8"))]
    assert there
    for page, name, file in there:
        text = (ROOT / "src" / "napari_gsw" / file).read_text(encoding="utf-8")
        assert re.search(rf"^(?:def|class) {name}\b|^{name}\b", text, re.MULTILINE), f"{page}: {name} is not in {file}"


def test_links_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            assert target.startswith("https://") or (page.parent / target).exists(), (page, target)


def test_figures_are_those_of_the_files_they_come_from(monkeypatch):
    """``python tools/docs_figures.py`` writes them anew."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    tool = SourceFileLoader("docs_figures", str(ROOT / "tools" / "docs_figures.py")).load_module()
    pages = [page for page in (ROOT / "docs").glob("*.md") if tool.BLOCK.search(page.read_text())]
    assert {page.name for page in pages} >= {"steering.md", "quality.md", "benchmark.md", "reproduction.md"}
    for page in pages:
        assert tool.written(page.read_text()) == page.read_text(), page.name


# Numbers of three digits that are settings, not results.
CHOSEN = {".001", ".002"}


def test_no_result_is_typed(monkeypatch):
    """A score has three digits: it stands where ``tools/docs_figures.py`` puts it, and nowhere else."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    tool = SourceFileLoader("docs_figures", str(ROOT / "tools" / "docs_figures.py")).load_module()
    other_text = re.compile(r"^```.*?^```|^    .*?$|`[^`\n]*`|\([^)\n]*\.(?:md|png)[^)\n]*\)", re.DOTALL | re.MULTILINE)
    score = re.compile(r"(?<![\w.])\d*\.\d{3,}(?!\w|\.\w)")
    typed = {
        f"{page.name}: {number}"
        for page in [*(ROOT / "docs").glob("*.md"), ROOT / "README.md"]
        if page.name != "settings.md"
        for number in score.findall(other_text.sub("", tool.BLOCK.sub("", page.read_text(encoding="utf-8"))))
        if number not in CHOSEN
    }
    assert typed == set()
