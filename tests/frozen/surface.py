"""All that a user sees: commands, options, settings, public names, files, controls; prose and explanations left out.

From the root of the repository, with ``PYTHONPATH=tests`` and on a screen (a virtual one will do):

    python -m frozen.surface                        write tests/data/surface.json anew
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import inspect
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import napari_gsw as gsw
from frozen import adapter

RECORD = Path(__file__).parents[1] / "data" / "surface.json"
DOCKS = ("GSW segmentation", "Superpixels", "Compare segmentations", "Table of regions")
# What is longer is a sentence and no name of a control.
LONGEST_LABEL = 30
# Settings that bring further controls.
VARIED = (
    {"prior": "pitman-yor"},
    {"prior": "finite-dirichlet"},
    {"sampler": "gsw"},
    {"sampler": "data-driven"},
    {"sampler": "bond-drawn"},
    {"replicas": 3},
    {"coupling": "learnt"},
    {"neighbourhood": 2},
    {"likelihood": "gaussian"},
    {"likelihood": "luminance"},
    {"signal": "objects"},
    {"view": "objects"},
    {"view": "regions"},
    {"consensus": "none"},
)


def surface() -> dict[str, Any]:
    """All of it that needs no window, ready for JSON."""
    return {
        "commands": commands(),
        "python": {name: public_name(getattr(gsw, name)) for name in sorted(gsw.__all__)},
        "settings": adapter.setting_table(),
        "presets": {name: gsw.preset(name).to_dict() for name in gsw.PRESETS},
        "methods": adapter.method_table(),
        "napari": manifest(),
        "formats": adapter.file_formats(),
        "files": files(),
        "batch columns": adapter.batch_columns(),
    }


# ---- commands


def commands() -> dict[str, Any]:
    """The options of every command, by section."""
    parser = adapter.command_parser()
    (verbs,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    found = {"": options(parser)}
    return found | {name: options(verbs.choices[name]) for name in sorted(verbs.choices)}


def options(parser: Any) -> dict[str, Any]:
    """Every option of a parser; its default is that of the parser, before a preset speaks."""
    found = {}
    for group in parser._action_groups:
        for action in group._group_actions:
            if isinstance(action, argparse._SubParsersAction):
                continue
            name = ", ".join(action.option_strings) or str(action.metavar or action.dest)
            facts = {
                "kind": type(action).__name__.strip("_").removesuffix("Action"),
                "metavar": action.metavar if action.option_strings else None,
                "nargs": action.nargs,
                "default": adapter.plain(action.default),
                "choices": None if action.choices is None else list(action.choices),
                "required": action.required,
            }
            found[name] = {key: value for key, value in facts.items() if value not in (None, False, "Store")}
    return found


# ---- Python


def public_name(thing: Any) -> Any:
    """A function's signature; a class's signature and public attributes; a constant's keys or value."""
    if inspect.isclass(thing):
        members = {name: member(thing, name) for name in sorted(names_of(thing))}
        return {"signature": signature(thing), **members}
    if callable(thing):
        return signature(thing)
    return sorted(thing) if isinstance(thing, dict) else adapter.plain(thing)


def names_of(kind: type) -> set[str]:
    """Public names of a class: those that we define, and its fields."""
    ours = [base for base in kind.__mro__ if base.__module__.startswith("napari_gsw")]
    names = {name for base in ours for name in (*vars(base), *getattr(base, "__annotations__", {}))}
    if dataclasses.is_dataclass(kind):
        names |= {field.name for field in dataclasses.fields(kind)}
    return {name for name in names if not name.startswith("_")}


def member(kind: type, name: str) -> str:
    """Kind of an attribute."""
    found = inspect.getattr_static(kind, name, None)
    if isinstance(found, staticmethod | classmethod):
        return f"{type(found).__name__} {signature(getattr(kind, name))}"
    if inspect.isfunction(found):
        return f"method {signature(found)}"
    return "attribute"


def signature(thing: Any) -> str:
    """Names, kinds and defaults of parameters."""
    try:
        full = inspect.signature(thing)
    except (TypeError, ValueError):
        return ""
    bare = [one.replace(annotation=inspect.Parameter.empty) for one in full.parameters.values()]
    return str(full.replace(parameters=bare, return_annotation=inspect.Signature.empty))


# ---- napari


def manifest() -> dict[str, Any]:
    """Manifest of napari without the places of the code."""
    import importlib.resources

    import yaml

    text = importlib.resources.files(gsw).joinpath("napari.yaml").read_text(encoding="utf-8")
    told = yaml.safe_load(text)["contributions"]
    for command in told["commands"]:
        del command["python_name"]
    for setting in told["configurations"]["segmentation"]["properties"].values():
        del setting["description"]
    return dict(told)


# ---- files


def files() -> dict[str, Any]:
    """Names of all files that commands write, columns of tables, keys of records."""
    import tifffile
    import zarr

    from napari_gsw.cli import main

    every = ("--table", "--uncertainty", "--save-sites", "--save-plot", "--sweeps", "12", "--chains", "2", "-q")
    rng = np.random.default_rng(0)
    image = (np.kron(rng.random((4, 4)), np.ones((12, 12))) * 200 + rng.random((48, 48)) * 20).astype(np.uint8)
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tifffile.imwrite(folder / "grey.tif", image)
        tifffile.imwrite(folder / "rgb.tif", np.stack([image, image.T, 255 - image], axis=-1), photometric="rgb")
        tifffile.imwrite(folder / "volume.tif", np.stack([image[:24, :24]] * 4), metadata={"axes": "ZYX"})
        stored = zarr.create_array(folder / "large.zarr", shape=(96, 96), chunks=(40, 40), dtype=image.dtype)
        stored[:] = np.tile(image, (2, 2))
        (folder / "batch").mkdir()
        (folder / "batch" / "a.tif").write_bytes((folder / "grey.tif").read_bytes())
        runs = {
            "grey": ("segment", "grey.tif"),
            "grey, objects": ("segment", "grey.tif", "--preset", "microscopy", "--objects", "classical"),
            "grey, zarr": ("segment", "grey.tif", "--format", "zarr"),
            "rgb, png": ("segment", "rgb.tif", "--format", "png"),
            "volume": ("segment", "volume.tif"),
            "lazy": ("segment", "large.zarr", "--block-pixels", "4096"),
            "another method": ("segment", "rgb.tif", "--method", "felzenszwalb", "--table", "--save-plot", "-q"),
            "batch": ("batch", "batch"),
        }
        for key, (verb, file, *more) in runs.items():
            out = folder / "out" / key
            words = more if "--method" in more else [*more, *every]
            if main([verb, str(folder / file), "-o", str(out), *words]) != 0:
                raise RuntimeError(f"{key} failed")
            found[key] = contents(out)
        session = gsw.save_session(folder / "s.zarr.zip", gsw.segment(image, sweeps=5))
        if main(["replay", str(session), "--image", str(folder / "grey.tif"), "-o", str(folder / "again"), "-q"]) != 0:
            raise RuntimeError("replay failed")
        found["replay"] = contents(folder / "again")
    return found


def contents(folder: Path) -> dict[str, Any]:
    """Files of a folder (a zarr is one): columns of tables, keys of records, type of images."""
    import tifffile

    found: dict[str, Any] = {}
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):
            continue
        what: Any = ""
        if path.suffix == ".csv":
            with path.open(newline="", encoding="utf-8-sig") as file:
                what = next(csv.reader(file))
        elif path.suffix == ".json":
            what = sorted(json.loads(path.read_text(encoding="utf-8")))
        elif path.suffix == ".tif":
            array = tifffile.imread(path)
            what = f"{array.dtype} {array.ndim}D"
        found[path.name] = what
    return found


# ---- controls


def widgets(viewer: Any) -> dict[str, Any]:
    """The controls of every dock in their order, with an image in the window."""
    from qtpy.QtWidgets import QApplication

    found: dict[str, Any] = {"keys": adapter.panel_keys(), "score tables": adapter.score_columns()}
    viewer.add_image(np.zeros((40, 50), np.uint8), name="photo")
    viewer.add_labels(np.ones((40, 50), np.uint8), name="mine")
    for title in DOCKS:
        dock = viewer.window.add_plugin_dock_widget("napari-gsw", title)[1]
        for _ in range(2):  # what a section holds may be made when it is first seen
            QApplication.processEvents()
            adapter.unfold(dock)
        QApplication.processEvents()
        found[title] = controls(dock)
        if title == DOCKS[0]:
            seen = set(found[title])
            for choice in (*gsw.PRESETS, *VARIED):
                more = f"{title}, {choice}"
                adapter.choose(dock, choice)
                QApplication.processEvents()
                found[more] = [line for line in controls(dock) if line not in seen]
                seen |= set(found[more])
        if hasattr(dock, "shut_down"):
            dock.shut_down()
    return found


def controls(root: Any) -> list[str]:
    """Every control below a widget as a line: Qt's class, name or text, choices or range."""
    from qtpy.QtWidgets import (
        QAbstractButton,
        QAbstractItemView,
        QAbstractSpinBox,
        QComboBox,
        QLineEdit,
        QProgressBar,
        QSlider,
    )

    kinds = (QAbstractButton, QComboBox, QAbstractSpinBox, QLineEdit, QSlider, QAbstractItemView, QProgressBar)
    found: list[str] = []

    def visit(widget: Any, label: str) -> None:
        if isinstance(widget, kinds):
            found.append(described(widget, label))
            return
        for child, own in ordered_children(widget):
            visit(child, own or label)

    visit(root, "")
    return found


def ordered_children(widget: Any) -> list[tuple[Any, str]]:
    """Child widgets in the order of their layout, with the label of their row; those in no layout last."""
    from qtpy.QtWidgets import QFormLayout, QLabel, QWidget

    found: list[tuple[Any, str]] = []

    def walk(layout: Any, label: str) -> None:
        last = label
        for k in range(layout.count()):
            item = layout.itemAt(k)
            inner, own = item.widget(), last
            if isinstance(layout, QFormLayout):
                field = layout.labelForField(inner if inner is not None else item.layout())
                own = field.text() if isinstance(field, QLabel) else label
            if inner is None:
                if item.layout() is not None:
                    walk(item.layout(), own)
            else:
                found.append((inner, own))
                last = inner.text() if isinstance(inner, QLabel) and inner.text() else last

    if widget.layout() is not None:
        walk(widget.layout(), "")
    placed = {id(child) for child, _ in found}
    for child in widget.children():
        if isinstance(child, QWidget) and id(child) not in placed and not child.isWindow():
            found.append((child, ""))
    return found


def described(widget: Any, label: str) -> str:
    """One control as a line."""
    from qtpy.QtWidgets import QAbstractButton, QComboBox, QLineEdit, QToolButton

    label = label if len(label) <= LONGEST_LABEL else ""
    kind = next(base.__name__ for base in type(widget).__mro__ if base.__module__.startswith(("PyQt", "PySide")))
    text = widget.text() if isinstance(widget, QAbstractButton) else ""
    words = [kind, repr(text or widget.accessibleName() or label)]
    if isinstance(widget, QComboBox):
        words.append(repr([widget.itemText(k) for k in range(widget.count())]))
    elif isinstance(widget, QLineEdit):
        words.append(repr(widget.placeholderText()))
    elif hasattr(widget, "minimum") and hasattr(widget, "maximum") and not isinstance(widget, QToolButton):
        words.append(f"{widget.minimum()} to {widget.maximum()}")
    if isinstance(widget, QAbstractButton) and hasattr(widget, "menu") and widget.menu() is not None:
        words.append(repr([action.text() for action in widget.menu().actions()]))
    return " ".join(words)


def read() -> dict[str, Any]:
    """The record of the repository."""
    return dict(json.loads(RECORD.read_text(encoding="utf-8")))


def main() -> int:
    import napari

    found = surface()
    viewer = napari.Viewer(show=True)
    found["widgets"] = widgets(viewer)
    RECORD.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    viewer.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
