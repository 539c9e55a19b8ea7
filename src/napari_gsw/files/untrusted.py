"""Checks of untrusted files: a small file must not claim all memory."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import NoReturn
from xml.parsers import expat

import psutil

# Bytes that any file may unpack to.
ALWAYS = 2**29
# Deflate packs at most 1032 bytes into one; no image is compressed further.
MAX_COMPRESSION = 1100


def check_promise(
    size: int,
    stored: int,
    subject: str = "an image",
    max_compression: int = MAX_COMPRESSION,
    advice: str = "as zarr it is read in blocks",
) -> None:
    """Raise ValueError if an array of `size` bytes cannot come from `stored` bytes of a file, or exceeds the memory."""
    if size > ALWAYS and size > max_compression * stored:
        raise ValueError(f"it promises {subject} of {_format_bytes(size)} in a file of {_format_bytes(stored)}")
    if size > psutil.virtual_memory().total:
        raise ValueError(f"{subject} of {_format_bytes(size)} does not fit into memory; {advice}")


def stored_size(path: Path) -> int:
    """Return the bytes of a file, or of all files in a folder."""
    return sum(file.stat().st_size for file in (path, *path.rglob("*")) if file.is_file())


def _format_bytes(count: int) -> str:
    for size, unit in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if count >= size:
            return f"{count / size:.0f} {unit}"
    return f"{count} bytes"


def parse_xml(content: str | bytes) -> ET.Element:
    """Parse XML; ValueError if it defines entities, :class:`ET.ParseError` if it is not XML."""
    refuse_entities(content)
    return ET.fromstring(content)


def refuse_entities(content: str | bytes) -> None:
    """Raise ValueError if XML defines entities; text that is not well formed passes."""

    def refuse(*_: object) -> NoReturn:
        raise ValueError("it defines XML entities, which may grow without end")

    parser = expat.ParserCreate()
    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(content, True)
    except expat.ExpatError:
        return
