"""Layers that were just opened: which of them the panel takes, and what for."""

from __future__ import annotations

from typing import Any

from napari.layers import Image, Labels, Layer
from qtpy.QtCore import QObject, QTimer

from napari_gsw.core.presets import PRESETS
from napari_gsw.sample_data import STROKES, SUITS
from napari_gsw.widgets.kit.layer_combo import LayerCombo
from napari_gsw.widgets.kit.link import Link
from napari_gsw.widgets.layers.kinds import SUPERPIXELS_OF, is_image
from napari_gsw.widgets.panel.image_chooser import ImageChooser
from napari_gsw.widgets.panel.preset_row import PresetRow
from napari_gsw.widgets.session.session import Session


class Newcomers(QObject):  # type: ignore[misc]
    """Chooses an image that was just opened, the preset that a sample says suits it, its superpixels and its strokes.

    Parameters
    ----------
    session : what is worked on; while a run is on, nothing is taken.
    chooser, presets, sites, seeds : where the choices are made.
    """

    def __init__(
        self, session: Session, chooser: ImageChooser, presets: PresetRow, sites: LayerCombo, seeds: LayerCombo,
        link: Link,
    ) -> None:  # fmt: skip
        super().__init__()
        self._session, self._chooser, self._presets = session, chooser, presets
        self._sites, self._seeds = sites, seeds
        # Runs until the window has come to rest after an image was opened.
        self._opened = QTimer(self)
        self._opened.setSingleShot(True)
        link.stop_at_end(self._opened)

    def take(self, event: Any) -> None:
        """Hear of a change of the list of layers, once every list of choices has followed it."""
        if event is None or event.type != "inserted":
            return
        new: Layer = event.value
        if is_image(new) and not self._session.orders.sampling and not self._opened.isActive():
            self._opened.start(0)  # of several that are opened together the first is meant
            strokes, before = self._seeds.value(), self._chooser.image.value()
            other_shape = before is not None and before.data.shape != new.data.shape
            if strokes is not None and (strokes.metadata.get(STROKES) or other_shape):
                self._seeds.choose(None)  # they are on another image; no run could begin with them
            self._chooser.image.choose(new)
            self.suit(new)
        elif isinstance(new, Labels):
            image = self._chooser.image.value()
            of_image = image is not None and new.metadata.get(SUPERPIXELS_OF) == str(image.unique_id)
            if of_image and self._session.may("form"):
                self._sites.choose(new)
            elif new.metadata.get(STROKES) and not self._session.orders.sampling:
                self._seeds.choose(new)

    def suit(self, image: Image | None) -> None:
        """Choose the preset that an image itself asks for, as those among the samples do."""
        wanted = "" if image is None else str(image.metadata.get(SUITS, ""))
        if wanted in PRESETS and not self._session.orders.sampling:
            self._presets.choose(wanted)
