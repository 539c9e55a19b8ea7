"""What a run is asked to do, and what has come of it so far: one image, the runs of its arrays and its layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from napari.layers import Image, Labels, Layer
from numpy.typing import NDArray

from napari_gsw.core.errors import InputError
from napari_gsw.core.evidence.given_maps import MAPS
from napari_gsw.core.evidence.map_sites import followed
from napari_gsw.core.image.picture import unusable_pixels
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.model.shared_problem import SharedProblem
from napari_gsw.core.pipeline.live_chain import TUNABLE, LiveChain
from napari_gsw.core.pipeline.prepare import prepare
from napari_gsw.core.pipeline.preview import Preview, preview
from napari_gsw.core.pipeline.stage import Stage
from napari_gsw.core.presets import shared_moves
from napari_gsw.core.settings import Settings, declarations
from napari_gsw.core.sites.mosaic import Mosaic
from napari_gsw.core.sites.per_site import site_means
from napari_gsw.core.sites.strokes import touched_sites
from napari_gsw.widgets.layers.large_labels import compile_outlines
from napari_gsw.widgets.layers.map_layers import maps_at
from napari_gsw.widgets.layers.result_layers import ResultLayers
from napari_gsw.widgets.layers.several_layers import SeveralLayers
from napari_gsw.widgets.layers.source import Position, Source
from napari_gsw.widgets.session.array_run import ArrayRun

StageReport = Callable[[Stage], None]
# Called with what a large image looks like in a coarse copy.
PreviewReport = Callable[[Preview], None]
ArrayRunMaker = Callable[[StageReport, PreviewReport], ArrayRun]
# What there is to do at one position: a chain that goes on, or one that has to be made first.
ArrayJob = tuple[Position, ArrayRun | ArrayRunMaker]


@dataclass(frozen=True, eq=False)
class Plan:
    """Everything that decides a run, taken from the form when Run is pressed.

    Attributes
    ----------
    sites : a Labels layer with superpixels, or None to make them.
    sites_data : its array then, so that a later edit shows.
    seeds : a Labels layer whose labels are clamped, or None.
    mask_data : what the mask of the source was then, likewise.
    lock : whether paint that is already there is locked.
    maps : image layers that are evidence beside the image, by the names of the maps.
    """

    source: Source
    settings: Settings
    seed: int
    sites: Labels | None = None
    sites_data: NDArray[np.integer] | None = None
    seeds: Labels | None = None
    lock: bool = False
    maps: Mapping[str, Image] = field(default_factory=dict)
    mask_data: tuple[NDArray[Any], ...] = ()

    def unstarted(self) -> Plan:
        """The plan before the first: it has a seed that nobody can choose, so that everything starts afresh."""
        return Plan(self.source, self.settings, -1)

    def same_sites(self, other: Plan) -> bool:
        """Whether two plans have the same superpixels."""
        if self.sites is not other.sites or self.source.key != other.source.key:
            return False
        if len(self.mask_data) != len(other.mask_data) or not all(map(np.array_equal, self.mask_data, other.mask_data)):
            return False
        if self.sites is not None:
            return bool(np.array_equal(self.sites_data, other.sites_data))  # type: ignore[arg-type]
        follows = followed(self.settings, self.maps)
        if follows != followed(other.settings, other.maps):
            return False
        if follows != "image" and (
            self.maps.get(follows) is not other.maps.get(follows)
            or not _same(self.settings, other.settings, ("evidence",))
        ):
            return False
        return _same(self.settings, other.settings, ("image", "superpixels"))

    def same_problem(self, other: Plan) -> bool:
        """Whether a chain of one plan can go on as one of the other: only how it moves may differ."""
        return (
            self.same_sites(other)
            and self.seeds is other.seeds
            and self.settings.chains == other.settings.chains
            and all(self.maps.get(name) is other.maps.get(name) for name in MAPS)
            and _same(self.settings, other.settings, ("features", "prior", "coupling", "evidence"))
        )


def _same(a: Settings, b: Settings, sections: tuple[str, ...]) -> bool:
    return all(
        getattr(a, name) == getattr(b, name)
        for name, setting in declarations().items()
        if setting.section in sections and (a.matters(name) or b.matters(name))
    )


@dataclass
class Segmentation:
    """One image's segmentation.

    Attributes
    ----------
    plan : that of the last run.
    array_runs : the chains, by position.
    written : what was last written to the label layer at a position; the difference to what is there is paint.
    written_regions : likewise of the layer of regions or objects.
    taken_paint : what was painted at a position when its first chain was begun.
    """

    plan: Plan
    layers: ResultLayers | SeveralLayers
    array_runs: dict[Position, ArrayRun] = field(default_factory=dict)
    written: dict[Position, Any] = field(default_factory=dict)
    written_regions: dict[Position, Any] = field(default_factory=dict)
    taken_paint: dict[Position, NDArray[np.uint16] | None] = field(default_factory=dict)

    def is_of(self, layer: Layer | None) -> bool:
        """Whether a layer is among the images that are segmented."""
        return any(layer is image for image in self.plan.source.image_layers)

    def has_sites_of(self, source: Source, settings: Settings, sites: Labels | None) -> bool:
        """Whether a run on a source would have the sites of these chains; `sites` is the layer that they come from."""
        if not self.array_runs or self.plan.source.key != source.key or self.plan.sites is not sites:
            return False
        return sites is not None or _same(settings, self.plan.settings, ("image", "superpixels"))

    def jobs(self, plan: Plan) -> list[ArrayJob]:
        """What there is to do for a plan: chains that go on, and those that have to be made (again)."""
        jobs: list[ArrayJob] = []
        for position in plan.source.positions:
            array_run = self.array_runs.get(position)
            # By what it was made itself: a preparation that was stopped has made nothing of a later plan.
            made_by = None if array_run is None else array_run.plan
            if made_by is None or array_run is None or plan.seed != made_by.seed:
                jobs.append((position, self._maker(plan, position, None, False)))
            elif plan.same_problem(made_by) and _tuned(array_run.live, plan.settings):
                jobs.append((position, array_run))
            else:
                jobs.append((position, self._maker(plan, position, array_run, plan.same_sites(made_by))))
        self.plan = plan
        return jobs

    def _maker(self, plan: Plan, position: Position, before: ArrayRun | None, same_sites: bool) -> ArrayRunMaker:
        paint = self.taken_paint[position] = self._paint_at(position) if before is None else None

        def make(report: StageReport, show: PreviewReport) -> ArrayRun:
            return make_array_run(plan, position, report, before, same_sites, paint, show)

        return make

    def late_paint(self, position: Position) -> NDArray[np.uint16] | None:
        """What was painted since the first chain at a position was begun, before anything was written there."""
        if position in self.written or position not in self.taken_paint:
            return None
        here, taken = self._paint_at(position), self.taken_paint.pop(position)
        if here is not None and taken is not None:
            here[here == taken] = 0
        return here if here is not None and here.any() else None

    def _paint_at(self, position: Position) -> NDArray[np.uint16] | None:
        """What a person has painted where no chain has been yet."""
        layers = self.layers.label_layers
        if not layers or layers[0].multiscale:  # which nobody can paint on
            return None
        here = np.array(self.layers.labels_at(position))
        known = self.written.get(position)
        if known is not None:
            here[here == known] = 0
        return here if here.any() else None


def _tuned(live: LiveChain, settings: Settings) -> bool:
    """Hand the chain the settings that may change; False if others differ."""
    changed = [k for k, v in settings.to_dict().items() if v != getattr(live.settings, k) and settings.matters(k)]
    start = ("start", "start_clusters")  # of no matter to a chain that has started
    if any(name not in TUNABLE and name not in start for name in changed):
        return False
    live.retune(live.settings.replace(**{k: v for k, v in settings.to_dict().items() if k in TUNABLE}))
    return True


def make_array_run(
    plan: Plan,
    position: Position,
    report: StageReport,
    before: ArrayRun | None,
    same_sites: bool,
    paint: NDArray[np.uint16] | None,
    show: PreviewReport | None = None,
) -> ArrayRun:
    """Prepare one array and start its chain, as ``gsw.segment`` does; then bring over what the user has done."""
    source = plan.source
    image, mask = source.image(position), source.mask_at(position)
    unusable = None if source.large or source.shared else unusable_pixels(image, plan.settings.axes)
    if unusable is not None:  # they are outside the image
        mask = ~unusable if mask is None else mask & ~unusable
    seeds = None if plan.seeds is None else source.labels_at(plan.seeds, position)
    sites: Any = None if plan.sites is None else source.labels_at(plan.sites, position)
    given: dict[str, Any] = {
        name: a for name, a in (("mask", mask), ("sites", sites), ("seeds", seeds)) if a is not None
    }
    maps = maps_at(source, plan.maps, position, plan.settings)
    given |= maps
    if before is not None and same_sites:
        sites = before.sites  # no need to make them again
    # A site in which two labels meet is cut.
    kept = None if before is None else before.live.kept_strokes()
    strokes = kept if kept is not None else paint if seeds is None else seeds
    if show is not None and before is None and sites is None and not maps and not (source.large or source.shared):
        coarse = preview(image, plan.settings, plan.seed, mask, strokes, report)
        if coarse is not None:
            show(coarse)
    problem = array_problem(plan, image, {"sites": sites, "mask": mask, "seeds": strokes, **maps}, report)
    if source.several:
        given = {name: [source.plane(a, z) for z in range(source.space[0])] for name, a in given.items()}
    elif source.shared:
        given |= {"shared slices": True, "linked": source.slices == "linked"}
    report(Stage("start"))
    compile_outlines(source.pixels)
    edits = None if before is None else before.live.edits
    # What was fixed counts for no label: it does not decide whether the painted ones are all that there are.
    closed = before.live.steering.closed if before is not None and edits is not None else None
    locked = None if before is None else before.paint_locked(before.live.locks, before.live.numbers)
    live = None if before is None else _continued(plan, problem, before, locked)
    if live is not None:
        given["init"] = live.begun.init
    else:
        if before is not None:
            seeds = locked if before.live.locks.any() else None
            given = {name: array for name, array in given.items() if name != "seeds"}
            given |= {} if seeds is None else {"seeds": seeds}
        live = LiveChain(problem, plan.settings, plan.seed, seeds, None, closed)
    if kept is not None and not same_sites:  # of what is held, the strokes themselves have the last word
        under = problem.labels_under(kept, "strokes").astype(np.int64)
        live.paint(np.flatnonzero(under > 0), under[under > 0], True)
    if paint is not None:
        _carry_over(live, paint, plan.lock)
    if edits is not None:
        live.adopt(edits)
    live.forget_changes()
    if not isinstance(problem.sites, Mosaic):
        live.strokes = None if strokes is None else np.array(strokes, np.int32)
    array_run = finished_run(plan, position, live, image, given)
    array_run.unusable = 0 if unusable is None else int(unusable.sum())
    return array_run


def _continued(plan: Plan, problem: Problem, before: ArrayRun, locked: Any) -> LiveChain | None:
    """A chain that goes on from what is on the screen, or None where it has to start afresh.

    More chains than before begin apart: from one state they would agree from the first sweep. And what is on the screen
    may be something that the new settings forbid, such as more clusters than there may be.

    Parameters
    ----------
    locked : (\\*shape,) label image of the locked sites.
    """
    if plan.settings.chains > before.live.settings.chains:
        return None
    init, closed = before.paint(before.live.numbers), before.live.steering.closed
    try:
        live = LiveChain(problem, plan.settings, plan.seed, None, init, closed)
        _carry_over(live, locked, True)
    except InputError:  # if it was not the state, it is raised again at the fresh start
        return None
    return live


def finished_run(plan: Plan, position: Position, live: LiveChain, image: Any, given: dict[str, Any]) -> ArrayRun:
    """A chain of an array with what the window needs to show it.

    Parameters
    ----------
    image : the pixels at the position. given : arrays of the user's own that went in, by name.
    """
    source, problem, mask = plan.source, live.problem, given.get("mask")
    live.steering.make_ready()
    names = _channel_names(source)
    if isinstance(problem.sites, Mosaic):
        assert problem.graph is not None
        means, names = problem.graph.means, ("L*", "a*", "b*") if source.layer.rgb else names
    else:
        kept = {"mask": mask} | {name: given[name] for name in MAPS if name in given}
        live.remake = lambda sites, strokes: array_problem(
            plan, image, {"sites": sites, "seeds": strokes, **kept}, lambda stage: None
        )
        means = site_means(image, source.axes, problem.site_image)  # a session of a script may leave them open
    images = source.planes(image) if source.several else None
    array_run = ArrayRun(live, image, source.axes, means, names, source.pixel_size, given, images)
    array_run.plan = plan
    return array_run


def array_problem(plan: Plan, image: Any, given: Mapping[str, Any], report: StageReport) -> Problem:
    """What is sampled of one array: the array, or its slices as several images with shared labels.

    Slices without any site, by the mask or by given sites, are left out.

    Parameters
    ----------
    given : sites, mask, strokes as ``seeds``, and maps beside the image; None for none.
    """
    sites, mask, strokes = given["sites"], given["mask"], given["seeds"]
    if not plan.source.shared:
        return prepare(image, plan.settings, **given, report=lambda stage, _: report(stage))
    axes, part = plan.settings.axes, plan.source.plane
    planes = plan.source.planes(image)
    bounds = [array for array in (sites, mask) if array is not None]
    kept = [z for z in range(len(planes)) if all(np.any(array[z]) for array in bounds)]
    kept = kept or list(range(len(planes)))  # whose error says what is wrong
    problem = prepare(
        [planes[z] for z in kept],
        plan.settings.replace(axes=axes.replace("Z", "")),
        sites=None if sites is None else [part(sites, z) for z in kept],
        mask=None if mask is None else [part(mask, z) for z in kept],
        seeds=None if strokes is None else [part(strokes, z) for z in kept],
        linked=plan.source.slices == "linked",
        report=lambda stage, _: report(stage),
    )
    assert isinstance(problem, SharedProblem)
    return problem.stacked(kept, len(planes))


def settings_for(source: Source, settings: Settings) -> Settings:
    """The settings of the form, with the moves that a source needs whose slices share their labels."""
    if source.several and settings.view == "objects":
        raise InputError("objects of several images together are for gsw.segment; choose View: clusters or regions")
    if source.depth == 3 and not source.shared and settings.coupling == "learnt":
        name = "Membranes" if settings.boundary_model == "membranes" else "Photo"
        learnt = f"{name} (couplings learnt from flat images)"
        raise InputError(f"{learnt} is for flat images; choose another preset, or slices")
    if source.shared:
        return settings.replace(**shared_moves(settings))
    return settings.replace(spacing=source.spacing) if settings.spacing == "auto" else settings


def _carry_over(live: LiveChain, paint: Any, lock: bool) -> None:
    if isinstance(live.problem.sites, Mosaic):
        most = live.problem.labels_under(paint, "paint")
        sites = np.flatnonzero(most > 0)
        numbers = most[sites].astype(np.int64)
    else:
        sites, numbers = touched_sites(live.problem.site_image, np.zeros_like(paint), paint)
    live.paint(sites, numbers, lock)


def _channel_names(source: Source) -> tuple[str, ...]:
    if source.layer.rgb:
        return ("red", "green", "blue")
    if source.channels:
        return tuple(layer.name for layer in (source.layer, *source.channels))
    return ()
