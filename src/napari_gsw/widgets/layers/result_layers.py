"""Tables of the arrays of a stack as one, with the place of each along the stack."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import napari
import numpy as np
import pandas as pd
from napari.layers import Image, Layer
from napari.layers import Labels as NapariLabels
from napari.utils.colormaps import label_colormap
from numpy.typing import NDArray

from napari_gsw.core.posterior.label_table import Columns
from napari_gsw.core.sites.blocked_labels import BlockedLabels
from napari_gsw.widgets.common.preferences import get_preference
from napari_gsw.widgets.layers.cursor import centre_view
from napari_gsw.widgets.layers.image_source import ImageSource, Position
from napari_gsw.widgets.layers.layer_metadata import (
    IMAGE_NAME,
    MADE_BY,
    RESULT_OF,
    SETTLED,
    SLICED_ALONG,
    TABLE_AXES,
    VERDICT,
    Kind,
    get_layer_kind,
    make_metadata,
)
from napari_gsw.widgets.layers.lazy_labels import (
    THICK,
    Labels,
    LazySiteImage,
    OutlinedLabels,
    add_labels,
    make_colormap,
    make_image_levels,
    make_site_levels,
)


def stack_tables(letters: Sequence[str], tables: Sequence[tuple[Position, Columns]]) -> Columns:
    """All rows of the tables of some positions, one after the other.

    What the table of one position lacks, as where a network saw the objects of the others alone, is 0 there if it is a
    whole number, empty if it is a word, and NaN otherwise.

    Parameters
    ----------
    letters : of the axes along which positions are counted: each becomes a column before the others.

    Examples
    --------
    >>> stacked_tables(["t"], [((0,), {"index": np.array([1, 2])}), ((5,), {"index": np.array([1])})])
    {'t': array([0, 0, 5]), 'index': array([1, 2, 1])}
    """
    if not tables:
        return {}
    counts = [len(columns["index"]) for _, columns in tables]
    table: Columns = {
        letter: np.repeat([position[axis] for position, _ in tables], counts) for axis, letter in enumerate(letters)
    }
    names = dict.fromkeys(name for _, columns in tables for name in columns)
    for name in names:
        kind = next(columns[name].dtype for _, columns in tables if name in columns)
        nothing = 0 if kind.kind in "iub" else "" if kind.kind in "UO" else np.nan
        table[name] = np.concatenate(
            [
                columns[name] if name in columns else np.full(n, nothing, kind)
                for (_, columns), n in zip(tables, counts, strict=True)
            ]
        )
    return table


# Types of the arrays that a run writes.
DTYPES: dict[Kind, Any] = {
    "segmentation": np.uint16, "regions": np.uint16, "locked": np.uint16, "superpixels": np.int32,
    "boundary": np.float32, "entropy": np.float32,
}  # fmt: skip


def make_origin(source: ImageSource, layer: Layer) -> tuple[str, str]:
    """What a layer says that was made for what a source is; a copy of it says another's."""
    return repr(source.key), str(layer.unique_id)


def find_earlier_layers(layers: Iterable[Layer], source: ImageSource, given: Sequence[Layer]) -> dict[Kind, Layer]:
    """By kind, the first that was made for a source and that a run can write to; none of those `given` to it."""
    earlier: dict[Kind, Layer] = {}
    for layer in layers:
        kind = get_layer_kind(layer)
        ours = layer.metadata.get(RESULT_OF) == make_origin(source, layer) and not any(layer is one for one in given)
        if kind is not None and ours and kind not in earlier and _fits(layer, source, kind):
            earlier[kind] = layer
    return earlier


def _fits(layer: Layer, source: ImageSource, kind: Kind) -> bool:
    """Whether what a run writes fits into a layer: a person may have given it other data."""
    data = layer.data[0] if layer.multiscale else layer.data
    if layer.multiscale != source.is_chunked or tuple(data.shape) != tuple(source.label_shape):
        return False
    if not layer.multiscale and not (isinstance(data, np.ndarray) and data.flags.writeable):
        return False
    return kind in DTYPES and data.dtype == DTYPES[kind]


# An image in memory, or one that is painted where it is looked at.
LayerPicture = NDArray[Any] | LazySiteImage
# Name and colour map of each picture of uncertainty.
UNCERTAINTY_IMAGES: dict[Kind, str] = {"boundary": "magma", "entropy": "viridis"}
# Colours of a map of one ink, with none for 0.
ONE_INK = 2
# Outlines of a site that is asked about, and of what would follow it.
QUESTION_INK, FOLLOWER_INK = "yellow", "cyan"


class ResultLayers:
    """Labels, uncertainty, locks and superpixels of one source.

    Attributes
    ----------
    labels : the segmentation, 16 bits: they go to the screen as they are.
    uncertainty_images : images of uncertainty by name, once they were asked for.
    locks : outlines of what is locked, once something is.
    sites : outlines of the superpixels, once they were asked for.
    regions : outlines of regions or objects, once they were asked for.
    question : outlines of what is asked about, while it is.
    ink : the one colour of the outlines of regions and superpixels; "own" gives each its own.
    """

    def __init__(self, viewer: napari.Viewer, source: ImageSource, beside: bool = False) -> None:
        """With `beside`, layers are put right above their image, and are as visible as it is."""
        self.viewer, self.source, self.beside = viewer, source, beside
        self.name = source.layer.name
        self.labels: Labels | None = None
        self.uncertainty_images: dict[str, Image] = {}
        self.locks: Labels | None = None
        self.sites: Labels | None = None
        self.regions: Labels | None = None
        self.question: Labels | None = None
        self.ink = "own"
        self._own_colours: dict[str, Any] = {}
        self._levels: list[BlockedLabels] | None = None

    def all(self) -> list[Layer]:
        outlines = (self.locks, self.sites, self.regions, self.question)
        return [x for x in (self.labels, *self.uncertainty_images.values(), *outlines) if x is not None]

    @property
    def label_layers(self) -> list[Labels]:
        """The layers that a person paints on."""
        return [] if self.labels is None else [self.labels]

    def pictures(self, name: str) -> list[Layer]:
        """The layers of "boundary", "entropy", "regions" or "sites", as far as they are there."""
        one = {"regions": self.regions, "sites": self.sites, **self.uncertainty_images}.get(name)
        return [] if one is None else [one]

    def find_name(self, layer: Layer) -> str | None:
        """Which of these pictures a layer is, if it is one."""
        names = ("regions", "sites", *self.uncertainty_images)
        return next((name for name in names if any(layer is one for one in self.pictures(name))), None)

    def labels_at(self, position: Position) -> NDArray[np.uint16]:
        """What is on the layer of labels at a position, paint and all."""
        assert self.labels is not None
        return np.asarray(self.labels.data[self.source.index(position)])

    def path_at(self, layer: Layer, path: NDArray[np.float64], position: Position) -> NDArray[np.float64]:
        """The points of a path on a layer that lie at a position, in pixels of its array."""
        return self.source.path_at(path, position)

    def fits(self, layer: Layer) -> bool:
        """Whether the array of a layer that we made is still one that we can work with."""
        data, shape = layer.data, self.source.label_shape
        same = isinstance(data, np.ndarray) and data.shape == shape and data.dtype == np.uint16
        return bool(same and data.flags.writeable)

    def centre_view(self, position: Position, image: NDArray[Any], value: int) -> None:
        """Move the view to the pixels of a value in an image (\\*shape,) of a position."""
        if self.labels is not None:
            centre_view(self.viewer, self.labels, self.source.index(position), image, value)

    def forget(self, layer: Layer) -> None:
        """A layer that the user has removed is gone."""
        if layer is self.labels:
            self.labels = None
        if layer is self.locks:
            self.locks = None
        if layer is self.sites:
            self.sites = None
        if layer is self.regions:
            self.regions = None
        if layer is self.question:
            self.question = None
        self.uncertainty_images = {name: image for name, image in self.uncertainty_images.items() if image is not layer}

    def reuse_layers(self, given: Sequence[Layer] = ()) -> None:
        """What an earlier run on the same has left in the viewer is written to again, instead of layers beside it.

        A dock may have been closed and opened, or another image segmented meanwhile. They begin empty, as after Reset.
        What was segmented of another part of the image, or along other axes, stays.

        Parameters
        ----------
        given : layers that a run begins with, and which stay as they are.
        """
        earlier = find_earlier_layers(self.viewer.layers, self.source, given)
        self.labels, self.regions = earlier.get("segmentation"), earlier.get("regions")
        self.locks, self.sites = earlier.get("locked"), earlier.get("superpixels")
        self.uncertainty_images = {name: earlier[name] for name in UNCERTAINTY_IMAGES if name in earlier}
        if self.regions is not None:
            self.regions.editable = not self.regions.multiscale
        for kind, layer in earlier.items():
            layer.metadata.update(self._notes(kind))
        for layer in (self.regions, self.sites):
            if layer is not None and len(layer.colormap.colors) == ONE_INK:
                layer.colormap = label_colormap()
        self._colour("regions")
        self._colour("sites")
        self.clear()
        self.place()

    def show_labels(self, position: Position, labels: LayerPicture) -> None:
        """Write labels where they belong."""
        if self.labels is None:
            data = self._data(position, labels)
            self.labels = self._add_labels(data, "segmentation", opacity=float(get_preference("opacity")))
            return
        self._write(self.labels, position, labels)

    def show_uncertainty(self, name: Kind, position: Position, image: LayerPicture) -> None:
        """Write a picture of uncertainty; :meth:`note_settled` says whether it may still change."""
        if name not in self.uncertainty_images:
            self.uncertainty_images[name] = self._under_selection(
                self.viewer.add_image,
                self._data(position, image),
                name,
                colormap=UNCERTAINTY_IMAGES[name],
                contrast_limits=(0, 1),
                blending="additive" if name == "boundary" else "translucent",
                opacity=1.0 if name == "boundary" else 0.7,
            )
            return
        self._write(self.uncertainty_images[name], position, image)

    def set_convergence(self, has_converged: bool, verdict: str) -> None:
        """Leave in the pictures of uncertainty whether the chains behind them agree, for whoever saves them."""
        for layer in self.uncertainty_images.values():
            layer.metadata.update({SETTLED: has_converged, VERDICT: verdict})

    def show_locks(self, position: Position, locked: LayerPicture, outlines: OutlinedLabels | None = None) -> None:
        """Outline what is locked; the number is that of the lock."""
        if self.locks is None:
            if locked.any():
                look = {
                    "blending": "translucent_no_depth",
                    "colormap": make_colormap("white"),
                }  # to be seen on any colour
                self.locks = self._add_outlines(position, locked, "locked", outlines, **look)
            return
        with self.locks.showing(outlines):
            self._write(self.locks, position, locked)

    def show_sites(self, position: Position, sites: NDArray[np.int32] | BlockedLabels) -> None:
        """Outline the superpixels."""
        if isinstance(sites, BlockedLabels):
            most = max(int(numbers.max()) for numbers in sites.numbers)
            image: LayerPicture = LazySiteImage(sites, np.arange(most + 1, dtype=np.int32))
        else:
            image = sites
        if self.sites is None:
            self.sites = self._add_labels(self._data(position, image), "superpixels", opacity=0.6, contour=1)
            self._colour("sites")
            return
        self._write(self.sites, position, image)

    def show_regions(self, position: Position, regions: LayerPicture, outlines: OutlinedLabels | None = None) -> None:
        """Outline regions or objects, which a person may edit."""
        if self.regions is None:
            self.regions = self._add_outlines(position, regions, "regions", outlines)
            self._colour("regions")
            return
        with self.regions.showing(outlines):
            self._write(self.regions, position, regions)

    def set_outline_colour(self, ink: str) -> None:
        """Outline regions and superpixels in one colour, by its name, or each in its "own"."""
        if ink != self.ink:
            self.ink = ink
            self._colour("regions")
            self._colour("sites")

    def _colour(self, name: str) -> None:
        """Give outlines their ink; their own colours are kept for when they are wanted again."""
        for layer in self.pictures(name):
            if self.ink != "own":
                self._own_colours.setdefault(name, layer.colormap)
                layer.colormap = make_colormap(self.ink)
            elif name in self._own_colours:
                layer.colormap = self._own_colours.pop(name)

    def show_question(self, position: Position, image: NDArray[np.uint16]) -> None:
        """Outline a site that is asked about (1) and what would follow it (2), and nothing else."""
        if self.question is None:
            look = {"blending": "translucent_no_depth", "colormap": make_colormap(QUESTION_INK, FOLLOWER_INK)}
            self.question = self._add_outlines(position, image, "question", None, **look)
            self.question.editable = False
            return
        self.question.data[...] = 0
        self._write(self.question, position, image)

    def hide_question(self) -> None:
        """Take the outlines off the screen."""
        if self.question is not None:
            self.question.data[...] = 0
            self._refresh(self.question)

    def remove_question(self) -> None:
        """Nobody asks any more."""
        layer, self.question = self.question, None
        if layer is not None and layer in self.viewer.layers:
            self.viewer.layers.remove(layer)

    def _data(self, position: Position, image: LayerPicture) -> Any:
        """What a new layer holds: an array with the image in its place, or the levels of one that is painted late."""
        if isinstance(image, LazySiteImage):
            if self._levels is None or self._levels[0] is not image.sites:
                self._levels = make_site_levels(image.sites)
            return make_image_levels(image, self._levels, len(self.source.label_shape) - image.ndim)
        data = np.zeros(self.source.label_shape, image.dtype)
        data[self.source.index(position)] = image
        return data

    def _write(self, layer: Layer, position: Position, image: LayerPicture) -> None:
        """In place: the layer keeps its look, and nothing is sliced that is not on the screen."""
        if isinstance(image, LazySiteImage):
            if layer.data[0].sites is not image.sites or layer.data[0].dtype != image.dtype:
                layer.data = self._data(position, image)
                return
            for level in layer.data:
                level.values = image.values
        else:
            layer.data[self.source.index(position)] = image
        self._refresh(layer)

    def show_table(self, tables: list[dict[str, NDArray[Any]]]) -> None:
        """The regions' table, for napari's own table and for what it tells under the mouse."""
        if self.labels is None:
            return
        table = pd.concat([pd.DataFrame(columns) for columns in tables], ignore_index=True)
        # One row a label is all that napari can show; in a stack a label stands for its largest region.
        table = table.sort_values("pixels", ascending=False).drop_duplicates("index").sort_values("index")
        self.labels.features = table.reset_index(drop=True)

    def show_region_table(self, tables: list[tuple[Position, list[Columns]]]) -> None:
        """The table of the labels that are outlined, or else of those that are filled; a position's one is alone.

        What napari tells under the mouse is the last row with a label.
        """
        outlined = self.regions is not None and self.regions.visible
        if self.regions is not None and not outlined and "index" in self.regions.features.columns:
            self.regions.features = None  # nobody writes to it while it is hidden: it may be of another state
        layer = self.regions if outlined else self.labels
        if layer is not None and not tables:
            layer.metadata.pop(TABLE_AXES, None)
            layer.features = None
        elif layer is not None:
            rows = [(position, columns) for position, (columns,) in tables]
            layer.metadata[TABLE_AXES] = self.source.label_axes.lower()
            layer.features = pd.DataFrame(stack_tables(self.source.stack_letters, rows))

    def place(self) -> None:
        """Put the layers where the image is now."""
        place = self.source.geometry()
        for layer in self.all():
            for name, value in place.items():
                if not np.array_equal(np.asarray(getattr(layer, name)), np.asarray(value)):
                    setattr(layer, name, value)

    def clear(self) -> None:
        """Empty pictures for a new start; nothing is said about them, either."""
        for layer in self.all():
            for note in (TABLE_AXES, MADE_BY, SETTLED, VERDICT):
                layer.metadata.pop(note, None)
            if isinstance(layer, NapariLabels) and len(layer.features):
                layer.features = None
            if layer.multiscale:
                for level in layer.data:
                    level.values = np.zeros_like(level.values)
            else:
                layer.data[...] = 0
            self._refresh(layer)
            if isinstance(layer, Labels):
                layer.update_thumbnail()

    def _add_outlines(
        self, position: Position, image: LayerPicture, kind: Kind, outlines: OutlinedLabels | None, **look: Any
    ) -> Labels:
        data = self._data(position, image)
        return self._add_labels(data, kind, opacity=1.0, contour=THICK, outlined=outlines, **look)

    def _add_labels(self, data: Any, kind: Kind, **look: Any) -> Labels:
        layer: Labels = self._under_selection(partial(add_labels, self.viewer), data, kind, **look)
        return layer

    def _under_selection(self, add: Any, data: Any, kind: Kind, **look: Any) -> Any:
        """Add a layer; only the segmentation itself becomes the selected one, since that is what a person paints on.

        A person who edits the regions stays there.
        """
        active = self.viewer.layers.selection.active
        selected = self.labels if self.regions is None or active is not self.regions else active
        look["name"] = f"{self.name} [{'GSW' if kind == 'segmentation' else kind}]"
        look["metadata"] = make_metadata(kind, self._notes(kind))
        with warnings.catch_warnings():
            # napari's first colours of a process are out of gamut, which is nobody's business
            warnings.filterwarnings("ignore", "Conversion from CIE-LAB")
            layer = add(data, **self.source.geometry(), **look)
        layer.metadata[RESULT_OF] = make_origin(self.source, layer)
        if self.beside:
            self._put_beside(layer)
        if selected is not None and selected in self.viewer.layers:
            self.viewer.layers.selection.active = selected
        return layer

    def _notes(self, kind: Kind) -> dict[str, Any]:
        named = kind in ("segmentation", "regions")
        return {IMAGE_NAME: self.name, SLICED_ALONG: self.source.stack_label_axes} if named else {}

    def _put_beside(self, layer: Layer) -> None:
        layers = self.viewer.layers
        if self.source.layer in layers:
            group = [
                layers.index(one) for one in (self.source.layer, *self.all()) if one in layers and one is not layer
            ]
            layers.move(layers.index(layer), max(group) + 1)
            layer.visible = self.source.layer.visible

    def _refresh(self, layer: Layer) -> None:
        """Show a layer's data again, and leave the list of layers alone.

        It would be painted anew for any event of a layer, though nothing of it has changed, and the whole window with
        it: two thirds as much work as the picture is.
        """
        if layer.visible:
            with self.viewer.layers.events.blocker_all():
                layer.refresh(thumbnail=False, extent=False, highlight=False)
