"""Which files are ours to replace: those that a mark of ours lists, as they were when it was written.

The mark of a result is the JSON file beside it that tells what made it (``provenance.json``): its entry ``files`` has a
fingerprint of every other file of the result. A file without a mark, or one that has changed since, is somebody's
work: it is never removed, and written over only where a person says so.

While a result takes the place of an earlier one, the mark lists both: whatever is killed in between, what is there
afterwards is ours.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from napari_gsw.core.errors import InputError
from napari_gsw.files.label_formats import WRITERS, companion

FILES, UNFINISHED = "files", "unfinished"
PROVENANCE = "provenance.json"
SOFTWARE = "napari-gsw"
HEX = re.compile("[0-9a-f]{64}")
# Whether files that are not ours may be written over: all that are in the way, or those of these names.
Overwrite = bool | Collection[str]


class Mark(NamedTuple):
    """What a mark says.

    Attributes
    ----------
    content : all of it but the files.
    files : by name, the fingerprints that a file of ours may have; more than one while a result takes its place.
    """

    content: Mapping[str, Any]
    files: Mapping[str, Collection[str]]

    def claims(self, file: Path) -> bool:
        """Whether a file that is there is ours: as it was written, and no link."""
        expected = self.files.get(file.name, ())
        return bool(expected) and not file.is_symlink() and fingerprint(file) in expected


def fingerprint(path: Path) -> str:
    """SHA-256 of a file; of a folder that of the names and fingerprints of all that is in it."""
    if not path.is_dir():
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    digest = hashlib.sha256()
    for name in sorted(os.listdir(path)):
        digest.update(os.fsencode(f"{name}\0{fingerprint(path / name)}\n"))
    return digest.hexdigest()


def read_mark(path: Path) -> Mark | None:
    """The mark in a file; None if there is none, or none of ours."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        entries = content.get(FILES, {})
        files = {name: [entry] if isinstance(entry, str) else list(entry) for name, entry in entries.items()}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return None
    # A provenance may be of the user's own making; then its list of files tells that we wrote it.
    listed = bool(files) and all(HEX.fullmatch(str(one)) for entry in files.values() for one in entry)
    if not listed and content.get("software") != SOFTWARE:
        return None
    return Mark({key: value for key, value in content.items() if key not in (FILES, UNFINISHED)}, files)


def origin_digest(path: Path) -> str:
    """SHA-256 of what a mark says but its files: of what made a result, and so of the result.

    ValueError if there is no mark, or if its files are not all in their places yet.
    """
    content = json.loads(path.read_text(encoding="utf-8"))
    if UNFINISHED in content:
        raise ValueError("its result was not finished")
    text = json.dumps({key: value for key, value in content.items() if key != FILES}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def mark_text(content: Mapping[str, Any], files: Mapping[str, Any], unfinished: bool = False) -> str:
    """The text of a mark: what it tells, and the fingerprint of each file (or several, where either may be there)."""
    state = {UNFINISHED: True} if unfinished else {}
    return json.dumps({**content, **state, FILES: dict(sorted(files.items()))}, indent=2) + "\n"


def may_go(overwrite: Overwrite, name: str) -> bool:
    """Whether a person has said that the file of this name may be written over."""
    return overwrite if isinstance(overwrite, bool) else name in overwrite


def check_free(folder: Path, names: Iterable[str], mark: str | None, overwrite: Overwrite = False) -> dict[str, bool]:
    """Refuse to write over what is not ours.

    Parameters
    ----------
    folder : where files are to be written; need not be there.
    names : of those files.
    mark : name of the file that lists them; None if there is none, and everything that is there is foreign.
    overwrite : what may be written over all the same.

    Returns
    -------
    For each name that is there already, whether it is ours.
    """
    earlier = None if mark is None else read_mark(folder / mark)
    standing = {}
    for name in names:
        path = folder / name
        if os.path.lexists(path):
            standing[name] = earlier is not None and (name == mark or earlier.claims(path))
            if not standing[name] and not may_go(overwrite, name):
                raise InputError(foreign(path))
    return standing


def foreign(path: Path) -> str:
    """The sentence about a file in the way."""
    return (
        f"{str(path)!r} is there already, and is not as napari-gsw has written it: choose another name, move it away, "
        "or say --overwrite (in Python overwrite=True)"
    )


def check_alone(folder: Path, names: Collection[str], mark: str) -> None:
    """Refuse labels whose mark would be that of other labels, which would then have none.

    Parameters
    ----------
    folder, names, mark : as for :func:`check_free`.
    """
    for name in other_labels(folder, names, mark):
        raise InputError(
            f"{str(folder / mark)!r} tells what made {name!r}, and can tell of one result only: choose another name, "
            "move them away, or say --overwrite (in Python overwrite=True)"
        )


def other_labels(folder: Path, names: Collection[str], mark: str) -> list[str]:
    """Label images that a mark lists, that are there, and that are not among `names`."""
    earlier = read_mark(folder / mark)
    if earlier is None:
        return []
    return [
        name
        for name in earlier.files
        if name not in names and os.path.lexists(folder / name) and _is_label_name(name) and _mark_of(name) == mark
    ]


def _is_label_name(name: str) -> bool:
    return any(name.lower().endswith(ending) for ending in WRITERS)


def _mark_of(labels_name: str) -> str:
    """Name of the mark of labels."""
    return companion(labels_name, PROVENANCE)
