"""Where compiled kernels are kept, and how several processes share that place.

Numba keeps a numbered file for each type of arguments of a function, and an index of them. Two processes that compile
one function for two types at the same time may both write number 1, and the index then leads to the code of the other
type. Here the name of a file says what is in it, by a hash of everything that it depends on, so that there is nothing
to write over and no index. And the folder is looked for once in a process, not once for each function.

Numba itself is imported when something is written: whether there is anything is asked before.
"""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from fnmatch import fnmatch
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

PACKAGE = Path(__file__).parents[2]
ENDING = ".nbc"
DIGEST = 16  # bytes
# Folders of the package with kernels in them, and files in these whose functions, records or constants are compiled.
COMPILED_IN = ("core", "methods")
COMPILED = (
    "*kernels.py", "*tables.py", "records.py", "schedule.py", "field.py", "priors.py", "region_graph.py",
    "rising_factorial.py", "jit.py",
)  # fmt: skip
COMPILER = "compiler"


class CacheFolder(NamedTuple):
    """Where compiled kernels are kept.

    Attributes
    ----------
    path : the folder; None if nothing can be kept.
    remark : a sentence for the user where that is not for good, or "".
    """

    path: Path | None
    remark: str = ""


@cache
def cache_folder() -> CacheFolder:
    """The first folder that can be written: the one of NUMBA_CACHE_DIR, the package's, the user's, a temporary one."""
    for folder in _lasting_folders():
        if _is_writable(folder):
            return CacheFolder(folder)
    until = "they are compiled again when the computer has cleared it"
    remark = f"compiled kernels can be kept neither with the package nor in your cache, only in {{}}: {until}"
    folder = Path(tempfile.gettempdir(), f"napari-gsw-{getattr(os, 'getuid', lambda: 0)()}", _own_name())
    if _is_private(folder.parent) and _is_writable(folder):
        return CacheFolder(folder, remark.format(folder))
    return CacheFolder(None, "compiled kernels cannot be kept anywhere: they are compiled again at each start")


def _lasting_folders() -> Iterator[Path]:
    from platformdirs import user_cache_dir

    if folder := os.environ.get("NUMBA_CACHE_DIR"):
        yield Path(folder, _own_name())
    yield PACKAGE / "__pycache__"
    yield Path(user_cache_dir("napari-gsw", appauthor=False), _own_name())


def _own_name() -> str:
    """A name for this copy of the package, beside which others may be installed."""
    return f"kernels-{hashlib.sha256(str(PACKAGE).encode()).hexdigest()[:12]}"


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def _is_private(folder: Path) -> bool:
    """Whether nobody else can put anything into a folder, which is made: what is read from it is run."""
    with suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        if not hasattr(os, "getuid"):  # where everybody has a temporary folder of his own
            return True
        facts = folder.lstat()
        return stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.getuid() and not facts.st_mode & 0o077
    return False


def compiled_files() -> list[Path]:
    """The files of this package from which anything is compiled."""
    folders = [(Path(folder), names) for part in COMPILED_IN for folder, _, names in os.walk(PACKAGE / part)]
    return sorted(
        folder / name
        for folder, names in folders
        for name in names
        if folder.name == COMPILER or any(fnmatch(name, pattern) for pattern in COMPILED)
    )


@cache
def source_stamp() -> str:
    """A hash of everything that compiled code is made of, beside the types of its arguments.

    The code of a function in another file is compiled into its callers, and so are records and the constants that name
    their entries: a change in any of these files counts for all.
    """
    content = hashlib.sha256(" ".join((*map(version, ("numba", "llvmlite", "numpy")), sys.version)).encode())
    for file in compiled_files():
        content.update(file.read_bytes())
    return content.hexdigest()[:12]


def _digest(content: bytes) -> bytes:
    """What a file begins with, by which damage to the rest is seen."""
    return hashlib.blake2b(content, digest_size=DIGEST).digest()


def kernel_name(function: Callable[..., Any]) -> str:
    """What the files of a kernel begin with."""
    return f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}"


class KernelFiles:
    """The files of one kernel, one for each type of its arguments; a drop-in for numba's index and its data.

    Parameters
    ----------
    folder : where they are.
    name, ending : what they begin and end with.
    read : makes of a file what was kept in it.
    """

    def __init__(
        self, folder: Path, name: str, ending: str = ENDING, read: Callable[[BinaryIO], Any] = pickle.load
    ) -> None:
        self.folder, self.name, self.ending, self._read = folder, name, ending, read

    def path(self, key: tuple[Any, ...]) -> Path:
        """The file of a key: a signature or words for it, what the processor is, and hashes of the function."""
        signature, *others = key
        digest = hashlib.sha256(repr((str(signature), *others)).encode()).hexdigest()[:24]
        return self.folder / f"{self.name}.{source_stamp()}-{digest}{self.ending}"

    @property
    def any(self) -> bool:
        """Whether there are any."""
        return any(self.folder.glob(f"{self.name}.{source_stamp()}-*{self.ending}"))

    def save(self, key: tuple[Any, ...], data: Any) -> None:
        """Keep what was compiled; whoever reads meanwhile sees all of it or nothing. A full disk keeps nothing."""
        from numba.core.serialize import dumps

        path = self.path(key)
        with suppress(OSError):
            descriptor, scratch = tempfile.mkstemp(dir=self.folder, prefix=f"{self.name}.", suffix=".tmp")
            try:
                content = dumps(data)
                with os.fdopen(descriptor, "wb") as file:
                    file.write(_digest(content) + content)
                os.replace(scratch, path)
            except BaseException:
                os.unlink(scratch)
                raise
            self._sweep_out()

    def load(self, key: tuple[Any, ...]) -> Any:
        """What was compiled; None if there is nothing, or nothing that can be read."""
        try:
            content = self.path(key).read_bytes()
            head, content = content[:DIGEST], content[DIGEST:]
            # Damaged code would be run as it is.
            return self._read(io.BytesIO(content)) if head == _digest(content) else None
        except Exception:  # to unpickle may raise anything
            return None

    def flush(self) -> None:
        """Forget everything."""
        for file in self.folder.glob(f"{self.name}.*{self.ending}"):
            file.unlink(missing_ok=True)

    def _sweep_out(self) -> None:
        """Remove what an earlier state of the package has left."""
        for file in self.folder.glob(f"{self.name}.*{self.ending}"):
            if not file.name.startswith(f"{self.name}.{source_stamp()}-"):
                with suppress(OSError):
                    file.unlink()
