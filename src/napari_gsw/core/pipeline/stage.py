"""Progress of a segmentation."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from napari_gsw.core.sampler.snapshot import Snapshot


class Stage(NamedTuple):
    """A stage of a segmentation, and how many blocks or sweeps of it are done; a total of 0 is unknown.

    In order of time the names are ``planes`` (of a volume with objects), ``noise`` (of a large noisy image),
    ``superpixels``, ``graph``, ``features``, ``blocks`` and ``assembly`` (of a chunked image), ``start``, ``compiling``
    and ``sampling``, or the name of a method that has one step.
    """

    name: str
    done: int = 0
    total: int = 0


# Called during a segmentation with the stage and, while the chains run, the newest snapshot. Returning True ends the
# run there; the result is then that of the snapshot.
Report = Callable[[Stage, Snapshot | None], bool | None]
