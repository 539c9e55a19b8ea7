"""Scratch folders: each belongs to a living process, or was left by one that was killed and is cleared by the next.

A process keeps a file of its scratch folder locked for as long as it lives, however it ends: a lock that can be taken
tells of a death. A lock of another machine may not reach this one (some shared file systems keep locks to themselves),
so what another machine has left goes only when nothing in it has changed for a day, by the clock of the file system.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import secrets
import shutil
import socket
import sys
import tempfile
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from pathlib import Path
from typing import IO, Any, NamedTuple

from napari_gsw.core.errors import InputError
from napari_gsw.files.label_formats import WRITERS, check_target, sibling_name

# How the name of a scratch folder begins.
SCRATCH = ".unfinished-"
# The file in it that its process keeps locked; it holds the name of the machine.
OWNER = ".owner"
DAY = 86_400.0  # seconds

# The scratch folders of this process: a lock does not keep out the process that holds it.
_own_scratch: set[Path] = set()


@contextmanager
def scratch_folder(folder: Path) -> Iterator[Path]:
    """A new folder inside `folder` for what is not finished; it vanishes with all that is still in it.

    What dead processes have left in `folder` is cleared first.
    """
    owner = _make_scratch(folder)
    scratch = Path(owner.name).parent
    try:
        with owner:
            owner.write(machine())
            owner.flush()
            with suppress(OSError):  # a file system without locks
                _take_lock(owner)
            clear_leftovers(folder, os.stat(scratch / OWNER).st_mtime)
            yield scratch
    finally:
        _remove_scratch(scratch)
        _own_scratch.discard(scratch)


def _make_scratch(folder: Path) -> IO[str]:
    """The open file in a new scratch folder that tells whose it is."""
    while True:
        scratch = Path(tempfile.mkdtemp(prefix=SCRATCH, dir=folder)).absolute()
        _own_scratch.add(scratch)
        try:
            return (scratch / OWNER).open("w", encoding="utf-8")
        except FileNotFoundError:  # another process has taken it for a leftover
            _own_scratch.discard(scratch)
        except BaseException:
            _remove_scratch(scratch)
            _own_scratch.discard(scratch)
            raise


def _remove_scratch(scratch: Path) -> None:
    """Remove a scratch folder, what tells whose it is last: whoever is killed meanwhile leaves what can be known."""
    with suppress(OSError), os.scandir(scratch) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            elif entry.name != OWNER:
                os.unlink(entry.path)
    shutil.rmtree(scratch, ignore_errors=True)


def clear_leftovers(folder: Path, now: float) -> None:
    """Remove the scratch folders of dead processes from a folder; `now` by the clock of its file system."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(SCRATCH) and entry.is_dir(follow_symlinks=False):
                scratch = Path(entry.path).absolute()
                if scratch in _own_scratch:
                    continue
                with suppress(OSError):  # an empty one is of no use to a dead process, and a living one makes another
                    os.rmdir(scratch)
                if _is_dead(scratch, now):
                    _remove_scratch(scratch)


@cache
def machine() -> str:
    """A name of this machine since it was started, which no other has."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return f"{socket.gethostname()} {uuid.getnode():x}"


def _is_dead(scratch: Path, now: float) -> bool:
    """Whether nobody will finish what is in a scratch folder of another process."""
    free_lock = here = False
    try:
        with (scratch / OWNER).open("r+", encoding="utf-8") as owner:
            here = owner.read() == machine()
            try:
                _take_lock(owner)
                free_lock = True
            except (BlockingIOError, PermissionError):
                return False
    except FileNotFoundError:
        pass  # removed meanwhile, or with files of ours in it that somebody has taken the owner's from
    except OSError:
        pass  # a file system without locks
    return (free_lock and here) or now - _last_change(scratch) > DAY


def _last_change(folder: Path) -> float:
    """Time of the last change of anything in a folder."""
    times = [os.stat(folder).st_mtime] if os.path.exists(folder) else [0.0]
    for parent, below, files in os.walk(folder):
        for name in (*below, *files):
            with suppress(OSError):
                times.append(os.lstat(os.path.join(parent, name)).st_mtime)
    return max(times)


def _take_lock(file: IO[Any]) -> None:
    """Lock a file until it is closed; BlockingIOError or PermissionError if another process has done so."""
    if sys.platform == "win32":
        import msvcrt

        file.seek(2**20)  # beyond its end, so that others can read it
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)


FILES, UNFINISHED = "files", "unfinished"
PROVENANCE = "provenance.json"
SOFTWARE = "napari-gsw"
HEX = re.compile("[0-9a-f]{64}")
# Whether files that are not ours may be written over: all that are in the way, or those of these names.
Overwrite = bool | Collection[str]


class Manifest(NamedTuple):
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


def read_manifest(path: Path) -> Manifest | None:
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
    return Manifest({key: value for key, value in content.items() if key not in (FILES, UNFINISHED)}, files)


def provenance_digest(path: Path) -> str:
    """SHA-256 of what a mark says but its files: of what made a result, and so of the result.

    ValueError if there is no mark, or if its files are not all in their places yet.
    """
    content = json.loads(path.read_text(encoding="utf-8"))
    if UNFINISHED in content:
        raise ValueError("its result was not finished")
    text = json.dumps({key: value for key, value in content.items() if key != FILES}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def manifest_text(content: Mapping[str, Any], files: Mapping[str, Any], unfinished: bool = False) -> str:
    """The text of a mark: what it tells, and the fingerprint of each file (or several, where either may be there)."""
    state = {UNFINISHED: True} if unfinished else {}
    return json.dumps({**content, **state, FILES: dict(sorted(files.items()))}, indent=2) + "\n"


def may_overwrite(overwrite: Overwrite, name: str) -> bool:
    """Whether a person has said that the file of this name may be written over."""
    return overwrite if isinstance(overwrite, bool) else name in overwrite


def check_overwrite(
    folder: Path, names: Iterable[str], mark: str | None, overwrite: Overwrite = False
) -> dict[str, bool]:
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
    earlier = None if mark is None else read_manifest(folder / mark)
    standing = {}
    for name in names:
        path = folder / name
        if os.path.lexists(path):
            standing[name] = earlier is not None and (name == mark or earlier.claims(path))
            if not standing[name] and not may_overwrite(overwrite, name):
                raise InputError(overwrite_error(path))
    return standing


def overwrite_error(path: Path) -> str:
    """The sentence about a file in the way."""
    return (
        f"{str(path)!r} is there already, and is not as napari-gsw has written it: choose another name, move it away, "
        "or say --overwrite (in Python overwrite=True)"
    )


def check_sole_result(folder: Path, names: Collection[str], mark: str) -> None:
    """Refuse labels whose mark would be that of other labels, which would then have none.

    Parameters
    ----------
    folder, names, mark : as for :func:`check_free`.
    """
    for name in find_other_labels(folder, names, mark):
        raise InputError(
            f"{str(folder / mark)!r} tells what made {name!r}, and can tell of one result only: choose another name, "
            "move them away, or say --overwrite (in Python overwrite=True)"
        )


def find_other_labels(folder: Path, names: Collection[str], mark: str) -> list[str]:
    """Label images that a mark lists, that are there, and that are not among `names`."""
    earlier = read_manifest(folder / mark)
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
    return sibling_name(labels_name, PROVENANCE)


# What NumPy says when the system takes only a part of what it is given: nothing but a full disk does that.
SHORT_WRITE = re.compile(r"\d+ requested and \d+ written")


@contextmanager
def report_write_errors(what: str) -> Iterator[None]:
    """What the system does not let us write (a full disk, a lack of rights) is the user's to mend: one line tells.

    Parameters
    ----------
    what : the subject of that line, such as ``the journal 'a.jsonl'``.
    """
    try:
        yield
    except OSError as reason:
        full = reason.errno is None and SHORT_WRITE.search(str(reason))
        words = os.strerror(errno.ENOSPC) if full else reason.strerror or reason
        raise InputError(f"{what} cannot be written: {words}") from None


def ensure_folder(folder: Path) -> Path:
    """Make a folder and those above it, as far as they are missing; returns the folder."""
    with report_write_errors(f"the output folder {str(folder)!r}"):
        folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def writable_folder(folder: str | os.PathLike[str]) -> Iterator[Path]:
    """A folder that can be written into, made if it is missing; if what follows fails, it goes again unless in use."""
    target = Path(folder)
    created: list[Path] = []
    try:
        with report_write_errors(f"the output folder {str(folder)!r}"):
            for parent in reversed([p for p in (target, *target.parents) if not os.path.exists(p)]):
                parent.mkdir(exist_ok=True)  # another process may have been quicker
                created.append(parent)
            with scratch_folder(target):
                pass
        yield target
    except BaseException:
        _remove_empty(created)
        raise


@contextmanager
def output_folder(
    folder: str | os.PathLike[str], mark: str | None = None, overwrite: Overwrite = False
) -> Iterator[Path]:
    """A scratch folder inside `folder` whose files move into it when all went well, and vanish otherwise.

    Parameters
    ----------
    folder : where the files go; made if it is missing.
    mark : name of the file that lists the others, see :mod:`napari_gsw.files.output_folder`. What the mark of an earlier
        result lists and this one does not write goes, as far as it is still as it was written: it would belong to
        other labels.
    overwrite : what is not ours and may be written over all the same.
    """
    what = f"the output folder {str(folder)!r}"
    with writable_folder(folder) as target, report_write_errors(what), scratch_folder(target) as scratch:
        yield scratch
        _place(scratch, target, mark, overwrite)


def _place(scratch: Path, target: Path, mark: str | None, overwrite: Overwrite) -> None:
    """Move all files of a scratch folder to their places."""
    names = sorted(set(os.listdir(scratch)) - {OWNER})
    standing = check_overwrite(target, names, mark, overwrite)
    for name in names:
        _check_folder(scratch / name, target / name, standing.get(name, True))
    earlier = None if mark is None else read_manifest(target / mark)
    if mark is None or mark not in names:
        for name in names:
            _move(scratch / name, target / name)
        if mark is not None and earlier is not None:
            _disclaim(target, mark, earlier, names)
        return
    content = json.loads((scratch / mark).read_text(encoding="utf-8"))
    # The same result in another format: both are told of by one mark, and both stay.
    same = earlier is not None and dict(earlier.content) == content
    if not same and overwrite is not True:
        check_sole_result(target, names, mark)
    kept = find_other_labels(target, names, mark) if same else []
    others = [name for name in names if name != mark]
    files: dict[str, Any] = {name: fingerprint(scratch / name) for name in others}
    listed = {} if earlier is None else dict(earlier.files)
    before = {name: [*listed.get(name, ()), *_present(target / name)] for name in others}
    both = {**listed, **{name: [files[name], *before[name]] for name in others}}
    _put_manifest(scratch, target / mark, manifest_text(content, both, unfinished=True))
    moved: list[str] = []
    try:
        for name in others:
            _move(scratch / name, target / name)
            moved.append(name)
    except BaseException:
        if not moved:  # nothing has changed
            _restore_manifest(scratch, target / mark, earlier)
        raise
    for name in set(listed) - {*names, *kept}:
        path = target / name
        if earlier is not None and os.path.lexists(path) and earlier.claims(path):
            _remove(path)
    _put_manifest(scratch, target / mark, manifest_text(content, {**files, **_entries(listed, kept)}))


def _present(path: Path) -> list[str]:
    """Fingerprint of what a person lets us write over, if it is there."""
    return [fingerprint(path)] if os.path.exists(path) and not path.is_symlink() else []


def _entries(listed: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Entries of a mark for some of its files: one fingerprint as it is, several as a list."""
    return {name: listed[name][0] if len(listed[name]) == 1 else list(listed[name]) for name in names}


def _put_manifest(scratch: Path, path: Path, text: str) -> None:
    new = scratch / ".mark"
    new.write_text(text, encoding="utf-8")
    os.replace(new, path)


def _restore_manifest(scratch: Path, path: Path, earlier: Manifest | None) -> None:
    if earlier is None:
        path.unlink(missing_ok=True)
    else:
        _put_manifest(scratch, path, manifest_text(earlier.content, _entries(earlier.files, list(earlier.files))))


def _disclaim(target: Path, mark: str, earlier: Manifest, names: Sequence[str]) -> None:
    """Of files that were written over without a word on what made them, an earlier mark would tell a lie."""
    if not set(names) & set(earlier.files):
        return
    left = find_other_labels(target, names, mark)
    if left:
        with scratch_folder(target) as scratch:
            kept = [name for name in earlier.files if name not in names]
            _put_manifest(scratch, target / mark, manifest_text(earlier.content, _entries(earlier.files, kept)))
    else:
        (target / mark).unlink(missing_ok=True)


def _check_folder(source: Path, target: Path, ours: bool) -> None:
    """Refuse to replace a folder by a file, or one that is neither ours nor a label image: a person's word is not for
    whatever else is in it."""
    if os.path.isdir(target) and not source.is_dir():
        raise InputError(f"{str(target)!r} is a folder, and a file is to be written there; move it away")
    if source.is_dir() and not ours:
        check_target(target)


def _move(source: Path, target: Path) -> None:
    """Put a file or folder in its place. A folder cannot be moved onto another: the old one steps aside first."""
    if not source.is_dir() or not os.path.lexists(target):
        os.replace(source, target)
        return
    replaced = source.with_name(f".replaced-{source.name}")
    os.replace(target, replaced)
    try:
        os.replace(source, target)
    except BaseException:
        os.replace(replaced, target)
        raise


def _remove(path: Path) -> None:
    """Remove a file or a folder with all that is in it."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _remove_empty(folders: list[Path]) -> None:
    """Remove folders from the last to the first until one is not empty."""
    for folder in reversed(folders):
        try:
            folder.rmdir()
        except OSError:
            return


# The folder inside that of the results where runs keep what they need to go on.
JOURNALS = ".progress"


def process_name() -> str:
    """A name that no other process has, on whatever machine: for files that have one writer each."""
    return _run_name(os.getpid())


@lru_cache
def _run_name(process: int) -> str:
    host = re.sub(r"[^A-Za-z0-9-]", "_", socket.gethostname())[:40]
    return f"{host}-{process}-{secrets.token_hex(4)}"


def is_own_file(path: Path) -> bool:
    """Whether a report that is there is as a run of ours has written it."""
    if path.is_symlink() or not path.is_file():
        return False
    line = f"{fingerprint(path)}  {path.name}"
    return any(line in _lines(ledger) for ledger in (path.parent / JOURNALS).glob("files-*.txt"))


def check_writable(folder: Path, names: Iterable[str], overwrite: bool = False) -> None:
    """See before the work begins that reports can be written: a foreign file in the way is an error that names it.

    Parameters
    ----------
    folder : of the reports; need not be there.
    names : of the files.
    overwrite : a person's word: what is there now is ours to replace.
    """
    for name in names:
        path = folder / name
        if not os.path.lexists(path) or is_own_file(path):
            continue
        if not overwrite or not os.path.isfile(path):
            raise InputError(overwrite_error(path))
        _claim(path, fingerprint(path))


@contextmanager
def replace_atomically(path: Path) -> Iterator[Path]:
    """A scratch file that takes the place of a report when it is complete, unless somebody else's is there."""
    with report_write_errors(repr(str(path))), scratch_folder(path.parent) as scratch:
        new = scratch / path.name
        yield new
        if os.path.lexists(path) and not is_own_file(path):
            raise InputError(overwrite_error(path))
        _claim(path, fingerprint(new))
        os.replace(new, path)


def _claim(path: Path, digest: str) -> None:
    ledger = ensure_folder(path.parent / JOURNALS) / f"files-{process_name()}.txt"
    with ledger.open("ab", buffering=0) as file:
        file.write(os.fsencode(f"{digest}  {path.name}\n"))


def _lines(ledger: Path) -> list[str]:
    try:
        return os.fsdecode(ledger.read_bytes()).splitlines()
    except OSError:
        return []
