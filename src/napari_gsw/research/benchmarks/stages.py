"""Where the time of a segmentation goes, from the picture to 300 sweeps, stage by stage as `prepare` has them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.features.site_features import ImageFeatures
from napari_gsw.core.graph.couplings import compute_couplings
from napari_gsw.core.graph.region_graph import build_region_graph
from napari_gsw.core.image.normalized_image import normalize_image
from napari_gsw.core.model import priors
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.pipeline.prepare import build_likelihoods
from napari_gsw.core.pipeline.sampling_run import CHECK_EVERY, make_ensemble
from napari_gsw.core.settings import Settings
from napari_gsw.core.settings.presets import preset
from napari_gsw.core.sites.superpixels import make_superpixels
from napari_gsw.research.benchmarks.clock import time_fastest, working_clock
from napari_gsw.research.benchmarks.pictures import make_photograph
from napari_gsw.research.benchmarks.report import BenchSection, Cell, Ratio

PRESET, SWEEPS = "general", 300
STAGES = ("colours", "superpixels", "graph", "features", "couplings", "arrays", "sampling")
# The picture on which preparation is held against sampling: the size of the Berkeley images.
TYPICAL = (321, 481)


class StageTimes:
    """Seconds of each stage of one picture, the least of all turns.

    Attributes
    ----------
    best : seconds by stage.
    problem : what was sampled in the last turn; None before the first.
    """

    def __init__(self, image: NDArray[np.uint8], sweeps: int) -> None:
        self.image, self.settings = image, preset(PRESET, sweeps=sweeps)
        self.best = dict.fromkeys(STAGES, float("inf"))
        self.problem: Problem | None = None

    def turn(self) -> None:
        """Segment the picture once."""
        clock = working_clock()
        began = clock()
        for stage, problem in staged(self.image, self.settings):
            self.best[stage] = min(self.best[stage], clock() - began)
            self.problem = problem
            began = clock()

    @property
    def preparation(self) -> float:
        """Seconds of all stages before the sampling."""
        return sum(self.best[stage] for stage in STAGES[:-1])


def staged(image: NDArray[np.uint8], settings: Settings) -> Iterator[tuple[str, Problem | None]]:
    """Segment a picture and yield after each stage; what is made is what `prepare` makes, which a test sees to."""
    checked_picture = normalize_image(image, settings.axes)
    yield "colours", None
    sites = make_superpixels(checked_picture, settings)
    yield "superpixels", None
    graph = build_region_graph(checked_picture, sites, settings.neighbourhood)
    yield "graph", None
    words = ImageFeatures([checked_picture], [sites], settings)
    blocks = build_likelihoods(words, graph)
    yield "features", None
    beta = compute_couplings(graph, settings, words)
    yield "couplings", None
    problem = Problem(graph.n, blocks, graph.edges, beta, priors.make_prior(settings), sites, graph, settings)
    ensemble = make_ensemble(problem, settings, 0)
    yield "arrays", problem
    for _ in ensemble.run(settings.sweeps, CHECK_EVERY):
        pass
    yield "sampling", problem


def stages(
    shapes: Sequence[tuple[int, int]], seconds: float, sweeps: int = SWEEPS, typical: tuple[int, int] = TYPICAL
) -> BenchSection:
    """The section of the stages of pictures of these shapes; the ratio is that of the typical one."""
    times = {shape: StageTimes(make_photograph(*shape), sweeps) for shape in shapes}
    _warm(times[min(shapes)].image[:48, :48])
    time_fastest({str(shape): picture_times.turn for shape, picture_times in times.items()}, seconds, least=1)
    rows: list[list[Cell]] = []
    for (height, width), picture_times in times.items():
        assert picture_times.problem is not None
        name = f"{width} x {height} ({height * width / 1e6:.2g} Mpixel)"
        rows.append(
            [
                name,
                picture_times.problem.n,
                *picture_times.best.values(),
                picture_times.preparation / picture_times.best["sampling"],
            ]
        )
    ratios = {}
    if typical in times:
        share = times[typical].preparation / times[typical].best["sampling"]
        ratios[f"preparation / sampling, {typical[1]} x {typical[0]}"] = Ratio(share, "low", 0.3)
    title = (
        f"processor seconds of each stage, preset {PRESET}, sampling of {sweeps} sweeps; preparation as a ratio to it"
    )
    return BenchSection(title, ["", "sites", *STAGES, "prep./sampling"], rows, ratios)


def _warm(image: NDArray[np.uint8]) -> None:
    """Everything compiled before the clock runs."""
    StageTimes(np.ascontiguousarray(image), 2).turn()
