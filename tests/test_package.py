"""The package as it is installed: layers, manifest, documentation."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import napari_gsw as gsw

ROOT = Path(__file__).parents[1]


def test_importing_the_package_loads_no_screen_no_cluster_and_no_plots():
    script = (
        "import sys, napari_gsw\n"
        "heavy = {'napari', 'qtpy', 'PyQt6', 'PySide6', 'PyQt5', 'dask', 'matplotlib', 'magicgui', 'pyqtgraph'}\n"
        "print(sorted(heavy & {m.partition('.')[0] for m in sys.modules}))"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
    assert found.stderr == ""


def test_the_manifest_at_the_top_is_the_packaged_one():
    top, packaged = ROOT / "napari.yaml", ROOT / "src" / "napari_gsw" / "napari.yaml"
    assert top.read_text() == packaged.read_text()
    assert yaml.safe_load(packaged.read_text())["name"] == "napari-gsw"


def test_the_manifest_is_valid():
    npe2 = pytest.importorskip("npe2")
    manifest = npe2.PluginManifest.from_distribution("napari-gsw")
    manifest.validate_imports()


def test_every_public_name_exists_and_is_documented():
    for name in gsw.__all__:
        thing = getattr(gsw, name)
        if callable(thing):
            assert thing.__doc__, name


def test_the_settings_page_is_made_from_the_declaration():
    made = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "settings_page.py")], capture_output=True, text=True, check=True
    )
    assert made.stdout == (ROOT / "docs" / "settings.md").read_text(), "run: make docs"


def test_the_version_is_one():
    assert gsw.__version__
    found = subprocess.run(
        [sys.executable, "-c", "from napari_gsw.cli import main; main(['--version'])"], capture_output=True, text=True
    )
    assert found.stdout.strip() == f"napari-gsw {gsw.__version__}"


def test_citation_and_licence_are_there():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    authors = citation["preferred-citation"]["authors"]
    assert [a["family-names"] for a in authors] == ["Xu", "Caron", "Doucet"]
    assert (ROOT / "LICENSE").read_text().startswith("BSD 3-Clause")
