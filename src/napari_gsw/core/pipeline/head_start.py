"""A head start for the sampler, half of all that is compiled: a process for it begins before this one imports numba.

Until this one knows what to order, that one compiles a little of the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from napari_gsw.core.compiler.kernel_files import KernelFiles, cache_folder
from napari_gsw.core.compiler.side_compiler import SideCompiler

# What the sampler's loop is kept as.
KEPT = "chain_kernels.advance"
# The processes that compile beside this one.
SIDE = SideCompiler()


@contextmanager
def head_start() -> Iterator[None]:
    """Start a process for the sampler if it has to be compiled; it begins while this one imports what it needs."""
    folder = cache_folder().path
    is_cold = folder is not None and not KernelFiles(folder, KEPT).any
    started = is_cold and SIDE.start(f"{__name__}:{meanwhile.__name__}")
    try:
        yield
    finally:
        if started:
            SIDE.end()  # if it has not ended long ago, nobody came as far as to need it


def meanwhile() -> None:
    """In the other process, until the sampler is ordered: import it, and compile a little of what this one will need.

    So much of it that both are done at the same time.
    """
    import numpy as np

    import napari_gsw.core.sampler.chain_kernels  # noqa: F401
    from napari_gsw.core.posterior.consensus_kernels import canonical_rows

    canonical_rows(np.zeros((1, 2), np.int32))
