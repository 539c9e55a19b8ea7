"""What the command palette offers: the buttons of the GSW segmentation widget, opened if need be."""

from __future__ import annotations

import napari

from napari_gsw.widgets.panel.panel import OPEN, SegmentationPanel


def panel(viewer: napari.Viewer | None = None) -> SegmentationPanel:
    """The open panel, newest first, or a new one."""
    for ref in reversed(OPEN):
        open_panel = ref()
        if open_panel is not None:
            return open_panel
    viewer = viewer or napari.current_viewer()
    if viewer is None:
        raise RuntimeError("there is no viewer")
    widget = viewer.window.add_plugin_dock_widget("napari-gsw", "GSW segmentation")[1]
    return getattr(widget, "__wrapped__", widget)  # type: ignore[no-any-return]


def run_or_pause() -> None:
    panel().run_or_pause()


def step() -> None:
    panel().step()


def stop() -> None:
    panel().stop()


def reset() -> None:
    panel().reset()


def next_display() -> None:
    panel().next_display()


def lock_painted() -> None:
    panel().lock_painted()


def unlock_all() -> None:
    panel().session.corrections.unlock()
