"""Checks of untrusted files: a small file must not claim all memory."""

from __future__ import annotations

import os
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import NoReturn
from xml.parsers import expat

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
    if size > memory_size():
        raise ValueError(f"{subject} of {_format_bytes(size)} does not fit into memory; {advice}")


def memory_size() -> float:
    """Return the bytes of memory of this machine, infinite where the system does not tell."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return float("inf")


def stored_size(path: Path) -> int:
    """Return the bytes of a file, or of all files in a folder."""
    if not path.is_dir():
        return path.stat().st_size
    return sum(os.lstat(os.path.join(parent, name)).st_size for parent, _, names in os.walk(path) for name in names)


def _format_bytes(count: int) -> str:
    for size, unit in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if count >= size:
            return f"{count / size:.0f} {unit}"
    return f"{count} bytes"


def parse_xml(content: str | bytes) -> ET.Element:
    """Parse XML; ValueError if it defines entities, :class:`ET.ParseError` if it is not XML.

    Examples
    --------
    >>> parse_xml("<a>1 &lt; 2</a>").text
    '1 < 2'
    """
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
