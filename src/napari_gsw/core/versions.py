"""Versions of this package and of what its numbers depend on."""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version

# A result can change with any of these.
DEPENDENCIES = ("numpy", "scipy", "numba", "scikit-image")


@cache
def package_version() -> str:
    """The installed version, or a word that says that the package runs from a folder."""
    try:
        return version("napari-gsw")
    except PackageNotFoundError:
        return "not installed"


def collect_versions() -> dict[str, str]:
    """Versions by name, for the provenance of a result."""
    return {"napari-gsw": package_version(), "python": platform.python_version(), **_of_dependencies()}


@cache
def _of_dependencies() -> dict[str, str]:
    """Looked up once: that reads a file of each on every path, and every autosave asks."""
    return {name: version(name) for name in DEPENDENCIES}


__version__ = package_version()
