"""What a person wants to see of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.array_types import Sites
from napari_gsw.core.interactive.interactive_run import MAX_LABEL, DisplayedState, InteractiveRun
from napari_gsw.core.posterior.label_table import Columns, measure_labels, measure_regions
from napari_gsw.core.posterior.object_edits import FixedPixels, apply_edits
from napari_gsw.core.posterior.objects import find_background_sites, find_objects
from napari_gsw.core.posterior.result import Result, Trace, make_result, make_trace
from napari_gsw.core.posterior.uncertainty import (
    BoundaryFaces,
    compute_site_entropy,
    find_boundary_faces,
    make_boundary_image,
)
from napari_gsw.core.sites.blocked_labels import BlockedLabels
from napari_gsw.core.sites.site_values import mean_channels_per_site
from napari_gsw.widgets.layers.image_source import ImageSource
from napari_gsw.widgets.layers.lazy_labels import LazySiteImage, OutlinedLabels, outline_if_large


@dataclass(frozen=True)
class DisplayOptions:
    """What a frame has to show.

    Attributes
    ----------
    show : the current or another state.
    wanted : which of "boundary", "entropy", "regions" are on the screen.
    detail : fineness of the regions from 0 to 1, or None for those of what is shown.
    background : whether the background is painted too.
    ink : the one colour of all outlines, or "own" if each has its own.
    """

    show: DisplayedState = "current"
    wanted: frozenset[str] = frozenset()
    detail: float | None = None
    background: bool = True
    ink: str = "own"

    def record(self, regions: bool) -> dict[str, Any]:
        """For the provenance of an export: the state, and the fineness if it is of `regions`."""
        return {"show": self.show, "detail": self.detail if regions else None, "regions": regions}


# A label image of 16 bits: an array, or a LazyPicture, which reads like one.
LabelArray = Any
# Gives numbers a type.
Fit = Callable[[NDArray[np.integer]], NDArray[np.unsignedinteger]]


@dataclass(frozen=True, eq=False)
class LockedImage:
    """Label image of what is locked or fixed, with its outlines if it is large, and what it is a picture of."""

    labels: LabelArray
    outlines: OutlinedLabels | None
    numbers: NDArray[np.integer]
    edits: FixedPixels | None


class ArrayRun:
    """A chain with what its pictures need.

    Attributes
    ----------
    live : the chain.
    image, axes : the array that is segmented, in memory or lazy, and the letters of its axes.
    submitted, obeyed : number of the user's orders that have been given, and that have been carried out.
    rate : sweeps a second in the last run.
    verdict : what was last said about the agreement of its chains; `settled` whether several of them agreed.
    n_regions : how many regions there were. unusable : how many pixels are NaN or infinite.
    pictured : what was fixed in the last picture of regions.
    images : the several images that the array is made of; None if it is one.
    plan : what it was made by, a :class:`~napari_gsw.widgets.session.run_plan.RunPlan`.
    """

    def __init__(
        self,
        interactive: InteractiveRun,
        image: Any,
        axes: str,
        means: NDArray[np.float64],
        channel_names: tuple[str, ...] = (),
        pixel_size: float = 1.0,
        images: list[NDArray[Any]] | None = None,
    ) -> None:
        self.interactive, self.image, self.axes = interactive, image, axes
        self.channel_names, self.pixel_size = channel_names, pixel_size
        self.images = images
        self.n_commands_sent = self.n_commands_done = 0
        self.rate = 0.0
        self.verdict, self.has_converged = "", False
        self.n_regions = self.unusable = 0
        self.pictured: FixedPixels | None = None
        self.plan: Any = None
        # What was computed of the sites, with the sites that it is of: they may be cut.
        self._means = self.sites, means
        self._faces: tuple[Sites | BlockedLabels, BoundaryFaces] | None = None
        self._held: LockedImage | None = None

    @property
    def sites(self) -> Sites | BlockedLabels:
        """The sites of today."""
        sites = self.interactive.problem.sites
        assert sites is not None
        return sites

    @property
    def means(self) -> NDArray[np.float64]:
        """(n, channels) mean values of the sites."""
        sites = self.sites
        if self._means[0] is not sites and not isinstance(sites, BlockedLabels):
            self._means = sites, mean_channels_per_site(self.image, self.axes, sites)
        return self._means[1]

    @property
    def faces(self) -> BoundaryFaces:
        problem = self.interactive.problem
        if self._faces is None or self._faces[0] is not problem.sites:
            self._faces = self.sites, find_boundary_faces(problem)
        return self._faces[1]

    def paint(self, numbers: NDArray[np.integer]) -> LabelArray:
        """Label image of some numbers. What 16 bits cannot hold comes round again: only colours repeat."""
        return self._painted(wrap_to_uint16(numbers))

    def paint_shown(self, numbers: NDArray[np.integer], background: bool) -> LabelArray:
        """Label image of some numbers; without the background, if that is not to be painted, but with its locks.

        Colours of objects mean nothing, and a background that falls into parts is shown in one.
        """
        problem = self.interactive.problem
        if isinstance(problem.sites, BlockedLabels) or (background and not problem.has_fragments):
            return self.paint(numbers)
        row = numbers if len(numbers) == problem.n else self.interactive.map_to_current_sites(numbers)
        free = find_background_sites(problem, row) & ~self.interactive.locks
        ink = int(np.bincount(row[free]).argmax()) if background and free.any() else 0
        return self.paint(np.where(free, ink, row))

    def _painted(self, row: NDArray[Any]) -> Any:
        """Image of a value for each site, of the values' type; the sites may have been cut since the values were."""
        problem = self.interactive.problem
        sites = problem.sites
        assert sites is not None
        values = np.concatenate(
            (np.zeros(1, row.dtype), row if len(row) == problem.n else self.interactive.map_to_current_sites(row))
        )
        if isinstance(sites, BlockedLabels):
            return LazySiteImage(sites, values)
        return np.take(values, sites, mode="clip")

    def paint_locked(
        self, locks: NDArray[np.bool_], numbers: NDArray[np.integer], edits: FixedPixels | None = None
    ) -> LabelArray:
        """Label image of the locked sites alone; objects that are fixed are pixels, each with its own number."""
        if edits is None:
            return self.paint(np.where(locks, numbers, 0))
        image = self.paint(np.where(locks & (edits.sites == 0), numbers, 0))
        return np.where(edits.fixed > 0, wrap_to_uint16(edits.fixed), image)

    def held_picture(self, numbers: NDArray[np.integer]) -> LockedImage | None:
        """What is locked or fixed, the same picture until that changes; None while nothing has been."""
        held, locks, edits = self._held, self.interactive.locks, self.interactive.edits
        if held is None and not locks.any() and edits is None:
            return None
        locked = np.where(
            locks, numbers if len(numbers) == len(locks) else self.interactive.map_to_current_sites(numbers), 0
        )
        if held is None or held.edits is not edits or not np.array_equal(held.numbers, locked):
            labels = self.paint_locked(locks, locked, edits)
            self._held = held = LockedImage(labels, outline_if_large(labels), locked, edits)
        return held

    def boundary(self, together: NDArray[np.float64]) -> Any:
        """Image of the probability of a boundary; of a large image each site has that of its most probable one."""
        if np.isnan(together).any():
            return None
        if isinstance(self.sites, BlockedLabels):
            most = np.zeros(self.interactive.problem.n, np.float32)
            for ends in self.interactive.problem.edges.T:
                np.maximum.at(most, ends, (1 - together).astype(np.float32))
            return self._painted(most)
        return make_boundary_image(self.interactive.problem, together, self.faces)

    def entropy(self, together: NDArray[np.float64]) -> Any:
        """Image of how unsure the model is of each site."""
        if np.isnan(together).any():
            return None
        return self._painted(compute_site_entropy(self.interactive.problem, together).astype(np.float32))

    def regions(self, numbers: NDArray[np.integer], detail: float | None, final: bool) -> LabelArray:
        """Label image of the regions (or objects) of some clusters, or of the hierarchy at a detail from 0 to 1.

        Where a run comes to its `final` state it is, without a detail, what ``gsw.segment`` returns. What a person has
        fixed is in it.
        """
        summary, settings = self.interactive.summary, self.interactive.settings
        labels_at_detail = detail is not None and summary.is_estimated
        is_chunked = isinstance(self.sites, BlockedLabels)  # objects pixel by pixel are then for the export alone
        if (
            final
            and not labels_at_detail
            and (settings.view != "clusters" or summary.edits is not None)
            and not is_chunked
        ):
            return wrap_to_uint16(summary.labels)
        return self._regions(numbers, detail, wrap_to_uint16)

    def _regions(self, numbers: NDArray[np.integer], detail: float | None, fit: Fit) -> LabelArray:
        """The same of what a chain says, with numbers of the type that `fit` gives them."""
        summary, settings = self.interactive.summary, self.interactive.settings
        labels_at_detail = detail is not None and summary.is_estimated
        if detail is not None and labels_at_detail:
            labels = self._painted(fit(summary.labels_at_detail(detail)))
        else:
            labels = self._free_regions(numbers, fit)
        if summary.edits is None:
            return labels
        objects = settings.view == "objects" and not labels_at_detail
        return fit(apply_edits(labels, summary.edits, self._smallest, objects))

    @property
    def _smallest(self) -> int:
        """Pixels of a region at least."""
        return self.interactive.problem.smallest_region(self.interactive.settings.min_region)

    def _free_regions(self, numbers: NDArray[np.integer], fit: Fit) -> LabelArray:
        """Label image of the regions or objects of some clusters, whatever a person has fixed."""
        summary, settings = self.interactive.summary, self.interactive.settings
        if self.interactive.problem.closed:
            return self._painted(fit(numbers))
        if settings.view == "objects" and not isinstance(self.sites, BlockedLabels):
            seeds = summary.named_seeds
            return fit(find_objects(self.interactive.problem, numbers, self._smallest, settings.neck, seeds))
        return self._painted(fit(summary.regions_in(numbers, self.interactive.locks).astype(np.int64) + 1))

    def final(self) -> Any:
        """Label image to export: what ``gsw.segment`` returns; after corrections with the user's own numbers."""
        interactive = self.interactive
        return (
            self.paint(interactive.named(interactive.summary.numbers))
            if interactive.keeps_displayed_labels
            else self.result().labels
        )

    def ends_with(self, show: DisplayedState) -> bool:
        """Whether a state is the one that a run ends with; until draws are kept that is the best so far."""
        if not len(self.interactive.summary.draws):
            return show != "current"
        return show == ("best" if self.interactive.settings.consensus == "none" else "consensus")

    def exports_regions(self, view: DisplayOptions) -> bool:
        """Whether regions are exported, or else clusters: what is outlined, but objects in any case.

        Clusters of objects are colours that mean nothing; and clusters that a person has named keep their names.
        """
        objects = self.interactive.settings.view == "objects" and not self.interactive.problem.closed
        return objects or (
            "regions" in view.wanted and (view.detail is not None or not self.interactive.keeps_displayed_labels)
        )

    def is_final(self, view: DisplayOptions, sampling: bool) -> bool:
        """Whether what is on the screen is what a run ends with; while it goes on, so is the state that it is in."""
        if isinstance(self.sites, BlockedLabels):
            return True
        state = self.ends_with(view.show) or (sampling and view.show == "current")
        outlined = self.interactive.settings.view != "clusters" or self.interactive.edits is not None
        usual = self.exports_regions(view) == (outlined and not self.interactive.keeps_displayed_labels)
        return state and usual and (view.detail is None or not self.exports_regions(view))

    def seen(self, view: DisplayOptions) -> tuple[LabelArray, NDArray[np.integer]]:
        """Label image to export of another state, fineness or of the clusters alone, and the clusters (n,) under it."""
        numbers = self.interactive.shown(view.show)
        if self.exports_regions(view):
            return self._regions(numbers, view.detail, to_uint32), numbers
        return self._painted(to_uint32(numbers)), numbers

    def table(self, numbers: NDArray[np.integer], together: NDArray[np.float64]) -> Columns:
        interactive = self.interactive
        return measure_regions(
            interactive.problem,
            numbers,
            interactive.pixels,
            together,
            self.means,
            interactive.locks,
            self.channel_names,
            self.pixel_size,
        )

    def measuring(
        self, source: ImageSource, labels: LabelArray, clusters: NDArray[np.integer] | None = None
    ) -> Callable[[], list[Columns]]:
        """What measures a label image of this array, in any thread: its table, or one for each of several images.

        Parameters
        ----------
        clusters : (n,) number of each site's cluster on the screen; those of the summary by default.
        """
        summary, problem = self.interactive.summary, self.interactive.problem
        numbers = None if clusters is None else self.interactive.map_to_current_sites(np.asarray(clusters, np.int64))
        look: dict[str, Any] = {"clusters": numbers, **source.ruler}
        if isinstance(problem.sites, BlockedLabels):  # whose names are those of other values than the image's own
            return lambda: [measure_labels(labels, self.image, self.axes, summary, **look)]
        look["names"] = self.channel_names
        images, axes = self.images, self.axes
        if images is None:
            return lambda: [measure_labels(labels, self.image, axes, summary, **look)]
        axes = axes.replace("Z", "")

        def of_image(number: int) -> Columns:
            sites = source.plane(problem.site_image, number)
            return measure_labels(source.plane(labels, number), images[number], axes, summary, sites=sites, **look)

        return lambda: [of_image(number) for number in range(len(images))]

    def final_tables(
        self, source: ImageSource, labels: LabelArray, clusters: NDArray[np.integer] | None = None
    ) -> list[Columns]:
        """The table of what is exported, or one for each of several images; `clusters` (n,) as of :meth:`seen`."""
        interactive = self.interactive
        if clusters is None and interactive.keeps_displayed_labels:
            clusters = interactive.named(interactive.summary.clusters)
        return self.measuring(source, labels, clusters)()

    def traces(self) -> list[Trace]:
        """The traces of the chains, as columns."""
        return [make_trace(rows, len(rows)) for rows in self.interactive.traces]

    def provenance(self) -> dict[str, Any]:
        """What made the labels: settings, seed, hashes, and every step that a person took."""
        interactive = self.interactive
        return interactive.provenance() | (
            {"corrections": list(interactive.log.corrections)} if interactive.log.corrections else {}
        )

    def result(self) -> Result:
        """The same record that ``gsw.segment`` returns."""
        return make_result(self.interactive.summary, self.provenance())


def count_corrections(changes: Sequence[Mapping[str, Any]]) -> int:
    """How many of the changes of a chain stand: an undo takes one back and is none itself.

    >>> count_corrections([{"what": "paint"}, {"what": "undo"}, {"what": "redo"}, {"what": "lock"}])
    2
    """
    return max(0, sum(-1 if change["what"] == "undo" else change["what"] != "steering" for change in changes))


def count_labels(labels: LabelArray) -> int:
    """How many different numbers other than 0 a label image has."""
    return (
        labels.count() if isinstance(labels, LazySiteImage) else int(np.count_nonzero(np.bincount(labels.ravel())[1:]))
    )


def to_uint32(numbers: NDArray[np.integer]) -> NDArray[np.uint32]:
    """Numbers in 32 bits, which are enough for every site and object."""
    return numbers.astype(np.uint32)


def wrap_to_uint16(numbers: NDArray[np.integer]) -> NDArray[np.uint16]:
    """Numbers in 16 bits; 0 stays 0."""
    return np.where(numbers > 0, (numbers.astype(np.int64) - 1) % MAX_LABEL + 1, 0).astype(np.uint16)


@dataclass(frozen=True, eq=False)
class Frame:
    """What there is to see of one array.

    Attributes
    ----------
    obeyed : number of orders that have been carried out on its chain.
    labels : label image with numbers that stay with their regions.
    numbers : (n,) the same for the sites.
    traces : (sweeps, 3) log posterior, number of clusters and entropy of their sizes, of each chain.
    boundary, entropy : images, or None where they were not asked for or are not known.
    regions : label image of regions or objects (`kind`), likewise; `n_regions` their number, 0 if it is not known.
    region_outlines : their outlines, where they are large.
    held : what is locked or fixed; None if nothing has been so far.
    table : columns of the regions' table, or None if it is not new.
    verdict : what there is to say about the agreement of the chains; `settled` whether several of them agree.
    edits : objects or regions that a person has fixed, or None.
    corrections : how many corrections stand: what was undone does not.
    known : whether the burn-in is over, and with it a consensus to be had.
    provenance : what made it, at the end of a run.
    rate : sweeps a second so far.
    """

    array_run: ArrayRun
    n_commands_done: int
    sweep: int
    target: int
    show: DisplayedState
    labels: LabelArray
    numbers: NDArray[np.int64]
    locks: NDArray[np.bool_]
    n_clusters: int
    best: float
    best_sweep: int
    traces: list[NDArray[np.float64]]
    marks: tuple[int, ...]
    corrections: int
    rate: float
    boundary: NDArray[np.float32] | None = None
    entropy: NDArray[np.float32] | None = None
    regions: LabelArray | None = None
    region_outlines: OutlinedLabels | None = None
    held: LockedImage | None = None
    n_regions: int = 0
    kind: str = "region"
    verdict: str = ""
    has_converged: bool = False
    edits: FixedPixels | None = None
    is_estimated: bool = False
    table: dict[str, NDArray[Any]] | None = None
    provenance: dict[str, Any] | None = None
