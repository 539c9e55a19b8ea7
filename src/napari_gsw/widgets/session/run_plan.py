"""Plan and state of a segmentation; construction and restoring of the run of each array."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from napari.layers import Image, Labels, Layer
from numpy.typing import NDArray

from napari_gsw.core.errors import InputError
from napari_gsw.core.features.input_maps import MAP_NAMES, sites_source
from napari_gsw.core.image.normalized_image import find_nonfinite_pixels
from napari_gsw.core.interactive.interactive_run import LIVE_SETTINGS, InteractiveRun
from napari_gsw.core.interactive.saved_session import SavedSession
from napari_gsw.core.model.problem import Problem, SharedProblem
from napari_gsw.core.pipeline.prepare import Stage, prepare
from napari_gsw.core.pipeline.provenance import describe_image
from napari_gsw.core.pipeline.saved_run import SavedRun, attach_image
from napari_gsw.core.pipeline.segment import Preview, make_preview
from napari_gsw.core.settings import Settings, setting_fields
from napari_gsw.core.settings.presets import with_shared_moves
from napari_gsw.core.sites.blocked_labels import BlockedLabels
from napari_gsw.core.sites.scribbles import find_scribbled_sites
from napari_gsw.widgets.layers.image_source import ImageSource, Position, read_maps
from napari_gsw.widgets.layers.result_layers import ResultLayers
from napari_gsw.widgets.session.array_run import ArrayRun

StageReport = Callable[[Stage], None]
# Called with a preview of a coarse copy of a large image.
PreviewReport = Callable[[Preview], None]
ArrayRunMaker = Callable[[StageReport, PreviewReport], ArrayRun]
# What there is to do at one position: a run that continues, or one that has to be made first.
ArrayJob = tuple[Position, ArrayRun | ArrayRunMaker]


@dataclass(frozen=True, eq=False)
class RunPlan:
    """Everything that decides a run, taken from the form when Run is pressed."""

    source: ImageSource
    settings: Settings
    seed: int
    sites: Labels | None = None  # layer with superpixels; None to make them
    sites_data: NDArray[np.integer] | None = None  # its array then, to notice a later edit
    seeds: Labels | None = None  # layer whose labels are fixed
    lock: bool = False  # whether paint that is already there is locked
    maps: Mapping[str, Image] = field(default_factory=dict)  # layers of input maps, by the names of the maps
    mask_data: tuple[NDArray[Any], ...] = ()  # the mask of the source then

    def unstarted(self) -> RunPlan:
        """Return the plan before the first: nobody can choose its seed, so the next run starts from the beginning."""
        return RunPlan(self.source, self.settings, -1)

    def same_sites(self, other: RunPlan) -> bool:
        arrays: tuple[Any, ...] = (self.sites_data, *self.mask_data)
        others: tuple[Any, ...] = (other.sites_data, *other.mask_data)
        if self.sites is not other.sites or self.source.key != other.source.key:
            return False
        if len(arrays) != len(others) or not all(map(np.array_equal, arrays, others)):
            return False
        made_from = sites_source(self.settings, self.maps)
        sections = ["image", "superpixels"] + ([] if made_from == "image" else ["evidence"])
        return self.sites is not None or (
            made_from == sites_source(other.settings, other.maps)
            and (made_from == "image" or self.maps.get(made_from) is other.maps.get(made_from))
            and _have_same_sections(self.settings, other.settings, *sections)
        )

    def same_problem(self, other: RunPlan) -> bool:
        """Return whether a chain of one plan can continue as one of the other: only its moves may differ."""
        return (
            self.same_sites(other)
            and self.seeds is other.seeds
            and self.settings.chains == other.settings.chains
            and all(self.maps.get(name) is other.maps.get(name) for name in MAP_NAMES)
            and _have_same_sections(self.settings, other.settings, "features", "prior", "coupling", "evidence")
        )


def _have_same_sections(a: Settings, b: Settings, *sections: str) -> bool:
    return all(
        getattr(a, name) == getattr(b, name)
        for name, setting in setting_fields().items()
        if setting.section in sections and (a.is_active(name) or b.is_active(name))
    )


@dataclass
class Segmentation:
    """The segmentation of one image; what depends on the array, by its position."""

    plan: RunPlan  # of the last run
    layers: ResultLayers
    array_runs: dict[Position, ArrayRun] = field(default_factory=dict)
    # Last written to the layers of labels, and of regions or objects. The difference to what is there is paint.
    written: dict[Position, Any] = field(default_factory=dict)
    written_regions: dict[Position, Any] = field(default_factory=dict)
    # Painted there when the first chain was begun.
    taken_paint: dict[Position, NDArray[np.uint16] | None] = field(default_factory=dict)

    def is_of(self, layer: Layer | None) -> bool:
        return any(layer is image for image in self.plan.source.image_layers)

    def has_sites_of(self, source: ImageSource, settings: Settings, sites: Labels | None) -> bool:
        """Return whether a run on a source would have the present sites; `sites` is the layer that defines them."""
        if not self.array_runs or self.plan.source.key != source.key or self.plan.sites is not sites:
            return False
        return sites is not None or _have_same_sections(settings, self.plan.settings, "image", "superpixels")

    def jobs(self, plan: RunPlan) -> list[ArrayJob]:
        """Return what there is to do for a plan: runs that continue, and those that have to be made."""
        jobs: list[ArrayJob] = []
        for position in plan.source.positions:
            before = self.array_runs.get(position)
            # Compared with the run's own plan, since a preparation that was stopped has made nothing of a later one.
            if before is not None and plan.seed != before.plan.seed:
                before = None
            if before is not None and plan.same_problem(before.plan) and _update_settings(before, plan.settings):
                jobs.append((position, before))
            else:
                paint = self.taken_paint[position] = self._find_paint(position) if before is None else None
                jobs.append((position, partial(make_array_run, plan, position, before, paint)))
        self.plan = plan
        return jobs

    def late_paint(self, position: Position) -> NDArray[np.uint16] | None:
        """Return what was painted after the first chain at a position was begun and before its first frame."""
        if position in self.written or position not in self.taken_paint:
            return None
        taken = self.taken_paint.pop(position)
        return self._find_paint(position, known=taken)

    def _find_paint(self, position: Position, known: NDArray[np.uint16] | None = None) -> NDArray[np.uint16] | None:
        """Return what the user has painted beyond what was written, or is `known`; None if it is nothing."""
        layers = self.layers.label_layers
        if not layers or layers[0].multiscale:  # napari does not allow painting on a pyramid
            return None
        paint = np.array(self.layers.labels_at(position))
        if (before := self.written.get(position, known)) is not None:
            paint[paint == before] = 0
        return paint if paint.any() else None


def _update_settings(array_run: ArrayRun, settings: Settings) -> bool:
    """Give a chain the settings that may change during a run; return False if others differ."""
    values, interactive = settings.to_dict(), array_run.interactive
    changed = [k for k, v in values.items() if v != getattr(interactive.settings, k) and settings.is_active(k)]
    if any(name not in (*LIVE_SETTINGS, "start", "start_clusters") for name in changed):
        return False
    interactive.update_settings(interactive.settings.replace(**{k: v for k, v in values.items() if k in LIVE_SETTINGS}))
    return True


def make_array_run(
    plan: RunPlan, position: Position, before: ArrayRun | None, paint: NDArray[np.uint16] | None,
    report: StageReport, show: PreviewReport,
) -> ArrayRun:  # fmt: skip
    """Prepare one array and start its chains, as ``gsw.segment`` does; then carry over what the user has done.

    That is in the run `before` that it replaces, or was painted when there was none. `show` is called with a preview.
    """
    source = plan.source
    is_plain = not (source.is_chunked or source.shares_labels)
    image, mask = source.image(position), source.mask_at(position)
    unusable = find_nonfinite_pixels(image, plan.settings.axes) if is_plain else None
    if unusable is not None:  # they are outside the image
        mask = ~unusable if mask is None else mask & ~unusable
    seeds = None if plan.seeds is None else source.labels_at(plan.seeds, position)
    sites: Any = None if plan.sites is None else source.labels_at(plan.sites, position)
    maps = read_maps(source, plan.maps, position, plan.settings)
    arrays = {"mask": mask, "sites": sites, "seeds": seeds, **maps}
    inputs: dict[str, Any] = {name: array for name, array in arrays.items() if array is not None}
    same_sites = before is not None and plan.same_sites(before.plan)
    if before is not None and same_sites:
        sites = before.sites
    # Sites in which two labels meet are split.
    kept = None if before is None else before.interactive.locked_scribbles()
    strokes = kept if kept is not None else paint if seeds is None else seeds
    if before is None and sites is None and not maps and is_plain:
        preview = make_preview(image, plan.settings, plan.seed, mask, strokes, report)
        if preview is not None:
            show(preview)
    problem = array_problem(plan, image, {"sites": sites, "mask": mask, "seeds": strokes, **maps}, report)
    if source.is_image_list:
        inputs = {name: [source.plane(a, z) for z in range(source.space[0])] for name, a in inputs.items()}
    elif source.shares_labels:
        inputs |= {"shared slices": True, "linked": source.slices == "linked"}
    report(Stage("start"))
    run = None if before is None else before.interactive
    edits = None if run is None else run.edits
    # Fixed objects do not count among the labels that the user has painted.
    closed = None if run is None or edits is None else run.scribble_field.closed
    interactive: InteractiveRun | None = None
    if before is not None and run is not None:
        locked = before.paint_locked(run.locks, run.display_labels)
        interactive = _continue_run(plan, problem, before, locked)
        seeds = locked if run.locks.any() else None
        if interactive is not None:
            inputs["init"] = interactive.initial.init
        elif seeds is not None:
            inputs["seeds"] = seeds
        else:
            inputs.pop("seeds", None)
    if interactive is None:
        interactive = InteractiveRun(problem, plan.settings, plan.seed, seeds, None, closed)
    if kept is not None and not same_sites:  # locked scribbles take precedence over the sites that they had
        under = problem.labels_under(kept, "strokes").astype(np.int64)
        interactive.paint(np.flatnonzero(under > 0), under[under > 0], True)
    if paint is not None:
        _carry_over(interactive, paint, plan.lock)
    if edits is not None:
        interactive.set_fixed_pixels(edits)
    interactive.forget_changes()
    if not isinstance(problem.sites, BlockedLabels):
        interactive.scribbles = None if strokes is None else np.array(strokes, np.int32)
    array_run = complete_run(plan, interactive, image, inputs)
    array_run.unusable = 0 if unusable is None else int(unusable.sum())
    array_run.frame = None if before is None else before.frame
    return array_run


def _continue_run(plan: RunPlan, problem: Problem, before: ArrayRun, locked: Any) -> InteractiveRun | None:
    """Start a run from the displayed labels, or return None where it has to start from the beginning.

    Additional chains start apart: from one state they would agree from the first sweep. And the new settings may forbid
    the displayed state, for example by a limit on the number of clusters. `locked` is the image of the locked labels.
    """
    run = before.interactive
    if plan.settings.chains > run.settings.chains:
        return None
    try:
        init, closed = before.paint(run.display_labels), run.scribble_field.closed
        interactive = InteractiveRun(problem, plan.settings, plan.seed, None, init, closed)
        _carry_over(interactive, locked, True)
    except InputError:  # if the state is not to blame, starting from the beginning raises it again
        return None
    return interactive


def complete_run(plan: RunPlan, interactive: InteractiveRun, image: Any, inputs: dict[str, Any]) -> ArrayRun:
    """Add to the run of an array what the window needs to show it; `inputs` are the arrays of the user by name."""
    source, is_chunked = plan.source, isinstance(interactive.problem.sites, BlockedLabels)
    interactive.scribble_field.make_ready()
    names: tuple[str, ...] = ()
    if source.layer.rgb:
        names = ("L*", "a*", "b*") if is_chunked else ("red", "green", "blue")
    elif source.channels:
        names = tuple(layer.name for layer in (source.layer, *source.channels))
    if not is_chunked:
        kept = {"mask": inputs.get("mask")} | {name: inputs[name] for name in MAP_NAMES if name in inputs}
        interactive.rebuild_problem = lambda sites, strokes: array_problem(
            plan, image, {"sites": sites, "seeds": strokes, **kept}, lambda stage: None
        )
    images = source.planes(image) if source.is_image_list else None
    interactive.inputs, interactive.image = inputs, image if images is None else images
    return ArrayRun(interactive, image, source.axes, names, source.pixel_size, images, plan)


def array_problem(plan: RunPlan, image: Any, inputs: Mapping[str, Any], report: StageReport) -> Problem:
    """Prepare one array, or its slices as several images with shared labels.

    Slices without any site, by the mask or by given sites, are left out. `inputs` are sites, mask, scribbles as
    ``seeds``, and input maps; None for none.
    """
    source, settings = plan.source, plan.settings
    if not source.shares_labels:
        return prepare(image, settings, **inputs, report=lambda stage, _: report(stage))
    planes = source.planes(image)
    bounds = [array for array in (inputs["sites"], inputs["mask"]) if array is not None]
    used = [z for z in range(len(planes)) if all(np.any(array[z]) for array in bounds)]
    used = used or list(range(len(planes)))  # whose error says what is wrong
    slices: dict[str, Any] = {
        name: None if inputs[name] is None else [source.plane(inputs[name], z) for z in used]
        for name in ("sites", "mask", "seeds")
    }
    problem = prepare(
        [planes[z] for z in used],
        settings.replace(axes=settings.axes.replace("Z", "")),
        **slices,
        linked=source.slices == "linked",
        report=lambda stage, _: report(stage),
    )
    assert isinstance(problem, SharedProblem)
    return problem.stacked(used, len(planes))


def adapt_settings(source: ImageSource, settings: Settings) -> Settings:
    """Adapt the settings of the form to a source: voxel size, and moves for slices that share their labels."""
    if source.is_image_list and settings.view == "objects":
        raise InputError("objects of several images together are for gsw.segment; choose View: clusters or regions")
    if source.depth == 3 and not source.shares_labels and settings.coupling == "learnt":
        name = "Membranes" if settings.boundary_model == "membranes" else "Photo"
        learnt = f"{name} (couplings learnt from flat images)"
        raise InputError(f"{learnt} is for flat images; choose another preset, or slices")
    if source.shares_labels:
        return settings.replace(**with_shared_moves(settings))
    return settings.replace(spacing=source.spacing) if settings.spacing == "auto" else settings


def _carry_over(interactive: InteractiveRun, paint: Any, lock: bool) -> None:
    problem = interactive.problem
    if isinstance(problem.sites, BlockedLabels):
        labels = problem.labels_under(paint, "paint")
        sites = np.flatnonzero(labels > 0)
        numbers = labels[sites].astype(np.int64)
    else:
        sites, numbers = find_scribbled_sites(problem.site_image, np.flatnonzero(paint), paint)
    interactive.paint(sites, numbers, lock)


# ---- saved sessions


def format_position(position: Position) -> str:
    """Name the run of an array in a session.

    >>> format_position(()), format_position((3, 0))
    ('run', '3,0')
    """
    return ",".join(map(str, position)) or "run"


def saved_inputs(session: SavedSession, name: str) -> dict[Position, Any]:
    """Return the mask, sites or seeds of each position."""
    inputs = {key: run.given.get(name) for key, run in session.runs.items()}
    return {
        () if key == "run" else tuple(map(int, key.split(","))): array
        for key, array in inputs.items()
        if array is not None
    }


def restore_runs(plan: RunPlan, session: SavedSession) -> dict[Position, ArrayRun]:
    """Restore the run of each array of an image that was checked; to be called off the GUI thread."""
    runs: dict[Position, ArrayRun] = {}
    for position, saved in _find_runs(plan.source, session):
        image = plan.source.image(position)
        if plan.source.is_chunked:
            saved = attach_image(saved, image)
        own_plan, interactive = replace(plan, settings=saved.settings), InteractiveRun.restore(saved)
        runs[position] = complete_run(own_plan, interactive, image, dict(saved.given))
    return runs


def _find_runs(source: ImageSource, session: SavedSession) -> list[tuple[Position, SavedRun]]:
    names = {position: format_position(position) for position in itertools.product(*map(range, source.stack_shape))}
    return [(position, session.runs[name]) for position, name in names.items() if name in session.runs]


def check_same_pixels(source: ImageSource, session: SavedSession) -> None:
    """Raise an InputError unless the image is the one that was segmented; to be called off the GUI thread."""
    runs = _find_runs(source, session)
    if not runs:
        raise InputError("the session belongs to other slices of the image")
    for position, saved in runs:
        image = source.image(position)
        if saved.looks and describe_image(source.planes(image) if source.is_image_list else image) != dict(saved.looks):
            raise InputError(f"{source.layer.name!r} has changed since the session was saved: its pixels are others")


def check_same_shape(source: ImageSource, session: SavedSession) -> None:
    """Raise an InputError if the image cannot be that of the session, before any of it is read."""
    for run in session.runs.values():
        sites = run.problem.sites
        if sites is not None and tuple(sites.shape) != source.space:
            raise InputError(
                f"{source.layer.name!r} has {' x '.join(map(str, source.space))} pixels, and the image of the session "
                f"{' x '.join(map(str, sites.shape))}"
            )
