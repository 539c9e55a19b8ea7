"""Layers of the results: made once where the image is, then written in place."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Sequence
from typing import Any

import napari
import numpy as np
import pandas as pd
from napari.layers import Image, Layer
from napari.utils.colormaps import label_colormap
from napari.utils.transforms import Affine
from numpy.typing import NDArray

from napari_gsw.core.pipeline.segment import Preview
from napari_gsw.core.posterior.region_table import Columns
from napari_gsw.core.sites.blocked_labels import BlockedLabels
from napari_gsw.widgets.common.setting_widgets import get_preference
from napari_gsw.widgets.layers import layer_metadata as notes
from napari_gsw.widgets.layers import lazy_labels
from napari_gsw.widgets.layers.cursor import centre_view
from napari_gsw.widgets.layers.image_source import ImageSource, Position, finest_level
from napari_gsw.widgets.layers.layer_metadata import TABLE_AXES, Kind, get_layer_kind, make_metadata
from napari_gsw.widgets.layers.lazy_labels import THICK, Labels, LazySiteImage, add_labels

# An image in memory, or one whose parts are made when they are displayed.
LayerImage = NDArray[Any] | LazySiteImage
UNCERTAINTY_IMAGES: tuple[Kind, ...] = ("boundary", "entropy")
# Types of the arrays of layers that a later run writes to again. 16 bits are displayed as they are.
DTYPES: dict[Kind, Any] = {
    "segmentation": np.uint16, "regions": np.uint16, "locked": np.uint16, "superpixels": np.int32,
    "boundary": np.float32, "entropy": np.float32,
}  # fmt: skip
OUTLINED: tuple[Kind, ...] = ("regions", "superpixels")
TOGGLED: tuple[Kind, ...] = (*OUTLINED, *UNCERTAINTY_IMAGES)  # by check boxes of the panel
OUTLINE: dict[str, Any] = {"opacity": 1.0, "contour": THICK}
ON_TOP = {**OUTLINE, "blending": "translucent_no_depth"}  # visible on any colour
# Styles of new layers. Yellow is the superpixel that is asked about, cyan are those that would follow it.
STYLES: dict[Kind, dict[str, Any]] = {
    "regions": OUTLINE,
    "boundary": {"colormap": "magma", "contrast_limits": (0, 1), "blending": "additive", "opacity": 1.0},
    "entropy": {"colormap": "viridis", "contrast_limits": (0, 1), "blending": "translucent", "opacity": 0.7},
    "superpixels": {"opacity": 0.6, "contour": 1},
    "locked": {**ON_TOP, "colormap": lazy_labels.make_colormap("white")},
    "question": {**ON_TOP, "colormap": lazy_labels.make_colormap("yellow", "cyan")},
}


class ResultLayers:
    """Labels, regions, uncertainty, locks and superpixels of one source.

    Each of several images has layers of its own, with the same labels and colours. What is drawn is a stack of them,
    and each image gets its slice. Where one layer is meant, it is that of the image which the user is at.
    """

    def __init__(self, viewer: napari.Viewer, source: ImageSource) -> None:
        self.viewer, self.source = viewer, source
        # The layers of each image by their kinds.
        self._layers: list[dict[str, Any]] = [{} for _ in source.members]
        self._outline_colour = "own"
        self._levels: list[BlockedLabels] | None = None
        self._preview: Preview | None = None

    # ---- which layers there are

    def _of_current_image(self, kind: Kind) -> Any:
        active = self.viewer.layers.selection.active
        for source, layers in zip(self.source.members, self._layers, strict=True):
            if active is not None and any(active is layer for layer in (source.layer, *layers.values())):
                return layers.get(kind)
        return self._layers[0].get(kind)

    labels = property(lambda self: self._of_current_image("segmentation"))
    regions = property(lambda self: self._of_current_image("regions"))
    locks = property(lambda self: self._of_current_image("locked"))

    def all(self) -> list[Layer]:
        return [layer for layers in self._layers for layer in layers.values()]

    def of_kind(self, *kinds: str) -> list[Any]:
        return [layers[kind] for kind in kinds for layers in self._layers if kind in layers]

    @property
    def label_layers(self) -> list[Labels]:
        return self.of_kind("segmentation")

    def _find_number(self, layer: Layer) -> int:
        return next((k for k, layers in enumerate(self._layers) if layer in layers.values()), 0)

    def forget(self, layer: Layer) -> None:
        self._layers = [{kind: known for kind, known in x.items() if known is not layer} for x in self._layers]

    def fits(self, layer: Layer) -> bool:
        """Return whether the array of a layer of ours can still be written to."""
        source = self.source.members[self._find_number(layer)]
        return _can_hold(layer, source, "segmentation") and not layer.multiscale

    def reuse_layers(self, inputs: Sequence[Layer] = ()) -> None:
        """Write to the layers that an earlier run on the same source has left, after clearing them.

        A dock may have been closed and opened, or another image segmented meanwhile. Layers of another part of the
        image, or along other axes, stay, as do the `inputs` of a run.
        """
        for source, layers in zip(self.source.members, self._layers, strict=True):
            for kind, layer in itertools.product(DTYPES, self.viewer.layers):
                is_ours = layer.metadata.get(notes.RESULT_OF) == _make_origin(source, layer)
                is_free = get_layer_kind(layer) == kind and kind not in layers and layer not in inputs
                if is_ours and is_free and _can_hold(layer, source, kind):
                    layers[kind] = layer
                    self._prepare_layer(layer, source, kind)
        self.clear()
        self.move_to_image()

    def _prepare_layer(self, layer: Layer, source: ImageSource, kind: Kind) -> None:
        layer.metadata[notes.RESULT_OF] = _make_origin(source, layer)
        layer.metadata.update(_make_notes(source, kind))
        if kind in ("question", "regions"):
            layer.editable = kind == "regions" and not (layer.multiscale or self.source.is_image_list)
        if kind in OUTLINED:
            self._colour(layer)

    # ---- reading

    def labels_at(self, position: Position) -> NDArray[np.uint16]:
        stack = np.zeros(self.source.space, np.uint16)
        for (source, at, plane), layers in zip(self.source.split(position, stack), self._layers, strict=True):
            if "segmentation" in layers:
                plane[...] = layers["segmentation"].data[source.index(at)]
        return stack

    def path_at(self, layer: Layer, path: NDArray[np.float64], position: Position) -> NDArray[np.float64]:
        """Return the points of a path on a layer that lie at a position, in pixels of the segmented array."""
        number = self._find_number(layer)
        points = self.source.members[number].path_at(path, position)
        return np.insert(points, 0, number, axis=1) if self.source.is_image_list else points

    def centre_view(self, position: Position, image: NDArray[Any], value: int) -> None:
        for (source, at, plane), layers in zip(self.source.split(position, image), self._layers, strict=True):
            labels = layers.get("segmentation")
            if labels is not None and (plane == value).any():
                centre_view(self.viewer, labels, source.index(at), plane, value)
                if self.source.is_image_list:
                    self.viewer.layers.selection.active = labels
                return

    # ---- writing

    def show_labels(self, position: Position, labels: LayerImage) -> None:
        self.show("segmentation", position, labels)

    def show_sites(self, position: Position, sites: NDArray[np.int32] | BlockedLabels) -> None:
        image: LayerImage = sites  # type: ignore[assignment]
        if isinstance(sites, BlockedLabels):
            n_sites = max(int(numbers.max()) for numbers in sites.numbers)
            image = LazySiteImage(sites, np.arange(n_sites + 1, dtype=np.int32))
        self.show("superpixels", position, image)

    def show_question(self, position: Position, image: NDArray[np.uint16]) -> None:
        """Outline the superpixel that is asked about (1) and those that would follow it (2), and nothing else."""
        self.hide_question()
        self.show("question", position, image)

    def hide_question(self) -> None:
        for layer in self.of_kind("question"):
            layer.data[...] = 0
            self._refresh(layer)

    def remove(self, kind: Kind) -> None:
        for layer in self.of_kind(kind):
            self.forget(layer)
            if layer in self.viewer.layers:
                self.viewer.layers.remove(layer)

    def show_preview(self, position: Position, preview: Preview | None) -> bool:
        """Show coarse labels in a layer that is never selected, or remove it; return False if they are not new."""
        if preview is self._preview:
            return False
        self._preview = preview
        self.remove("preview")
        if preview is not None:
            index = self.source.index(position)
            axes = [axis for axis, part in enumerate(index) if isinstance(part, slice)]
            shape = np.array(self.source.label_shape)
            shape[axes] = preview.labels.shape
            data = np.zeros(shape, np.uint16)
            data[index] = preview.labels
            style = self._make_style(self.source, "preview") | make_coarse_geometry(self.source, axes, preview.step)
            self._layers[0]["preview"] = add_labels(self.viewer, data, select=False, **style)
            self._layers[0]["preview"].editable = False
        return True

    def show(self, kind: Kind, position: Position, image: LayerImage) -> None:
        """Write an array to the layers of a kind, which are made when they are first needed.

        Only the first labels become the selected layer, which the user paints on. With one image, a user who edits the
        regions stays there; with several, the user stays where they are.
        """
        active, is_first = self.viewer.layers.selection.active, not self.label_layers
        stays = self.source.is_image_list or (active is not None and active is self.regions)
        selected = active if stays else self.labels
        for (source, at, part), layers in zip(self.source.split(position, image), self._layers, strict=True):
            layer = layers.get(kind)
            if layer is None and (kind != "locked" or part.any()):
                layers[kind] = self._add(kind, source, at, part)
                if not is_first and selected is not None and selected in self.viewer.layers:
                    self.viewer.layers.selection.active = selected
            elif layer is not None:
                self._write(layer, source, at, part)

    def _make_style(self, source: ImageSource, kind: Kind) -> dict[str, Any]:
        style: dict[str, Any] = {"name": f"{source.layer.name} [{'GSW' if kind == 'segmentation' else kind}]"}
        style |= {
            "opacity": float(get_preference("opacity")),
            "metadata": make_metadata(kind, _make_notes(source, kind)),
        }
        return {**style, **source.geometry(), **STYLES.get(kind, {})}

    def _add(self, kind: Kind, source: ImageSource, position: Position, image: LayerImage) -> Layer:
        data, style = self._make_data(source, position, image), self._make_style(source, kind)
        with warnings.catch_warnings():
            # napari's first colours of a process are out of gamut, which does not matter.
            warnings.filterwarnings("ignore", "Conversion from CIE-LAB")
            if kind in UNCERTAINTY_IMAGES:
                layer = self.viewer.add_image(data, **style)
            else:
                layer = add_labels(self.viewer, data, **style)
        self._prepare_layer(layer, source, kind)
        layers = self.viewer.layers
        if self.source.is_image_list and source.layer in layers:  # above its image in the list, and as visible
            own = (source.layer, *self._layers[self.source.members.index(source)].values())
            layers.move(layers.index(layer), max(layers.index(x) for x in own if x in layers) + 1)
            layer.visible = source.layer.visible
        return layer

    def _make_data(self, source: ImageSource, position: Position, image: LayerImage) -> Any:
        """Make the data of a new layer: an array with the image at its position, or levels that are made lazily."""
        if isinstance(image, LazySiteImage):
            if self._levels is None or self._levels[0] is not image.sites:
                self._levels = lazy_labels.make_site_levels(image.sites)
            return lazy_labels.make_image_levels(image, self._levels, len(source.label_shape) - image.ndim)
        data = np.zeros(source.label_shape, image.dtype)
        data[source.index(position)] = image
        return data

    def _write(self, layer: Layer, source: ImageSource, position: Position, image: LayerImage) -> None:
        """Write in place: the layer keeps its look, and nothing is sliced that is not displayed."""
        if not isinstance(image, LazySiteImage):
            layer.data[source.index(position)] = image
        elif layer.data[0].sites is not image.sites or layer.data[0].dtype != image.dtype:
            layer.data = self._make_data(source, position, image)
            return
        else:
            for level in layer.data:
                level.values = image.values
        self._refresh(layer)

    def _refresh(self, layer: Layer) -> None:
        """Show the data of a layer again.

        For any event of a layer the list of layers would be painted anew, and the whole window with it: two thirds as
        much work as the image.
        """
        if layer.visible:
            with self.viewer.layers.events.blocker_all():
                layer.refresh(thumbnail=False, extent=False, highlight=False)

    def set_outline_colour(self, name: str) -> None:
        if name != self._outline_colour:
            self._outline_colour = name
            for layer in self.of_kind(*OUTLINED):
                self._colour(layer)

    def _colour(self, layer: Layer) -> None:
        """Give outlines the chosen colour, or colours of their own to those that had it."""
        if self._outline_colour != "own":
            layer.colormap = lazy_labels.make_colormap(self._outline_colour)
        elif len(layer.colormap.colors) == 2:  # of 0 and of all others
            layer.colormap = label_colormap(49)  # as napari does

    def move_to_image(self) -> None:
        for source, layers in zip(self.source.members, self._layers, strict=True):
            geometry = source.geometry()
            for layer in [layer for kind, layer in layers.items() if kind != "preview"]:
                for name, value in geometry.items():
                    if not np.array_equal(np.asarray(getattr(layer, name)), np.asarray(value)):
                        setattr(layer, name, value)

    def clear(self) -> None:
        """Clear the layers, their tables and their notes, for a new start."""
        for layer in self.all():
            for note in (TABLE_AXES, notes.MADE_BY, notes.SETTLED, notes.VERDICT):
                layer.metadata.pop(note, None)
            if not isinstance(layer, Image) and len(layer.features):
                layer.features = None
            if layer.multiscale:
                for level in layer.data:
                    level.values = np.zeros_like(level.values)
            else:
                layer.data[...] = 0
            self._refresh(layer)
            if isinstance(layer, Labels):
                layer.update_thumbnail()

    # ---- notes and tables

    def set_convergence(self, has_converged: bool, verdict: str) -> None:
        for layer in self.of_kind(*UNCERTAINTY_IMAGES):
            layer.metadata.update({notes.SETTLED: has_converged, notes.VERDICT: verdict})

    def show_table(self, tables: list[dict[str, NDArray[Any]]]) -> None:
        """Set the table of clusters as the features of the labels, which napari shows under the mouse."""
        table = pd.concat([pd.DataFrame(columns) for columns in tables], ignore_index=True)
        # napari shows one row of a label; in a stack that is its largest region.
        table = table.sort_values("pixels", ascending=False).drop_duplicates("index").sort_values("index")
        for layer in self.label_layers:
            layer.features = table.reset_index(drop=True)

    def show_region_table(self, tables: list[tuple[Position, list[Columns]]]) -> None:
        """Set the tables of the outlined labels, or else of the filled ones: for each position one for each image."""
        for number, (source, layers) in enumerate(zip(self.source.members, self._layers, strict=True)):
            layer, regions = layers.get("segmentation"), layers.get("regions")
            if regions is not None and regions.visible:
                layer = regions
            elif regions is not None and "index" in regions.features.columns:
                regions.features = None  # nobody writes to it while it is hidden: it may be of another state
            if layer is None:
                continue
            if not tables:
                layer.metadata.pop(TABLE_AXES, None)
                layer.features = None
                continue
            layer.metadata[TABLE_AXES] = source.label_axes.lower()
            rows = [(position, columns[number]) for position, columns in tables]
            layer.features = pd.DataFrame(stack_tables(self.source.stack_letters, rows))


def stack_tables(letters: Sequence[str], tables: Sequence[tuple[Position, Columns]]) -> Columns:
    """Concatenate the tables of some positions, with a column for each axis of the stack.

    A column that the table of a position lacks, as where a network saw the objects of other positions alone, is filled
    with 0, an empty text or NaN.

    >>> stack_tables(["t"], [((0,), {"index": np.array([1, 2])}), ((5,), {"index": np.array([1])})])
    {'t': array([0, 0, 5]), 'index': array([1, 2, 1])}
    """
    if not tables:
        return {}
    counts = [len(columns["index"]) for _, columns in tables]
    stacked: Columns = {
        letter: np.repeat([position[axis] for position, _ in tables], counts) for axis, letter in enumerate(letters)
    }
    for name in dict.fromkeys(name for _, columns in tables for name in columns):
        dtype = next(columns[name].dtype for _, columns in tables if name in columns)
        missing = 0 if dtype.kind in "iub" else "" if dtype.kind in "UO" else np.nan
        columns = [
            columns.get(name, np.full(n, missing, dtype)) for (_, columns), n in zip(tables, counts, strict=True)
        ]
        stacked[name] = np.concatenate(columns)
    return stacked


def _make_notes(source: ImageSource, kind: Kind) -> dict[str, Any]:
    if kind in ("segmentation", "regions"):
        return {notes.IMAGE_NAME: source.layer.name, notes.SLICED_ALONG: source.stack_label_axes}
    return {}


def _make_origin(source: ImageSource, layer: Layer) -> tuple[str, str]:
    """Return what marks a layer as made for a source; a copy of the layer has the mark of the original."""
    return repr(source.key), str(layer.unique_id)


def _can_hold(layer: Layer, source: ImageSource, kind: Kind) -> bool:
    """Return whether results of a source can be written to a layer, which the user may have given other data."""
    data = finest_level(layer)
    if layer.multiscale != source.is_chunked or tuple(data.shape) != tuple(source.label_shape):
        return False
    is_writeable = layer.multiscale or (isinstance(data, np.ndarray) and data.flags.writeable)
    return bool(is_writeable and data.dtype == DTYPES[kind])


def make_coarse_geometry(source: ImageSource, axes: list[int], step: int) -> dict[str, Any]:
    """Return keywords that place a layer of every `step`-th pixel along some axes where the source is."""
    geometry = source.geometry()
    offset, scale = np.zeros(len(geometry["scale"])), np.array(geometry["scale"], dtype=float)
    offset[axes] = (step - 1) / 2  # the centre of the first block
    turn = {name: geometry[name] for name in ("rotate", "shear") if name in geometry}
    shift = np.asarray(Affine(scale=scale, **turn).linear_matrix) @ offset
    scale[axes] *= step
    return {**geometry, "scale": scale, "translate": np.asarray(geometry["translate"]) + shift}
