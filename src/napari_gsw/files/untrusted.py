"""What a file promises, against what it can hold: a small file must not claim all memory."""

from __future__ import annotations

import os
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import NoReturn
from xml.parsers import expat

# Bytes that any file may unpack to.
ALWAYS = 2**29
# Deflate packs 1032 bytes into one at best; an image that is packed more tightly is none that anybody took.
MAX_COMPRESSION = 1100
IN_BLOCKS = "as zarr it is read in blocks"


def check_promise(
    promised: int, stored: int, what: str = "an image", most_packed: int = MAX_COMPRESSION, advice: str = IN_BLOCKS
) -> None:
    """ValueError if an array cannot be what a file holds, or is more than this machine does.

    Parameters
    ----------
    promised : bytes of the array.
    stored : bytes of the file.
    what : it is.
    most_packed : how many bytes may be packed into one.
    advice : what to do if it is more than the memory.
    """
    if promised > ALWAYS and promised > most_packed * stored:
        raise ValueError(f"it promises {what} of {_format_bytes(promised)} in a file of {_format_bytes(stored)}")
    if promised > memory_size():
        raise ValueError(f"{what} of {_format_bytes(promised)} does not fit into memory; {advice}")


def memory_size() -> float:
    """Bytes of memory of this machine; infinite where the system does not tell."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return float("inf")


def stored_size(path: Path) -> int:
    """Bytes of a file, or of all files of a folder."""
    if not path.is_dir():
        return path.stat().st_size
    return sum(os.lstat(os.path.join(parent, name)).st_size for parent, _, names in os.walk(path) for name in names)


def _format_bytes(count: int) -> str:
    """Bytes for a person.

    >>> _format_bytes(10**12), _format_bytes(512)
    ('1000 GB', '512 bytes')
    """
    for size, unit in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if count >= size:
            return f"{count / size:.0f} {unit}"
    return f"{count} bytes"


def parse_xml(content: str | bytes) -> ET.Element:
    """The root of an XML text; ValueError if it defines entities, and :class:`ET.ParseError` if it is none.

    Examples
    --------
    >>> parse_xml("<a>1 &lt; 2</a>").text
    '1 < 2'
    """
    refuse_entities(content)
    return ET.fromstring(content)


def refuse_entities(content: str | bytes) -> None:
    """ValueError if an XML text defines entities; one that is not well formed passes."""

    def refuse(*_: object) -> NoReturn:
        raise ValueError("it defines XML entities, which may grow without end")

    parser = expat.ParserCreate()
    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(content, True)
    except expat.ExpatError:
        return
