"""``napari-gsw gui``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from napari_gsw.cli.options import SAMPLE, open_named_image
from napari_gsw.core.errors import InputError


def add_parser(commands: Any) -> None:
    """Add the command and its options."""
    command = commands.add_parser(
        "gui", help="open napari with the widget docked", description="Open napari with the widget docked."
    )
    command.set_defaults(run=run_gui)
    command.add_argument("image", metavar="IMAGE", nargs="?", help="image file, or a sample such as sample:astronaut")


def run_gui(arguments: argparse.Namespace) -> int:
    """Open napari."""
    from napari_gsw.core.image.lazy import is_lazy, to_dask_pyramid

    try:
        import napari
    except ImportError:
        raise InputError('napari is not installed; try: pip install "napari-gsw[all]"') from None
    image = None if arguments.image is None else open_named_image(arguments.image)[0]
    if is_lazy(image):
        image = to_dask_pyramid(image)
    viewer = napari.Viewer()
    if arguments.image is not None:
        viewer.add_image(image, name=Path(arguments.image.removeprefix(SAMPLE)).stem)
    viewer.window.add_plugin_dock_widget("napari-gsw", "GSW segmentation")
    napari.run()
    return 0
