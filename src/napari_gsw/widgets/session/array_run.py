"""One array that is segmented on its own: its chain, and how to draw it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.arrays import Sites
from napari_gsw.core.pipeline.live_chain import MOST_NUMBER, LiveChain
from napari_gsw.core.pipeline.provenance import looks_of, provenance
from napari_gsw.core.pipeline.watched_chain import Show
from napari_gsw.core.posterior.held_pixels import HeldPixels, edited_labels
from napari_gsw.core.posterior.label_table import measured
from napari_gsw.core.posterior.objects import background_sites, objects_of
from napari_gsw.core.posterior.region_table import Columns, region_table
from napari_gsw.core.posterior.result import Result, Trace, result, trace_of
from napari_gsw.core.posterior.uncertainty import Faces, boundary_probability, site_entropy, site_faces
from napari_gsw.core.sites.mosaic import Mosaic
from napari_gsw.core.sites.per_site import site_means
from napari_gsw.core.sites.pixel_kernels import paint_into
from napari_gsw.widgets.layers.large_labels import Outlined, outlined
from napari_gsw.widgets.layers.lazy_picture import LazyPicture
from napari_gsw.widgets.layers.source import Source
from napari_gsw.widgets.session.view import View

# A label image of 16 bits: an array, or a LazyPicture, which reads like one.
LabelPicture = Any
# Gives numbers a type.
Fit = Callable[[NDArray[np.integer]], NDArray[np.unsignedinteger]]


@dataclass(frozen=True, eq=False)
class HeldPicture:
    """Label image of what is locked or fixed, with its outlines if it is large, and what it is a picture of."""

    labels: LabelPicture
    outlines: Outlined | None
    numbers: NDArray[np.integer]
    edits: HeldPixels | None


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
    given : arrays of the user's own that went into it, by name, for the provenance.
    images : the several images that the array is made of; None if it is one.
    plan : what it was made by, a :class:`~napari_gsw.widgets.session.plan.Plan`.
    """

    def __init__(
        self,
        live: LiveChain,
        image: Any,
        axes: str,
        means: NDArray[np.float64],
        channel_names: tuple[str, ...] = (),
        pixel_size: float = 1.0,
        given: dict[str, Any] | None = None,
        images: list[NDArray[Any]] | None = None,
    ) -> None:
        self.live, self.image, self.axes = live, image, axes
        self.channel_names, self.pixel_size = channel_names, pixel_size
        self.given, self.images = given or {}, images
        self.submitted = self.obeyed = 0
        self.rate = 0.0
        self.verdict, self.settled = "", False
        self.n_regions = self.unusable = 0
        self.pictured: HeldPixels | None = None
        self.plan: Any = None
        # What was computed of the sites, with the sites that it is of: they may be cut.
        self._means = self.sites, means
        self._faces: tuple[Sites | Mosaic, Faces] | None = None
        self._held: HeldPicture | None = None

    @property
    def sites(self) -> Sites | Mosaic:
        """The sites of today."""
        sites = self.live.problem.sites
        assert sites is not None
        return sites

    @property
    def means(self) -> NDArray[np.float64]:
        """(n, channels) mean values of the sites."""
        sites = self.sites
        if self._means[0] is not sites and not isinstance(sites, Mosaic):
            self._means = sites, site_means(self.image, self.axes, sites)
        return self._means[1]

    @property
    def faces(self) -> Faces:
        problem = self.live.problem
        if self._faces is None or self._faces[0] is not problem.sites:
            self._faces = self.sites, site_faces(problem)
        return self._faces[1]

    @cached_property
    def looks(self) -> dict[str, Any]:
        """What the image is known by."""
        return looks_of(self.image if self.images is None else self.images)

    def paint(self, numbers: NDArray[np.integer]) -> LabelPicture:
        """Label image of some numbers. What 16 bits cannot hold comes round again: only colours repeat."""
        return self._painted(wrapped(numbers))

    def paint_shown(self, numbers: NDArray[np.integer], background: bool) -> LabelPicture:
        """Label image of some numbers; without the background, if that is not to be painted, but with its locks.

        Colours of objects mean nothing, and a background that falls into parts is shown in one.
        """
        problem = self.live.problem
        if isinstance(problem.sites, Mosaic) or (background and not problem.coloured):
            return self.paint(numbers)
        row = numbers if len(numbers) == problem.n else self.live.carried(numbers)
        free = background_sites(problem, row) & ~self.live.locks
        ink = int(np.bincount(row[free]).argmax()) if background and free.any() else 0
        return self.paint(np.where(free, ink, row))

    def _painted(self, row: NDArray[Any]) -> Any:
        """Image of a value for each site, of the values' type; the sites may have been cut since the values were."""
        problem = self.live.problem
        sites = problem.sites
        assert sites is not None
        values = np.concatenate((np.zeros(1, row.dtype), row if len(row) == problem.n else self.live.carried(row)))
        if isinstance(sites, Mosaic):
            return LazyPicture(sites, values)
        image = np.empty(sites.shape, row.dtype)
        paint_into(np.ascontiguousarray(sites).reshape(-1), values, image.reshape(-1))
        return image

    def paint_locked(
        self, locks: NDArray[np.bool_], numbers: NDArray[np.integer], edits: HeldPixels | None = None
    ) -> LabelPicture:
        """Label image of the locked sites alone; objects that are fixed are pixels, each with its own number."""
        if edits is None:
            return self.paint(np.where(locks, numbers, 0))
        image = self.paint(np.where(locks & (edits.sites == 0), numbers, 0))
        return np.where(edits.fixed > 0, wrapped(edits.fixed), image)

    def held_picture(self, numbers: NDArray[np.integer]) -> HeldPicture | None:
        """What is locked or fixed, the same picture until that changes; None while nothing has been."""
        held, locks, edits = self._held, self.live.locks, self.live.edits
        if held is None and not locks.any() and edits is None:
            return None
        locked = np.where(locks, numbers if len(numbers) == len(locks) else self.live.carried(numbers), 0)
        if held is None or held.edits is not edits or not np.array_equal(held.numbers, locked):
            labels = self.paint_locked(locks, locked, edits)
            self._held = held = HeldPicture(labels, outlined(labels), locked, edits)
        return held

    def boundary(self, together: NDArray[np.float64]) -> Any:
        """Image of the probability of a boundary; of a large image each site has that of its most probable one."""
        if np.isnan(together).any():
            return None
        if isinstance(self.sites, Mosaic):
            most = np.zeros(self.live.problem.n, np.float32)
            for ends in self.live.problem.edges.T:
                np.maximum.at(most, ends, (1 - together).astype(np.float32))
            return self._painted(most)
        return boundary_probability(self.live.problem, together, self.faces)

    def entropy(self, together: NDArray[np.float64]) -> Any:
        """Image of how unsure the model is of each site."""
        if np.isnan(together).any():
            return None
        return self._painted(site_entropy(self.live.problem, together).astype(np.float32))

    def regions(self, numbers: NDArray[np.integer], detail: float | None, final: bool) -> LabelPicture:
        """Label image of the regions (or objects) of some clusters, or of the hierarchy at a detail from 0 to 1.

        Where a run comes to its `final` state it is, without a detail, what ``gsw.segment`` returns. What a person has
        fixed is in it.
        """
        summary, settings = self.live.summary, self.live.settings
        detailed = detail is not None and summary.known
        large = isinstance(self.sites, Mosaic)  # objects pixel by pixel are then for the export alone
        if final and not detailed and (settings.view != "clusters" or summary.edits is not None) and not large:
            return wrapped(summary.labels)
        return self._regions(numbers, detail, wrapped)

    def _regions(self, numbers: NDArray[np.integer], detail: float | None, fit: Fit) -> LabelPicture:
        """The same of what a chain says, with numbers of the type that `fit` gives them."""
        summary, settings = self.live.summary, self.live.settings
        detailed = detail is not None and summary.known
        if detail is not None and detailed:
            labels = self._painted(fit(summary.detailed(detail)))
        else:
            labels = self._free_regions(numbers, fit)
        if summary.edits is None:
            return labels
        objects = settings.view == "objects" and not detailed
        return fit(edited_labels(labels, summary.edits, self._smallest, objects))

    @property
    def _smallest(self) -> int:
        """Pixels of a region at least."""
        return self.live.problem.smallest_region(self.live.settings.min_region)

    def _free_regions(self, numbers: NDArray[np.integer], fit: Fit) -> LabelPicture:
        """Label image of the regions or objects of some clusters, whatever a person has fixed."""
        summary, settings = self.live.summary, self.live.settings
        if self.live.problem.closed:
            return self._painted(fit(numbers))
        if settings.view == "objects" and not isinstance(self.sites, Mosaic):
            seeds = summary.named_seeds
            return fit(objects_of(self.live.problem, numbers, self._smallest, settings.neck, seeds))
        return self._painted(fit(summary.regions_in(numbers, self.live.locks).astype(np.int64) + 1))

    def final(self) -> Any:
        """Label image to export: what ``gsw.segment`` returns; after corrections with the user's own numbers."""
        live = self.live
        return self.paint(live.named(live.summary.numbers)) if live.keeps_numbers else self.result().labels

    def ends_with(self, show: Show) -> bool:
        """Whether a state is the one that a run ends with; until draws are kept that is the best so far."""
        if not len(self.live.summary.draws):
            return show != "current"
        return show == ("best" if self.live.settings.consensus == "none" else "consensus")

    def exports_regions(self, view: View) -> bool:
        """Whether regions are exported, or else clusters: what is outlined, but objects in any case.

        Clusters of objects are colours that mean nothing; and clusters that a person has named keep their names.
        """
        objects = self.live.settings.view == "objects" and not self.live.problem.closed
        return objects or ("regions" in view.wanted and (view.detail is not None or not self.live.keeps_numbers))

    def is_final(self, view: View, sampling: bool) -> bool:
        """Whether what is on the screen is what a run ends with; while it goes on, so is the state that it is in."""
        if isinstance(self.sites, Mosaic):
            return True
        state = self.ends_with(view.show) or (sampling and view.show == "current")
        outlined = self.live.settings.view != "clusters" or self.live.edits is not None
        usual = self.exports_regions(view) == (outlined and not self.live.keeps_numbers)
        return state and usual and (view.detail is None or not self.exports_regions(view))

    def seen(self, view: View) -> tuple[LabelPicture, NDArray[np.integer]]:
        """Label image to export of another state, fineness or of the clusters alone, and the clusters (n,) under it."""
        numbers = self.live.shown(view.show)
        if self.exports_regions(view):
            return self._regions(numbers, view.detail, in_32_bits), numbers
        return self._painted(in_32_bits(numbers)), numbers

    def table(self, numbers: NDArray[np.integer], together: NDArray[np.float64]) -> Columns:
        live = self.live
        return region_table(
            live.problem, numbers, live.pixels, together, self.means, live.locks, self.channel_names, self.pixel_size
        )

    def measuring(
        self, source: Source, labels: LabelPicture, clusters: NDArray[np.integer] | None = None
    ) -> Callable[[], list[Columns]]:
        """What measures a label image of this array, in any thread: its table, or one for each of several images.

        Parameters
        ----------
        clusters : (n,) number of each site's cluster on the screen; those of the summary by default.
        """
        summary, problem = self.live.summary, self.live.problem
        numbers = None if clusters is None else self.live.carried(np.asarray(clusters, np.int64))
        look: dict[str, Any] = {"clusters": numbers, **source.ruler}
        if isinstance(problem.sites, Mosaic):  # whose names are those of other values than the image's own
            return lambda: [measured(labels, self.image, self.axes, summary, **look)]
        look["names"] = self.channel_names
        images, axes = self.images, self.axes
        if images is None:
            return lambda: [measured(labels, self.image, axes, summary, **look)]
        axes = axes.replace("Z", "")

        def of_image(number: int) -> Columns:
            sites = source.plane(problem.site_image, number)
            return measured(source.plane(labels, number), images[number], axes, summary, sites=sites, **look)

        return lambda: [of_image(number) for number in range(len(images))]

    def final_tables(
        self, source: Source, labels: LabelPicture, clusters: NDArray[np.integer] | None = None
    ) -> list[Columns]:
        """The table of what is exported, or one for each of several images; `clusters` (n,) as of :meth:`seen`."""
        live = self.live
        if clusters is None and live.keeps_numbers:
            clusters = live.named(live.summary.clusters)
        return self.measuring(source, labels, clusters)()

    def traces(self) -> list[Trace]:
        """The traces of the chains, as columns."""
        return [trace_of(rows, len(rows)) for rows in self.live.traces]

    def provenance(self) -> dict[str, Any]:
        """What made the labels: settings, seed, hashes, and every step that a person took."""
        live = self.live
        record = provenance(self.looks, live.summary, live.seed, self.given, live.steps)
        return record | ({"corrections": list(live.changes)} if live.changes else {})

    def result(self) -> Result:
        """The same record that ``gsw.segment`` returns."""
        return result(self.live.summary, self.provenance())


def count_corrections(changes: Sequence[Mapping[str, Any]]) -> int:
    """How many of the changes of a chain stand: an undo takes one back and is none itself.

    >>> count_corrections([{"what": "paint"}, {"what": "undo"}, {"what": "redo"}, {"what": "lock"}])
    2
    """
    return max(0, sum(-1 if change["what"] == "undo" else change["what"] != "steering" for change in changes))


def count_numbers(labels: LabelPicture) -> int:
    """How many different numbers other than 0 a label image has."""
    return labels.count() if isinstance(labels, LazyPicture) else int(np.count_nonzero(np.bincount(labels.ravel())[1:]))


def in_32_bits(numbers: NDArray[np.integer]) -> NDArray[np.uint32]:
    """Numbers in 32 bits, which are enough for every site and object."""
    return numbers.astype(np.uint32)


def wrapped(numbers: NDArray[np.integer]) -> NDArray[np.uint16]:
    """Numbers in 16 bits; 0 stays 0."""
    return np.where(numbers > 0, (numbers.astype(np.int64) - 1) % MOST_NUMBER + 1, 0).astype(np.uint16)
