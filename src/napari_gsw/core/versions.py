"""Versions of this package and of what its numbers depend on."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

# A result can change with any of these.
DEPENDENCIES = ("numpy", "scipy", "numba", "scikit-image")


def own_version() -> str:
    """The installed version, or a word that says that the package runs from a folder."""
    try:
        return version("napari-gsw")
    except PackageNotFoundError:
        return "not installed"


def all_versions() -> dict[str, str]:
    """Versions by name, for the provenance of a result."""
    return {"napari-gsw": own_version(), "python": platform.python_version()} | {d: version(d) for d in DEPENDENCIES}


__version__ = own_version()
