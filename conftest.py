"""Leave out modules whose imports are not installed when examples in docstrings are collected."""

from __future__ import annotations

from importlib.util import find_spec

# PyTorch is too large for the development environment.
collect_ignore = [] if find_spec("torch") else ["src/napari_gsw/research/training/unet.py"]
