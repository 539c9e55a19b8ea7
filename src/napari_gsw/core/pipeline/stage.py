"""How far a segmentation is: which stage, and how much of it is done."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from napari_gsw.core.sampler.snapshot import Snapshot


class Stage(NamedTuple):
    """What goes on.

    Attributes
    ----------
    name : one word: of a volume of objects ``planes``; of a large noisy image ``noise``; then ``superpixels``,
        ``graph``, ``features``; of an image in blocks ``blocks``, ``assembly``; then ``start``, ``compiling``,
        ``sampling``; or the name of a method that is one step.
    done, total : how much of it is done, in blocks or sweeps; a total of 0 is not known.
    """

    name: str
    done: int = 0
    total: int = 0


# Called while a segmentation runs with the stage and, once the chain runs, the newest snapshot. True as its answer ends
# the chain there; the result is then that of the snapshot.
Report = Callable[[Stage, Snapshot | None], bool | None]
