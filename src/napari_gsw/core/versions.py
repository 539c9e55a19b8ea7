"""Versions of this package and of the packages that results depend on; former names of attributes."""

from __future__ import annotations

import platform
import warnings
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

DEPENDENCIES = ("numpy", "scipy", "numba", "scikit-image")


@cache
def package_version() -> str:
    """Return the installed version, or that there is none."""
    try:
        return version("napari-gsw")
    except PackageNotFoundError:
        return "not installed"


__version__ = package_version()


@cache  # every autosave asks, and reading them takes time
def _list_versions() -> dict[str, str]:
    versions = {name: version(name) for name in DEPENDENCIES}
    return {"napari-gsw": package_version(), "python": platform.python_version(), **versions}


def collect_versions() -> dict[str, str]:
    """Collect versions by name, for the provenance of a result."""
    return dict(_list_versions())


class FormerName:
    """Former name of an attribute, which still works and warns."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __set_name__(self, owner: type, former: str) -> None:
        self.former = former

    def __get__(self, instance: Any, owner: type) -> Any:
        message = f"{owner.__name__}.{self.former} is deprecated: use {owner.__name__}.{self.name}"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return getattr(owner if instance is None else instance, self.name)
