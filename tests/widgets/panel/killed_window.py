"""A window that runs a chain to its end, or restores one and goes on with it; somebody kills it on the way.

    python killed_window.py IMAGE LABELS SWEEPS

The labels on the screen are written to LABELS when the chain is at its end.
"""

from __future__ import annotations

import os
import sys

import napari
import numpy as np
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication

from napari_gsw.files import session_file as autosave

autosave.EVERY = 0.05


def wait_for(what):
    while not what():
        QApplication.processEvents()
        QTest.qWait(5)


def click(button):
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)


def main(image, labels, sweeps):
    viewer = napari.Viewer()
    viewer.window.resize(800, 500)
    panel = viewer.window.add_plugin_dock_widget("napari-gsw", "GSW segmentation")[1]
    if panel.restore_row.isVisible():
        opened = []
        panel.opening.opened.connect(opened.append)
        click(panel.restore_row.restore_button)
        wait_for(lambda: opened and panel.session.frame is not None and panel.session.run is None)
    else:
        viewer.open(image)
        panel.seed.setValue(5)
    for name, value in {"site_size": 60, "sweeps": sweeps}.items():
        panel.form.controls[name].set_value(value)
    interactive = panel.session.array_run and panel.session.array_run.interactive
    if interactive is None or interactive.sweep < sweeps:
        click(panel.run_button)
        wait_for(lambda: panel.session.run is not None)
    wait_for(lambda: panel.session.state == "done" and panel.session.run is None)
    assert panel.session.array_run.interactive.sweep == sweeps, panel.session.array_run.interactive.sweep
    (layer,) = [layer for layer in viewer.layers if layer.name.endswith("[GSW]")]
    unfinished = f"{labels}.part.npy"
    np.save(unfinished, layer.data)
    os.replace(unfinished, labels)
    panel.session.autosaver.close()  # as a window that is closed does: what is being saved is on the disk then
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
