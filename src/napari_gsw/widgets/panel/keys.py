"""The keys of the panel, which work while the canvas has the focus."""

from __future__ import annotations

from functools import partial
from typing import Any

import napari

from napari_gsw.widgets.kit.link import Link

# Keys that napari leaves free, and what they call; the docs and the tooltips name them.
KEYS = {
    "Control-Alt-R": "run_or_pause",
    "Control-Alt-N": "step",
    "Control-Alt-X": "stop",
    "Control-Alt-D": "next_display",
    "Control-Alt-L": "lock_painted",
}


def bind_keys(viewer: napari.Viewer, panel: Any, link: Link) -> None:
    """Let the keys call a panel's methods until its link is cut."""
    for key, name in KEYS.items():
        viewer.bind_key(key, lambda _, name=name: getattr(panel, name)(), overwrite=True)
        link.at_end(partial(viewer.bind_key, key, None))
