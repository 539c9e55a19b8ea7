"""One array of a segmentation: its interactive run, and the label images, maps and tables that show it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.array_types import Sites
from napari_gsw.core.image.normalized_image import channels_last
from napari_gsw.core.interactive.interactive_run import MAX_LABEL, DisplayedState, InteractiveRun
from napari_gsw.core.posterior.object_edits import FixedPixels, apply_edits
from napari_gsw.core.posterior.objects import find_background_sites, find_objects
from napari_gsw.core.posterior.region_table import Columns, measure_labels, measure_regions
from napari_gsw.core.posterior.regions import compute_site_entropy, find_boundary_faces, make_boundary_image
from napari_gsw.core.posterior.result import Result, Trace, make_result, make_trace
from napari_gsw.core.sites.blocked_labels import BlockedLabels
from napari_gsw.core.sites.site_values import mean_per_site
from napari_gsw.widgets.layers.image_source import ImageSource
from napari_gsw.widgets.layers.lazy_labels import LazySiteImage

# A label image of 16 bits: an array, or a LazySiteImage, which is indexed like one.
LabelArray = Any
Cast = Callable[[NDArray[np.integer]], NDArray[np.unsignedinteger]]


@dataclass(frozen=True)
class DisplayOptions:
    """Content of a frame."""

    show: DisplayedState = "current"
    wanted: frozenset[str] = frozenset()  # of "boundary", "entropy", "regions"
    detail: float | None = None  # level of the region hierarchy from 0 to 1; None for regions of the shown state
    background: bool = True  # whether it is painted
    ink: str = "own"  # colour of all outlines, or "own" if each has its own


@dataclass(eq=False)
class ArrayRun:
    """An interactive run with what its images need."""

    interactive: InteractiveRun
    image: Any  # the array that is segmented, in memory or lazy
    axes: str
    channel_names: tuple[str, ...] = ()
    pixel_size: float = 1.0
    images: list[NDArray[Any]] | None = None  # those that the array is made of; None if it is one
    plan: Any = None  # the RunPlan that made it
    unusable: int = 0  # number of pixels that are NaN or infinite
    n_commands_sent: int = 0  # commands of the user that were submitted
    n_commands_done: int = 0  # and carried out
    frame: Frame | None = None  # the newest; at first that of the run before
    _made: dict[str, tuple[Any, Any]] = field(default_factory=dict)

    @property
    def is_up_to_date(self) -> bool:
        return self.n_commands_done == self.n_commands_sent

    @property
    def sites(self) -> Sites | BlockedLabels:
        sites = self.interactive.problem.sites
        assert sites is not None
        return sites

    @property
    def is_chunked(self) -> bool:
        """True if the image does not fit into memory."""
        return isinstance(self.sites, BlockedLabels)

    def _of_sites(self, name: str, make: Callable[[], Any]) -> Any:
        """Return a value that is made anew when a scribble has split sites."""
        if name not in self._made or self._made[name][0] is not self.sites:
            self._made[name] = self.sites, make()
        return self._made[name][1]

    # ---- label images

    def paint(self, numbers: NDArray[np.integer]) -> LabelArray:
        """Make a label image of site labels; labels beyond 16 bits wrap, so that only colours repeat."""
        return self._paint(wrap_to_uint16(numbers))

    def paint_shown(self, numbers: NDArray[np.integer], background: bool) -> LabelArray:
        """Make a label image in which the background has one label, or none if not `background`, except its locks."""
        problem = self.interactive.problem
        if self.is_chunked or (background and not problem.has_fragments):
            return self.paint(numbers)
        numbers = self.interactive.map_to_current_sites(numbers)
        free = find_background_sites(problem, numbers) & ~self.interactive.locks
        label = int(np.bincount(numbers[free]).argmax()) if background and free.any() else 0
        return self.paint(np.where(free, label, numbers))

    def _paint(self, values: NDArray[Any]) -> Any:
        """Make an image of a value for each site; the sites may have been split since the values were computed."""
        sites = self.sites
        table = np.concatenate((np.zeros(1, values.dtype), self.interactive.map_to_current_sites(values)))
        if isinstance(sites, BlockedLabels):
            return LazySiteImage(sites, table)
        return np.take(table, sites, mode="clip")

    def paint_locked(
        self, locks: NDArray[np.bool_], numbers: NDArray[np.integer], edits: FixedPixels | None = None
    ) -> LabelArray:
        """Make a label image of the locked sites; fixed objects are pixels, each with its own label."""
        if edits is None:
            return self.paint(np.where(locks, numbers, 0))
        image = self.paint(np.where(locks & (edits.sites == 0), numbers, 0))
        return np.where(edits.fixed > 0, wrap_to_uint16(edits.fixed), image)

    # ---- uncertainty

    def uncertainty(self, name: str, together: NDArray[np.float64]) -> Any:
        """Make the image of "boundary" probability or neighbour "entropy"; None before the burn-in is over.

        In a chunked image each site has the probability of its likeliest boundary.
        """
        problem = self.interactive.problem
        if np.isnan(together).any():
            return None
        if name == "entropy":
            return self._paint(compute_site_entropy(problem, together).astype(np.float32))
        if not self.is_chunked:
            return make_boundary_image(problem, together, self._of_sites("faces", lambda: find_boundary_faces(problem)))
        highest = np.zeros(problem.n, np.float32)
        for ends in problem.edges.T:
            np.maximum.at(highest, ends, (1 - together).astype(np.float32))
        return self._paint(highest)

    # ---- regions and objects

    def regions(
        self, numbers: NDArray[np.integer], detail: float | None, final: bool, cast: Cast | None = None
    ) -> LabelArray:
        """Make the label image of regions or objects of a partition, or of the hierarchy at a detail from 0 to 1.

        The `final` state of a run without a detail is what ``gsw.segment`` returns. Edits are included.
        """
        cast = cast or wrap_to_uint16
        summary, settings, problem = self.interactive.summary, self.interactive.settings, self.interactive.problem
        min_pixels = problem.smallest_region(settings.min_region)
        at_detail, are_objects = detail is not None and summary.is_estimated, settings.view == "objects"
        # Of a chunked image, objects pixel by pixel are for the export alone.
        is_plain = settings.view == "clusters" and summary.edits is None
        if final and not (at_detail or self.is_chunked or is_plain):
            return cast(summary.labels)
        if detail is not None and at_detail:
            labels = self._paint(cast(summary.labels_at_detail(detail)))
        elif problem.closed:
            labels = self._paint(cast(numbers))
        elif are_objects and not self.is_chunked:
            labels = cast(find_objects(problem, numbers, min_pixels, settings.neck, summary.named_seeds))
        else:
            labels = self._paint(cast(summary.regions_in(numbers, self.interactive.locks).astype(np.int64) + 1))
        if summary.edits is None:
            return labels
        return cast(apply_edits(labels, summary.edits, min_pixels, are_objects and not at_detail))

    # ---- exports

    def final(self) -> Any:
        """Make the label image to export: that of ``gsw.segment``, or after corrections with the user's labels."""
        interactive = self.interactive
        if interactive.keeps_displayed_labels:
            return self.paint(interactive.named(interactive.summary.numbers))
        return self.result().labels

    def ends_with(self, show: DisplayedState) -> bool:
        """Return whether a run ends with a state; until draws are kept that is the best so far."""
        if not len(self.interactive.summary.draws):
            return show != "current"
        return show == ("best" if self.interactive.settings.consensus == "none" else "consensus")

    def export(
        self, view: DisplayOptions, sampling: bool
    ) -> tuple[Any, NDArray[np.integer] | None, dict[str, Any] | None]:
        """Return the displayed label image in 32 bits, the clusters (n,) under it, and a record for its provenance.

        The latter two are None if that is what a run ends with; during a run, its current state counts as that.
        Objects are exported rather than clusters, whose labels mean nothing. Otherwise what is outlined is exported,
        except that clusters with labels chosen by the user keep these.
        """
        interactive, keeps_labels = self.interactive, self.interactive.keeps_displayed_labels
        outlined = "regions" in view.wanted and (view.detail is not None or not keeps_labels)
        regions = outlined or (interactive.settings.view == "objects" and not interactive.problem.closed)
        ends_outlined = interactive.settings.view != "clusters" or interactive.edits is not None
        is_end = self.ends_with(view.show) or (sampling and view.show == "current")
        is_end &= regions == (ends_outlined and not keeps_labels) and (view.detail is None or not regions)
        if self.is_chunked or is_end:
            return self.final(), None, None
        numbers = interactive.shown(view.show)
        labels = self.regions(numbers, view.detail, False, _to_uint32) if regions else self._paint(_to_uint32(numbers))
        return labels, numbers, {"show": view.show, "detail": view.detail if regions else None, "regions": regions}

    def table(self, numbers: NDArray[np.integer], together: NDArray[np.float64]) -> Columns:
        run, sites = self.interactive, self.sites
        if isinstance(sites, BlockedLabels):
            assert run.problem.graph is not None
            means = run.problem.graph.means
        else:
            means = self._of_sites("means", lambda: mean_per_site(channels_last(self.image, self.axes), sites))
        return measure_regions(run.problem, numbers, together, means, run.locks, self.channel_names, self.pixel_size)

    def measuring(
        self, source: ImageSource, labels: LabelArray, clusters: NDArray[np.integer] | None = None
    ) -> Callable[[], list[Columns]]:
        """Return a function that measures a label image in any thread: one table, or one for each of several images.

        `clusters` (n,) has the label of each site's displayed cluster; by default that of an export.
        """
        interactive = self.interactive
        summary, problem = interactive.summary, interactive.problem
        if clusters is None and interactive.keeps_displayed_labels:
            clusters = interactive.named(summary.clusters)
        numbers = None if clusters is None else interactive.map_to_current_sites(np.asarray(clusters, np.int64))
        options: dict[str, Any] = {"clusters": numbers, **source.ruler}
        if not self.is_chunked:  # whose features have other channels than the image
            options["names"] = self.channel_names
        images, axes = self.images, self.axes
        if images is None or self.is_chunked:
            return lambda: [measure_labels(labels, self.image, axes, summary, **options)]
        axes = axes.replace("Z", "")

        def measure_image(index: int) -> Columns:
            sites = source.plane(problem.site_image, index)
            return measure_labels(source.plane(labels, index), images[index], axes, summary, sites=sites, **options)

        return lambda: [measure_image(index) for index in range(len(images))]

    def traces(self) -> list[Trace]:
        return [make_trace(trace, len(trace)) for trace in self.interactive.traces]

    def provenance(self) -> dict[str, Any]:
        """Describe what made the labels: settings, seed, hashes, and every action of the user."""
        corrections = list(self.interactive.log.corrections)
        return self.interactive.provenance() | ({"corrections": corrections} if corrections else {})

    def result(self) -> Result:
        """Return the same record as ``gsw.segment``."""
        return make_result(self.interactive.summary, self.provenance())


def count_labels(labels: LabelArray) -> int:
    """Count the labels other than 0 of a label image."""
    if isinstance(labels, LazySiteImage):
        return labels.count()
    return int(np.count_nonzero(np.bincount(labels.ravel())[1:]))


def _to_uint32(numbers: NDArray[np.integer]) -> NDArray[np.uint32]:
    """Convert labels to 32 bits, which suffice for every site and object."""
    return numbers.astype(np.uint32)


def wrap_to_uint16(numbers: NDArray[np.integer]) -> NDArray[np.uint16]:
    """Convert labels to 16 bits; 0 stays 0."""
    return np.where(numbers > 0, (numbers.astype(np.int64) - 1) % MAX_LABEL + 1, 0).astype(np.uint16)


@dataclass(frozen=True, eq=False, kw_only=True)
class Frame:
    """The display of one array at one moment; images are None where they are not wanted or not known."""

    array_run: ArrayRun
    n_commands_done: int  # that its chain had carried out
    sweep: int
    target: int
    show: DisplayedState
    labels: LabelArray  # clusters keep their labels from frame to frame
    numbers: NDArray[np.int64]  # (n,) the same for the sites
    locks: NDArray[np.bool_]
    n_clusters: int
    best: float
    best_sweep: int
    traces: list[NDArray[np.float64]]  # (sweeps, 3) log posterior, clusters, entropy of their sizes, of each chain
    marks: tuple[int, ...]  # sweeps of corrections
    corrections: int  # number in effect
    boundary: NDArray[np.float32] | None = None
    entropy: NDArray[np.float32] | None = None
    regions: LabelArray | None = None  # or objects, see `kind`
    locked: LabelArray = (
        None  # what is locked or fixed, the same array until it changes; None if nothing has been so far
    )
    n_regions: int = 0  # 0 if unknown
    kind: str = "region"
    rate: float = 0.0  # sweeps per second
    verdict: str = ""  # diagnostic summary
    has_converged: bool = False
    edits: FixedPixels | None = None  # objects or regions that the user has fixed
    is_estimated: bool = False  # the burn-in is over, so that there are posterior samples
    table: dict[str, NDArray[Any]] | None = None  # columns of the region table
    provenance: dict[str, Any] | None = None  # at the end of a run
