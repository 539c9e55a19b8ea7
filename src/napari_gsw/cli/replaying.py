"""``napari-gsw replay SESSION [--image IMAGE] -o OUT``."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from napari_gsw.cli.choices import named_image
from napari_gsw.core.errors import InputError

if TYPE_CHECKING:
    from napari_gsw.core.pipeline.saved_session import SavedSession


def saved_pixels(session: SavedSession, path: str) -> Any:
    """The image that a session worked on: the one in it, or the first of its places where there is one."""
    from napari_gsw.files.session_file import image_places

    if not session.images:
        raise InputError(f"the session {path!r} does not say where its image is; name it with --image")
    image = session.images[0]
    if image.pixels is not None:
        return image.pixels
    for place in image_places(image, path):
        return named_image(str(place))[0]
    raise InputError(f"the image of {path!r} is not where it was; name it with --image")


def is_folder(path: str) -> bool:
    """Whether images are meant that lie in a folder; a zarr is an image."""
    from napari_gsw.files.zarr_files import is_zarr

    return os.path.isdir(path) and not is_zarr(Path(path))


def checked_name(arguments: argparse.Namespace) -> str:
    """The session's name, if there is such a file."""
    if not os.path.isfile(arguments.session):
        raise InputError(f"there is no session {arguments.session!r}")
    return str(arguments.session)
