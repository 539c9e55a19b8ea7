"""Files that are looked through for examples in docstrings only where what they import is installed."""

from __future__ import annotations

from importlib.util import find_spec

# PyTorch is too large for the development environment.
NEED_TORCH = ("crops", "losses", "module", "training")
collect_ignore = [] if find_spec("torch") else [f"src/napari_gsw/experiments/network_{name}.py" for name in NEED_TORCH]
