"""Result layers of several images: each image has its own, all with the same numbers and colours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import napari
import numpy as np
from napari.layers import Labels, Layer
from numpy.typing import NDArray

from napari_gsw.core.posterior.label_table import Columns
from napari_gsw.widgets.layers.image_source import ImageListSource, Position
from napari_gsw.widgets.layers.layer_metadata import Kind
from napari_gsw.widgets.layers.lazy_labels import OutlinedLabels
from napari_gsw.widgets.layers.result_layers import LayerPicture, ResultLayers


class ImageListLayers:
    """To whoever draws the same as :class:`ResultLayers`: a stack is written, and each image gets its slice of it.

    Attributes
    ----------
    members : the layers of each image.
    """

    def __init__(self, viewer: napari.Viewer, source: ImageListSource) -> None:
        self.viewer, self.source = viewer, source
        self.members = [ResultLayers(viewer, one, beside=True) for one in source.members]

    # ---- what there is; of one layer, that of the image that a person is at

    def _here(self) -> ResultLayers:
        active = self.viewer.layers.selection.active
        groups = ((one, (one.source.layer, *one.all())) for one in self.members)
        return next((one for one, group in groups if any(active is x for x in group)), self.members[0])

    @property
    def labels(self) -> Labels | None:
        return self._here().labels

    @property
    def regions(self) -> Labels | None:
        return self._here().regions

    @property
    def sites(self) -> Labels | None:
        return self._here().sites

    @property
    def label_layers(self) -> list[Labels]:
        return [layer for one in self.members for layer in one.label_layers]

    def all(self) -> list[Layer]:
        return [layer for one in self.members for layer in one.all()]

    def pictures(self, name: str) -> list[Layer]:
        return [layer for one in self.members for layer in one.pictures(name)]

    def find_name(self, layer: Layer) -> str | None:
        return next((name for one in self.members if (name := one.find_name(layer)) is not None), None)

    def labels_at(self, position: Position) -> NDArray[np.uint16]:
        stack = np.zeros(self.source.space, np.uint16)
        for number, one in enumerate(self.members):
            if one.labels is not None:
                self.source.plane(stack, number)[...] = one.labels_at(())
        return stack

    def path_at(self, layer: Layer, path: NDArray[np.float64], position: Position) -> NDArray[np.float64]:
        number = next(k for k, one in enumerate(self.members) if layer is one.labels)
        points = self.members[number].source.path_at(path, ())
        return np.concatenate((np.full((len(points), 1), float(number)), points), axis=1)

    def fits(self, layer: Layer) -> bool:
        return any(one.fits(layer) for one in self.members if layer is one.labels)

    def centre_view(self, position: Position, image: NDArray[Any], value: int) -> None:
        number = int(np.argwhere(image == value)[0, 0])
        one = self.members[number]
        one.centre_view((), self.source.plane(image, number), value)
        if one.labels is not None:
            self.viewer.layers.selection.active = one.labels

    def forget(self, layer: Layer) -> None:
        for one in self.members:
            one.forget(layer)

    # ---- drawing

    @contextmanager
    def _same_selection(self) -> Iterator[None]:
        """A layer that is added does not take a person away from the image that he is at."""
        active = self.viewer.layers.selection.active
        was_there = bool(self.label_layers)
        yield
        if was_there and active is not None and active in self.viewer.layers:
            self.viewer.layers.selection.active = active

    def _planes(self, image: Any) -> Iterator[tuple[ResultLayers, NDArray[Any]]]:
        with self._same_selection():
            for number, one in enumerate(self.members):
                yield one, self.source.plane(image, number)

    def show_labels(self, position: Position, labels: LayerPicture) -> None:
        for one, plane in self._planes(labels):
            one.show_labels((), plane)

    def show_uncertainty(self, name: Kind, position: Position, image: LayerPicture) -> None:
        for one, plane in self._planes(image):
            one.show_uncertainty(name, (), plane)

    def set_convergence(self, has_converged: bool, verdict: str) -> None:
        for one in self.members:
            one.set_convergence(has_converged, verdict)

    def show_locks(self, position: Position, locked: LayerPicture, outlines: OutlinedLabels | None = None) -> None:
        for one, plane in self._planes(locked):
            one.show_locks((), plane)

    def show_sites(self, position: Position, sites: Any) -> None:
        for one, plane in self._planes(sites):
            one.show_sites((), plane)

    def show_regions(self, position: Position, regions: LayerPicture, outlines: OutlinedLabels | None = None) -> None:
        """Outlines; several images are not edited this way."""
        for one, plane in self._planes(regions):
            one.show_regions((), plane)
            if one.regions is not None:
                one.regions.editable = False

    def show_question(self, position: Position, image: NDArray[np.uint16]) -> None:
        for one, plane in self._planes(image):
            one.show_question((), plane)

    def hide_question(self) -> None:
        for one in self.members:
            one.hide_question()

    def remove_question(self) -> None:
        for one in self.members:
            one.remove_question()

    def show_table(self, tables: list[dict[str, NDArray[Any]]]) -> None:
        for one in self.members:
            one.show_table(tables)

    def show_region_table(self, tables: list[tuple[Position, list[Columns]]]) -> None:
        for number, one in enumerate(self.members):
            one.show_region_table([(position, [several[number]]) for position, several in tables])

    def set_outline_colour(self, ink: str) -> None:
        for one in self.members:
            one.set_outline_colour(ink)

    def reuse_layers(self, given: Sequence[Layer] = ()) -> None:
        for one in self.members:
            one.reuse_layers(given)

    def place(self) -> None:
        for one in self.members:
            one.place()

    def clear(self) -> None:
        for one in self.members:
            one.clear()


def make_result_layers(viewer: napari.Viewer, source: Any) -> ResultLayers | ImageListLayers:
    """Where the results of a source are shown."""
    return ImageListLayers(viewer, source) if isinstance(source, ImageListSource) else ResultLayers(viewer, source)
