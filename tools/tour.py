"""Take the tour of the documentation by real mouse and key events, with a screenshot of every step.

Open, run, paint, show the uncertainty, accept, measure, export, save, and open again in a second window; with an
animation of scribbles.

    python tools/tour.py docs/images/tour

Exit code 0 when every step did what it should; `make tour` runs it on a virtual screen.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import napari
import numpy as np
from gui_input import click, count_corrections, drag, wait_at_rest, wait_for
from imageio.v3 import imwrite
from PIL import Image
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication
from skimage.data import coffee
from skimage.io import imsave
from skimage.transform import resize

from napari_gsw.widgets.session import autosave

SIZE = (1280, 800)
# Milliseconds between two pictures of the animation.
EACH = 120
# Sweeps of the first run: more than usual, so that there is time to look.
LONG = 20_000
# Strokes on two things, from pixel to pixel.
STROKES = {"saucer": [(150, y) for y in range(60, 120, 4)], "table": [(60, y) for y in range(235, 280, 4)]}


class Tour:
    """One walk through the window."""

    def __init__(self, folder: Path, scratch: Path) -> None:
        self.folder, self.scratch = folder, scratch
        self.steps = 0
        # Of the animation: what was on the screen, and for how many milliseconds it is to be looked at.
        self.frames: list[tuple[Any, int]] = []
        self.viewer, self.panel = self.window()

    def window(self) -> tuple[napari.Viewer, Any]:
        viewer = napari.Viewer()
        viewer.window.resize(*SIZE)
        return viewer, viewer.window.add_plugin_dock_widget("napari-gsw", "GSW segmentation")[1]

    def picture(self) -> Any:
        QApplication.processEvents()
        return self.viewer.screenshot(canvas_only=False, flash=False)[..., :3]

    def step(self, name: str) -> None:
        """Keep a picture of where we are."""
        QTest.qWait(300)
        self.steps += 1
        few_colours = Image.fromarray(self.picture()).quantize(256)  # a third of the size
        few_colours.save(self.folder / f"{self.steps:02d}_{name}.png", optimize=True)
        print(f"{self.steps:02d} {name}", flush=True)

    def film(self, seconds: float, hold: float = 0.0) -> None:
        """Keep pictures for the animation, the last of them for so many seconds more."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            frame = (resize(self.picture(), (500, 800), anti_aliasing=True) * 255).astype(np.uint8)
            if self.frames and np.array_equal(frame, self.frames[-1][0]):
                self.frames[-1] = frame, self.frames[-1][1] + EACH
            else:
                self.frames.append((frame, EACH))
            QTest.qWait(EACH)
        self.frames[-1] = self.frames[-1][0], self.frames[-1][1] + round(1000 * hold)

    def labels(self, kind: str = "[GSW]") -> Any:
        return next(layer for layer in self.viewer.layers if layer.name.endswith(kind))

    # ---- the steps

    def open(self) -> None:
        path = self.scratch / "coffee.png"
        imsave(path, coffee()[::2, ::2])
        self.viewer.open(str(path))
        wait_for(lambda: self.panel.run_button.isEnabled(), "an image that can be segmented")
        self.step("open")

    def run(self) -> None:
        sweeps = self.panel.form.controls["sweeps"]
        usual = sweeps.value()
        sweeps.set_value(LONG)
        click(self.panel.run_button)
        wait_for(lambda: self.panel.session.frame is not None and self.panel.session.frame.sweep >= 3, "a first frame")
        self.film(2.5)
        self.step("running")
        if self.panel.session.run is None:
            raise SystemExit("the run was over before it was looked at")
        wait_at_rest(self.panel)
        sweeps.set_value(usual)
        self.film(0.3, hold=1.0)
        self.step("done")

    def paint(self) -> None:
        layer = self.labels()
        self.viewer.layers.selection.active = layer
        layer.mode, layer.brush_size = "paint", 6
        for number, points in enumerate(STROKES.values()):
            count = count_corrections(self.panel)
            layer.selected_label = int(np.asarray(layer.data).max()) + 1 + number
            drag(self.viewer, layer, points)
            wait_for(lambda n=count: count_corrections(self.panel) > n, "a scribble")
            self.film(1.0, hold=1.5)
            wait_at_rest(self.panel)
            follows = int((np.asarray(layer.data) == layer.selected_label).sum())
            if follows <= 6 * len(points) * 4:
                raise SystemExit("no superpixel follows a scribble")
        self.film(0.3, hold=1.5)
        self.step("painted")

    def doubt(self) -> None:
        box = self.panel.display.layer_boxes["boundary"]
        click(box)
        wait_for(
            lambda: any("boundary" in layer.name.lower() for layer in self.viewer.layers),
            "the layer of boundary probabilities",
        )
        self.step("how_sure")
        click(box)

    def accept(self) -> None:
        layer = self.labels("[regions]")
        layer.visible = True
        self.viewer.layers.selection.active = layer
        count = count_corrections(self.panel)
        place = STROKES["saucer"][3]
        self.viewer.cursor.position = layer.data_to_world(place)
        canvas = self.viewer.window._qt_viewer.canvas.native
        canvas.setFocus()
        QTest.keyClick(canvas, Qt.Key.Key_A)
        wait_for(lambda: count_corrections(self.panel) > count, "a region that is accepted")
        wait_at_rest(self.panel)
        self.step("accepted")

    def measure(self) -> None:
        self.panel.export.open_table()
        QTest.qWait(500)
        self.step("table")

    def export(self) -> Path:
        folder = self.scratch / "exported"
        written: list[str] = []
        self.panel.export.written.connect(written.append)
        self.panel.export.export(folder)
        wait_for(lambda: written and any(folder.rglob("*.json")), "the exported files")
        wait_at_rest(self.panel)
        return folder

    def save_and_open_again(self) -> None:
        path = self.scratch / "coffee.zarr.zip"
        self.panel.saving.save(path)
        wait_for(path.exists, "the session file")
        wait_at_rest(self.panel)
        shown = np.array(self.labels().data)
        self.viewer.close()
        self.viewer, self.panel = self.window()
        self.viewer.open(str(path), plugin="napari-gsw")
        wait_for(lambda: self.panel.session.frame is not None and self.panel.session.run is None, "the session again")
        wait_at_rest(self.panel)
        if not np.array_equal(self.labels().data, shown):
            raise SystemExit("the session has come back with other labels")
        self.step("opened_again")

    def animation(self) -> None:
        pictures, milliseconds = zip(*self.frames, strict=True)
        imwrite(self.folder / "steering.gif", np.stack(pictures), duration=list(milliseconds), loop=0)


def main() -> None:
    parser = argparse.ArgumentParser(description="Take the tour of the documentation, step by step.")
    parser.add_argument("folder", type=Path, help="folder of the screenshots")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        autosave.autosave_folder = lambda: Path(scratch) / "autosaves"
        tour = Tour(folder, Path(scratch))
        for step in (tour.open, tour.run, tour.paint, tour.doubt, tour.accept, tour.measure, tour.export):
            step()
        tour.save_and_open_again()
        tour.animation()
        tour.viewer.close()
    sys.exit(0)


if __name__ == "__main__":
    main()
