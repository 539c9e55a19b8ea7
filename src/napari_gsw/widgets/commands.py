"""Commands of napari's palette: the buttons of the GSW segmentation dock, which is opened if needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import napari

from napari_gsw.files.session_file import is_session
from napari_gsw.widgets.panel.panel import OPEN, SegmentationPanel


def panel(viewer: napari.Viewer | None = None) -> SegmentationPanel:
    """Return the newest open panel, or open one."""
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
    """Return the reader of a session file for npe2: it opens the session in the panel, which makes the layers."""
    return open_in_panel if isinstance(path, str) and is_session(path) else None


def open_in_panel(path: str) -> list[tuple[None]]:
    """Open a session in the panel; what is returned says that there is no layer to add."""
    panel().opening.open(path)
    return [(None,)]


def _command(act: Callable[[SegmentationPanel], Any]) -> Callable[[], None]:
    """Return a command that does something in the panel."""

    def command() -> None:
        act(panel())

    return command


run_or_pause = _command(SegmentationPanel.run_or_pause)
step = _command(SegmentationPanel.step)
stop = _command(SegmentationPanel.stop)
reset = _command(SegmentationPanel.reset)
next_display = _command(SegmentationPanel.next_display)
lock_painted = _command(SegmentationPanel.lock_painted)
unlock_all = _command(lambda panel: panel.session.corrections.unlock())
