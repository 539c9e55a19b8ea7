"""Where the time of a segmentation goes, from the picture to 300 sweeps, stage by stage as `prepare` has them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from napari_gsw.bench.clock import fastest, working_clock
from napari_gsw.bench.pictures import photograph
from napari_gsw.bench.report import Cell, Ratio, Section
from napari_gsw.core.evidence.site_features import ImageFeatures
from napari_gsw.core.graph.couplings import couplings
from napari_gsw.core.graph.region_graph import region_graph
from napari_gsw.core.image.picture import picture
from napari_gsw.core.model import priors
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.pipeline.prepare import likelihoods
from napari_gsw.core.pipeline.segment import CHECK_EVERY, chains
from napari_gsw.core.presets import preset
from napari_gsw.core.settings import Settings
from napari_gsw.core.sites.superpixels import superpixels

PRESET, SWEEPS = "general", 300
STAGES = ("colours", "superpixels", "graph", "features", "couplings", "arrays", "sampling")
# The picture on which preparation is held against sampling: the size of the Berkeley images.
TYPICAL = (321, 481)


class Stages:
    """Seconds of each stage of one picture, the least of all turns."""

    def __init__(self, image: NDArray[np.uint8], sweeps: int) -> None:
        self.image, self.settings = image, preset(PRESET, sweeps=sweeps)
        self.best = dict.fromkeys(STAGES, float("inf"))
        self.problem: Problem | None = None

    def turn(self) -> None:
        clock = working_clock()
        began = clock()
        for stage, problem in staged(self.image, self.settings):
            self.best[stage] = min(self.best[stage], clock() - began)
            self.problem = problem
            began = clock()

    @property
    def preparation(self) -> float:
        return sum(self.best[stage] for stage in STAGES[:-1])


def staged(image: NDArray[np.uint8], settings: Settings) -> Iterator[tuple[str, Problem | None]]:
    """Segment a picture and yield after each stage; what is made is what `prepare` makes, which a test sees to."""
    seen = picture(image, settings.axes)
    yield "colours", None
    sites = superpixels(seen, settings)
    yield "superpixels", None
    graph = region_graph(seen, sites, settings.neighbourhood)
    yield "graph", None
    words = ImageFeatures(seen, sites, settings)
    blocks = likelihoods(words, graph)
    yield "features", None
    beta = couplings(graph, settings, words)
    yield "couplings", None
    problem = Problem(graph.n, blocks, graph.edges, beta, priors.from_settings(settings), sites, graph, settings)
    made = chains(problem, settings, 0)
    yield "arrays", problem
    for _ in made.run(settings.sweeps, CHECK_EVERY):
        pass
    yield "sampling", problem


def stages(
    shapes: Sequence[tuple[int, int]], seconds: float, sweeps: int = SWEEPS, typical: tuple[int, int] = TYPICAL
) -> Section:
    made = {shape: Stages(photograph(*shape), sweeps) for shape in shapes}
    _warm(made[min(shapes)].image[:48, :48])
    fastest({str(shape): one.turn for shape, one in made.items()}, seconds, least=1)
    rows: list[list[Cell]] = []
    for (height, width), one in made.items():
        assert one.problem is not None
        name = f"{width} x {height} ({height * width / 1e6:.2g} Mpixel)"
        rows.append([name, one.problem.n, *one.best.values(), one.preparation / one.best["sampling"]])
    ratios = {}
    if typical in made:
        share = made[typical].preparation / made[typical].best["sampling"]
        ratios[f"preparation / sampling, {typical[1]} x {typical[0]}"] = Ratio(share, "low", 0.3)
    title = (
        f"processor seconds of each stage, preset {PRESET}, sampling of {sweeps} sweeps; preparation as a ratio to it"
    )
    return Section(title, ["", "sites", *STAGES, "prep./sampling"], rows, ratios)


def _warm(image: NDArray[np.uint8]) -> None:
    """Everything compiled before the clock runs."""
    Stages(np.ascontiguousarray(image), 2).turn()
