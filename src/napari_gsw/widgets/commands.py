"""What the command palette offers: the buttons of the GSW segmentation widget, opened if need be."""

from __future__ import annotations

from collections.abc import Callable

import napari

from napari_gsw.files.session_file import is_session
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


def session_reader(path: str | list[str]) -> Callable[[str], list[tuple[None]]] | None:
    """npe2's reader of session files: they are opened in the panel, which makes the layers."""
    if not isinstance(path, str) or not is_session(path):
        return None
    return open_in_panel


def open_in_panel(path: str) -> list[tuple[None]]:
    """Open a session in the panel; napari is told that there is no layer of its own to add."""
    panel().opening.open(path)
    return [(None,)]


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
