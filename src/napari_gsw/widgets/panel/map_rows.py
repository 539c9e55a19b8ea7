"""Maps as evidence: which layers are features, boundaries and foreground, and what is recognised of them."""

from __future__ import annotations

from collections.abc import Iterable

from napari.layers import Image, Layer
from qtpy.QtCore import QObject, Signal
from qtpy.QtWidgets import QFormLayout, QLabel

from napari_gsw.core.evidence.given_maps import MAPS
from napari_gsw.core.settings import Settings
from napari_gsw.widgets.kit.layer_combo import LayerCombo
from napari_gsw.widgets.kit.section import Section
from napari_gsw.widgets.layers.kinds import is_image
from napari_gsw.widgets.layers.map_layers import recognised
from napari_gsw.widgets.layers.source import Source

TIPS = {
    "features": "An image layer with any number of channels, on its first or last axis: deep features, filters",
    "boundaries": "An image layer that is large where a boundary is probable; it pulls neighbours together and apart",
    "foreground": "An image layer that is large where the foreground is probable; the background becomes label 1",
}


class MapRows(QObject):  # type: ignore[misc]
    """The choosers of the section *Evidence*, above its settings, and a line that says what was recognised.

    Signals
    -------
    changed : another layer.
    """

    changed = Signal()

    def __init__(self, section: Section, layout: QFormLayout, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.section = section
        self.combos: dict[str, LayerCombo] = {}
        for row, name in enumerate(MAPS):
            combo = self.combos[name] = LayerCombo(is_image, [("None", None)])
            combo.setToolTip(TIPS[name])
            combo.chosen.connect(self.changed)
            layout.insertRow(row, name.capitalize(), combo)
        self.line: QLabel = section.add_line("")
        self.describe(None, {}, Settings())

    def layers(self) -> dict[str, Image]:
        """The layers that were chosen, by the names of the maps."""
        return {name: combo.value() for name, combo in self.combos.items() if combo.value() is not None}

    def follow(self, layers: Iterable[Layer]) -> None:
        """List the layers as they are now."""
        for combo in self.combos.values():
            combo.follow(list(layers))

    def check(self, source: Source, settings: Settings) -> None:
        """Say what is recognised of the maps; an InputError if one does not fit the image."""
        self.describe(source, self.layers(), settings)

    def describe(self, source: Source | None, maps: dict[str, Image], settings: Settings) -> None:
        self.section.set_summary(", ".join(f"{name} {layer.name}" for name, layer in maps.items()) or "the image alone")
        self.line.setText("")
        self.line.setVisible(bool(maps))
        if source is not None and maps:
            self.line.setText(recognised(source, maps, settings))
