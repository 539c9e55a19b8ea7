"""The package as it is installed: layers, manifest, documentation."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
import yaml

import napari_gsw as gsw
from napari_gsw.core.settings.presets import DEFAULT_PRESET, PRESETS

ROOT = Path(__file__).parents[1]


def loaded_by(script: str) -> set[str]:
    """The packages that a script has loaded when it ends, in a process of its own that prints no error."""
    script = f"import sys\n{script}\nprint('loaded', *sorted({{name.partition('.')[0] for name in sys.modules}}))"
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert process.stderr == ""
    return set(process.stdout.splitlines()[-1].split()[1:])


SCREEN = {"napari", "qtpy", "PyQt6", "PySide6", "PyQt5", "magicgui", "superqt", "pyqtgraph"}
HEAVY = {"numpy", "numba", "llvmlite", "scipy", "skimage", "arviz_stats", "zarr", "tifffile", "imageio", "tqdm"}
OUTSIDE = {"dask", "distributed", "matplotlib", "pandas", "xarray"}


@pytest.mark.parametrize(
    "script",
    [
        "import napari_gsw; napari_gsw.__all__, dir(napari_gsw), napari_gsw.__version__",
        "import napari_gsw; napari_gsw.InputError, napari_gsw.PRESETS, napari_gsw.preset('photo')",
        "from napari_gsw.cli import parser; parser().format_help()",
        "from napari_gsw.cli import main\ntry: main(['segment', '--help'])\nexcept SystemExit: pass",
    ],
)
def test_importing_the_package_and_asking_for_help_loads_nothing_that_takes_long(script):
    assert loaded_by(script) & (HEAVY | SCREEN | OUTSIDE) == set()


def test_the_engine_loads_no_screen_no_cluster_and_no_plots():
    assert loaded_by("import napari_gsw.batch; from napari_gsw import *") & (SCREEN | OUTSIDE) == set()


def test_a_photograph_is_segmented_without_what_only_objects_or_a_network_need(tmp_path):
    script = f"""
from napari_gsw.cli import main
assert main(["segment", "sample:astronaut", "-q", "--sweeps", "2", "-o", {str(tmp_path)!r}]) == 0
unneeded = ("pooch", "scipy.spatial", "scipy.optimize", "skimage.morphology.binary", "skimage.filters.thresholding")
assert not [name for name in unneeded if name in sys.modules], sorted(sys.modules)
"""
    assert loaded_by(script) & (SCREEN | OUTSIDE) == set()


def test_the_recipe_asks_for_what_the_package_asks_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    text = (ROOT / "recipe" / "meta.yaml").read_text()
    run = text.partition("  run:\n")[2].partition("\ntest:")[0]
    asked = {line.removeprefix("    - ").replace(" ", "") for line in run.splitlines() if line.startswith("    - ")}
    asked = {line.replace("matplotlib-base", "matplotlib") for line in asked if not line.startswith("python>")}
    assert asked == set(project["dependencies"])
    assert f'set version = "{project["version"]}"' in text


def test_the_manifest_at_the_top_is_the_packaged_one():
    top, packaged = ROOT / "napari.yaml", ROOT / "src" / "napari_gsw" / "napari.yaml"
    assert top.read_text() == packaged.read_text()
    assert yaml.safe_load(packaged.read_text())["name"] == "napari-gsw"


def test_the_manifest_is_valid():
    npe2 = pytest.importorskip("npe2")
    manifest = npe2.PluginManifest.from_distribution("napari-gsw")
    manifest.validate_imports()


def test_the_manifest_offers_everything():
    made = yaml.safe_load((ROOT / "src" / "napari_gsw" / "napari.yaml").read_text())["contributions"]
    assert [w["display_name"] for w in made["widgets"]] == [
        "GSW segmentation",
        "Superpixels",
        "Compare segmentations",
        "Table of regions",
    ]
    menus = {menu: [item["command"] for item in items] for menu, items in made["menus"].items()}
    assert menus["napari/layers/segment"] == ["napari-gsw.superpixels", "napari-gsw.segmentation"]
    assert menus["napari/layers/measure"] == ["napari-gsw.table", "napari-gsw.comparison"]
    assert len(made["sample_data"]) == 9
    (writer,) = made["writers"]
    assert writer["layer_types"] == ["labels"]
    properties = made["configurations"]["segmentation"]["properties"]
    assert properties["preset"]["enum"] == list(PRESETS)
    assert properties["preset"]["default"] == DEFAULT_PRESET
    assert all(p["description"].endswith(".") for p in properties.values())


@pytest.mark.gui
@pytest.mark.parametrize("ending", [".tif", ".ome.tif", ".npy", ".png", ".zarr"])
def test_saving_a_labels_layer_goes_through_the_writer(make_napari_viewer, tmp_path, ending):
    from napari_gsw.files.images import read_labels

    viewer = make_napari_viewer()
    labels = np.arange(1, 31, dtype=np.uint16).reshape(5, 6)
    layer = viewer.add_labels(labels, name="mine", scale=(0.5, 0.25), units=("um", "um"))
    layer.metadata["napari-gsw"] = {"software": "napari-gsw", "seed": 4}
    path = tmp_path / f"mine{ending}"
    written = viewer.layers.save(str(path), plugin="napari-gsw")
    assert str(path) in written
    assert np.array_equal(read_labels(path), labels)
    assert json.loads((tmp_path / "mine.provenance.json").read_text())["seed"] == 4


def test_every_public_name_exists_and_is_documented():
    assert set(gsw.__all__) <= set(dir(gsw))
    assert {"segment", "prepare", "Problem", "sample", "log_posterior", "DirichletProcess", "PRESETS"} < set(
        gsw.__all__
    )
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


def test_a_cache_of_an_older_version_is_no_reason_to_fail(tmp_path):
    """Kernels are kept on disk with the types of their records; those of a version that is gone are ignored."""
    script = (
        "import sys; from napari_gsw.core.partitions import canonical_labels; import numpy as np\n"
        "print(canonical_labels(np.array([3, 1, 3], np.int32)).tolist())"
    )
    asked = dict(env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}, capture_output=True, text=True, check=True)
    first = subprocess.run([sys.executable, "-c", script], **asked)
    kernels = list(tmp_path.rglob("*.nbc"))
    assert kernels
    for kernel in kernels:
        kernel.write_bytes(b"cnapari_gsw.core.arrays\nNoSuchRecord\n.")  # a pickle of a class which is no more
    again = subprocess.run([sys.executable, "-c", script], **asked)
    assert first.stdout == again.stdout == "[0, 1, 0]\n"
    assert again.stderr == ""
