"""The settings form: one section for each part of the model, and what a run would begin with."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

from napari.layers import Image
from qtpy.QtCore import QObject, Signal
from qtpy.QtWidgets import QFormLayout, QWidget

from napari_gsw.core.errors import InputError
from napari_gsw.core.features.input_maps import MAP_NAMES
from napari_gsw.core.model.priors import PartitionPrior, Truncated, make_prior
from napari_gsw.core.pipeline.prepare import (
    NETWORK_SECTIONS,
    NETWORK_SETTINGS,
    can_use_object_network,
    is_replaced_by_network,
)
from napari_gsw.core.settings import MIN_REGION_PIXELS, Settings, setting_fields
from napari_gsw.core.settings.presets import DEFAULT_PRESET, preset
from napari_gsw.widgets.common.layer_choosers import LayerCombo
from napari_gsw.widgets.common.layouts import Section, make_form
from napari_gsw.widgets.common.setting_widgets import SettingWidget, display_text
from napari_gsw.widgets.common.text import format_count
from napari_gsw.widgets.layers.image_source import ImageSource, describe_maps
from napari_gsw.widgets.layers.layer_metadata import is_image, is_labels

# Priors with limits have no formula, only a sum that grows with the square of the number of sites: up to so many it is
# computed at once, up to so many in the background (some seconds), and for more nothing is shown.
AT_ONCE, MAX_IN_BACKGROUND = 300, 2_000


class ClusterEstimate(QObject):  # type: ignore[misc]
    """The number of clusters that a prior expects, at once or later (signal `answered`)."""

    answered = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        # The last question (prior, sites) of the background, with its answer once it is there.
        self._answers: dict[tuple[PartitionPrior, int], float | None] = {}
        self._is_busy = False

    def clusters(self, settings: Settings, sites: int) -> float | None:
        """Get the prior mean of the number of clusters; None where it is unknown, or not known yet."""
        try:
            prior = make_prior(settings)
        except InputError:  # the form shows the reason
            return None
        # The first answer of a process loads what it is computed with, which takes longer than a few sites do.
        if not isinstance(prior, Truncated) or (sites <= AT_ONCE and self._answers):
            return _expect_clusters(prior, sites)
        question = (prior, sites)
        answer = self._answers.get(question)
        if question not in self._answers and sites <= MAX_IN_BACKGROUND and not self._is_busy:
            self._is_busy = True
            # A thread of its own: those of Qt are as many as there are cores, and a run would wait for one.
            threading.Thread(target=self._answer, args=question, name="gsw-forecast", daemon=True).start()
        return answer

    def _answer(self, prior: PartitionPrior, sites: int) -> None:
        self._answers = {(prior, sites): _expect_clusters(prior, sites)}
        self._is_busy = False
        with suppress(RuntimeError):  # the panel is gone
            self.answered.emit()


def _expect_clusters(prior: PartitionPrior, sites: int) -> float | None:
    try:
        return prior.expected_clusters(sites)
    except InputError:  # it allows no partition
        return None


# Title and tooltip of each section.
SECTION_TITLES = {
    "superpixels": ("Superpixels", "How the image is divided into superpixels"),
    "features": ("Features", "Image features used by the likelihood"),
    "prior": ("Prior", "How many clusters are expected, and of what sizes"),
    "coupling": ("Coupling", "How strongly neighbouring superpixels prefer the same cluster"),
    "evidence": ("Evidence", "Input maps from other software: features, boundaries, foreground"),
    "sampler": ("Sampler", "MCMC moves and run length: they affect convergence, not the posterior"),
    "result": ("Result", "Which segmentation is reported, as clusters, regions or objects"),
}
# Layers beside the image: section, title, tooltip and text of none.
INPUT_LAYERS = {
    "sites": (
        "superpixels", "Layer", "Make them",
        "A Labels layer of superpixels, for example from the Superpixels widget; pixels with label 0 are left out",
    ),
    "features": (
        "evidence", "Features", "None",
        "An image layer with any number of channels on its first or last axis: deep features, filters",
    ),
    "boundaries": (
        "evidence", "Boundaries", "None",
        "An image layer that is large where a boundary is probable: it separates or joins neighbours",
    ),
    "foreground": (
        "evidence", "Foreground", "None",
        "An image layer that is large where the foreground is probable; the background becomes label 1",
    ),
}  # fmt: skip
# Texts of the headings.
FEATURES = {
    "words": "colour words",
    "luminance": "{bins} bins of brightness",
    "gaussian": "channel values",
    "none": "nothing but maps",
}
COUPLINGS = {"constant": "", "learnt": "learnt, "}
# Controls that stand beside what they are about, and not in the sections.
PLACED_BY_PANEL = ("steering", "painted_detail", "only_painted")
# Stands in the sections whose settings have no effect where a network finds the objects.
BY_NETWORK = "The network that looks for the objects settles this. <i>Objects by: Classical</i> has more to set."
PRESET_TIPS = {
    "general": "Any image; nothing is learnt from annotated images",
    "photo": "Photographs: couplings learnt from boundaries that annotators drew",
    "microscopy": "Nuclei and other objects on a background: fluorescence or stains, in 2D or 3D",
    "membranes": "Cells between dark membranes in electron micrographs: couplings learnt from such images",
    "paper": "As published by Xu, Caron and Doucet",
}


class SettingsForm(QObject):  # type: ignore[misc]
    """A control for every setting except the axes of the image, and choosers of layers of superpixels and maps.

    It makes the sections, which the panel places. Its values are a dictionary of the settings that have a control, and
    of the `preset` that was chosen last.
    """

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.preset = DEFAULT_PRESET
        self.sections: dict[str, Section] = {}
        self.controls: dict[str, SettingWidget] = {}
        self.layouts: dict[str, QFormLayout] = {}
        self._is_filling = False
        self._is_flat = False  # the image is 2D, alone and in memory, so that a network can use it
        self._network_lines: list[QWidget] = []
        self.forecast = ClusterEstimate(self)
        initial = preset(self.preset)
        for name, (title, tip) in SECTION_TITLES.items():
            section = self.sections[name] = Section(title, tip, f"settings.md#{name}")
            if name in NETWORK_SECTIONS:
                self._network_lines.append(section.add_line(BY_NETWORK))
            self.layouts[name] = make_form()
            section.content.addLayout(self.layouts[name])
        for name, setting in setting_fields().items():
            layout = self.layouts.get(setting.section)
            if layout is not None or name in PLACED_BY_PANEL:
                control = self.controls[name] = SettingWidget(name, getattr(initial, name))
                control.changed.connect(self._edited)
            if layout is not None:
                layout.addRow(control.title, control)
                layout.labelForField(control).setToolTip(control.toolTip())
        self.inputs: dict[str, LayerCombo] = {}
        for name, (section_name, title, none, tip) in INPUT_LAYERS.items():
            self.inputs[name] = LayerCombo(tip, is_labels if name == "sites" else is_image, [(none, None)])
            row = MAP_NAMES.index(name) if name in MAP_NAMES else 0
            self.layouts[section_name].insertRow(row, title, self.inputs[name])
        for name in MAP_NAMES:
            self.inputs[name].chosen.connect(self._edited)
        self.map_line = self.sections["evidence"].add_line("")
        self.map_line.setVisible(False)
        self.sections["evidence"].set_summary("the image alone")
        self._show_active_rows()

    def settings(self, **more: Any) -> Settings:
        """Get the settings, with those of the preset that have no control; an InputError if they contradict."""
        return preset(self.preset, **{name: control.value() for name, control in self.controls.items()}, **more)

    def values(self) -> dict[str, Any]:
        return {"preset": self.preset} | {name: control.value() for name, control in self.controls.items()}

    def preset_values(self, name: str) -> dict[str, Any]:
        return {**preset(name).to_dict(), "preset": name}

    def put(self, values: dict[str, Any]) -> None:
        self.preset, self._is_filling = values["preset"], True
        for name, control in self.controls.items():
            control.set_value(values[name])
        self._is_filling = False
        self._edited()

    def differences(self) -> list[str]:
        """List the settings that differ from the preset."""
        base = preset(self.preset)
        return [name for name, control in self.controls.items() if control.value() != getattr(base, name)]

    def maps(self) -> dict[str, Image]:
        return {name: self.inputs[name].value() for name in MAP_NAMES if self.inputs[name].value() is not None}

    def check_maps(self, source: ImageSource, settings: Settings) -> None:
        """Describe the maps; raise an InputError if one of them does not fit the image."""
        maps = self.maps()
        names = ", ".join(f"{name} {layer.name}" for name, layer in maps.items())
        self.sections["evidence"].set_summary(names or "the image alone")
        self.map_line.setVisible(bool(maps))
        self.map_line.setText("")
        self.map_line.setText(describe_maps(source, maps, settings) if maps else "")

    def _edited(self) -> None:
        if not self._is_filling:
            self._show_active_rows()
            self.changed.emit()

    def set_flat(self, flat: bool) -> None:
        if flat != self._is_flat:
            self._is_flat = flat
            self._show_active_rows()

    def _uses_network(self, settings: Settings) -> bool:
        """Return whether a network finds the objects; input maps are for what it replaces."""
        return self._is_flat and can_use_object_network(settings) and not self.maps()

    def _show_active_rows(self) -> None:
        """Show only the settings that have an effect beside the others."""
        try:
            uses_network = self._uses_network(self.settings())
        except InputError:  # the panel shows the reason
            uses_network = False
        # Rows that come or go are placed at the end: Qt would lay out the whole window for each of them.
        for section in self.sections.values():
            section.content.setEnabled(False)
        for line in self._network_lines:
            line.setVisible(uses_network)
        for name, control in self.controls.items():
            shown = self._is_active(name)
            if uses_network:
                shown = (shown or name in NETWORK_SETTINGS) and not is_replaced_by_network(name)
            if name not in PLACED_BY_PANEL and control.isVisibleTo(control.parentWidget()) != shown:
                self.layouts[setting_fields()[name].section].setRowVisible(control, shown)
        for section in self.sections.values():
            section.content.setEnabled(True)

    def _is_active(self, name: str) -> bool:
        """Return whether a setting has an effect beside the others, which need not go together."""
        other, allowed = setting_fields()[name].active_if or ("", ())
        if not other:
            return True
        value = self.controls[other].value()
        return self._is_active(other) and (value in allowed if allowed else bool(value))

    def summarize(self, n_pixels: int | None, n_sites: int | None, sites_from: str) -> str:
        """Describe each section in its heading, and return a sentence about the start of a run.

        The number of sites is known once they are made, and estimated from the pixels before; `sites_from` is the name
        of the layer that holds them, if one does.
        """
        try:
            now = self.settings()
        except InputError:  # which is on the screen already
            for name in set(self.sections) - {"evidence"}:  # which names the chosen layers
                self.sections[name].set_summary("")
            return ""
        is_counted = n_sites is not None
        uses_network = self._uses_network(now)
        if n_sites is None and n_pixels is not None and not uses_network:
            n_sites = now.site_count_for(n_pixels)
        mean = None if n_sites is None or uses_network else self.forecast.clusters(now, n_sites)
        sites = "" if n_sites is None else f"{'' if is_counted else 'about '}{n_sites:,} sites"
        clusters = "" if mean is None else format_count(round(mean), "cluster")
        method = [f"from {sites_from}"] if sites_from else []
        if not is_counted and not sites_from:
            size = [f"{now.site_size:,} pixels each"] if now.site_count is None else []
            method = [*size, display_text(now.superpixels)]
        features = FEATURES[now.likelihood].format(bins=now.bins)
        if now.texture_words:
            features += f", {now.texture_words} texture words"
        number = f"α {now.alpha:g}" if now.prior != "potts" else f"K {now.K}"
        prior = f"{display_text(now.prior).lower().replace(' k', ' K')}, {number}"
        sampler = display_text(now.sampler)
        if now.is_active("lam"):
            sampler += f", λ {now.lam:g}"
        elif now.is_active("bond"):
            sampler += f", bonds up to {now.bond:g}"
        if now.chains > 1:
            sampler += f", {now.chains} chains"
        result = f"{'best state' if now.consensus == 'none' else 'consensus'}, {now.view}"
        min_region = MIN_REGION_PIXELS if now.min_region is None else now.min_region
        if min_region and now.view != "clusters":
            result += f" of {min_region:,} pixels or more"
        texts = {
            "superpixels": ", ".join(filter(None, [sites, *method])),
            "features": features,
            "prior": f"expects {clusters}: {prior}" if clusters else prior,
            "coupling": f"{COUPLINGS.get(now.coupling, f'by {now.coupling}, ')}β {now.beta:g}",
            "sampler": sampler,
            "result": result,
        }
        if uses_network:
            fragments = f"{n_sites:,} fragments of objects" if is_counted else "fragments of objects"
            texts["superpixels"] = fragments + (f", from {sites_from}" if sites_from else "")
            texts |= {"features": "what the network sees", "prior": "any number of objects"}
            texts["coupling"] = "learnt, by the network"
        for section, text in texts.items():
            self.sections[section].set_summary(text)
        return f"{sites.capitalize()}; the prior expects {clusters}." if sites and clusters else ""
