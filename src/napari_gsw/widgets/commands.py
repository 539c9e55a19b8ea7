"""Commands of napari's palette: the buttons of the GSW segmentation dock, which is opened if needed."""

from __future__ import annotations

from collections.abc import Callable

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
    if not isinstance(path, str) or not is_session(path):
        return None
    return open_in_panel


def open_in_panel(path: str) -> list[tuple[None]]:
    """Open a session in the panel; what is returned says that there is no layer to add."""
    panel().opening.open(path)
    return [(None,)]


def run_or_pause() -> None:
    """Run or pause the segmentation."""
    panel().run_or_pause()


def step() -> None:
    """Make one sweep."""
    panel().step()


def stop() -> None:
    """Stop the run and keep the result."""
    panel().stop()


def reset() -> None:
    """Reset the segmentation."""
    panel().reset()


def next_display() -> None:
    """Show the next of the states: current, best."""
    panel().next_display()


def lock_painted() -> None:
    """Lock what was painted."""
    panel().lock_painted()


def unlock_all() -> None:
    """Unlock all superpixels."""
    panel().session.corrections.unlock()
