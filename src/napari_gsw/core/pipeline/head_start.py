"""A head start for the sampler, which takes half of all compiling: a process for it begins before most is imported."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from napari_gsw.core.kernel_cache import KernelFiles, cache_folder
from napari_gsw.core.side_compiler import SideCompiler

# The module of the sampler's loop, which is not imported here: it takes a while. And what the loop is kept as.
MODULE = "napari_gsw.core.sampler.chain_kernels"
KEPT = "chain_kernels.advance"
# The processes that compile beside this one.
SIDE = SideCompiler()


@contextmanager
def head_start() -> Iterator[None]:
    """Start a process for the sampler if it has to be compiled; it imports what it needs while this one does."""
    folder = cache_folder().path
    started = folder is not None and not KernelFiles(folder, KEPT).any and SIDE.start(MODULE)
    try:
        yield
    finally:
        if started:
            SIDE.end()  # if it has not ended long ago, nobody came as far as to need it
