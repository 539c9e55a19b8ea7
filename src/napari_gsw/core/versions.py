"""Versions of this package and of the packages that results depend on."""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version

DEPENDENCIES = ("numpy", "scipy", "numba", "scikit-image")


@cache
def package_version() -> str:
    """Return the installed version, or that there is none."""
    try:
        return version("napari-gsw")
    except PackageNotFoundError:
        return "not installed"


def collect_versions() -> dict[str, str]:
    """Collect versions by name, for the provenance of a result."""
    return {"napari-gsw": package_version(), "python": platform.python_version(), **_dependency_versions()}


@cache  # every autosave asks, and reading them takes time
def _dependency_versions() -> dict[str, str]:
    return {name: version(name) for name in DEPENDENCIES}


__version__ = package_version()
