"""Baseline methods to compare with, as entry points of the group ``napari_gsw.methods``."""

import importlib
from typing import Any

from napari_gsw.core.errors import InputError


def import_package(module: str, method: str, package: str, extra: str) -> Any:
    """Import a module of an optional package, or raise an error that says what to install."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise InputError(f'{method} needs {package}. Run: pip install "napari-gsw[{extra}]"') from None
