"""The settings form: one section for each part of the model, and what a run would begin with."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, NamedTuple

from napari.layers import Image, Layer
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
from napari_gsw.widgets.layers.image_source import ImageSource
from napari_gsw.widgets.layers.layer_metadata import is_image
from napari_gsw.widgets.layers.map_layers import describe_maps

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
            return expected_clusters(prior, sites)
        question = (prior, sites)
        answer = self._answers.get(question)
        if question not in self._answers and sites <= MAX_IN_BACKGROUND and not self._is_busy:
            self._is_busy = True
            # A thread of its own: those of Qt are as many as there are cores, and a run would wait for one.
            threading.Thread(target=self._answer, args=question, name="gsw-forecast", daemon=True).start()
        return answer

    def _answer(self, prior: PartitionPrior, sites: int) -> None:
        self._answers = {(prior, sites): expected_clusters(prior, sites)}
        self._is_busy = False
        with suppress(RuntimeError):  # the panel is gone
            self.answered.emit()


def expected_clusters(prior: PartitionPrior, sites: int) -> float | None:
    """Compute how many clusters a prior expects among so many sites; None where it allows no partition."""
    try:
        return prior.expected_clusters(sites)
    except InputError:
        return None


MAP_TIPS = {
    "features": "An image layer with any number of channels on its first or last axis: deep features, filters",
    "boundaries": "An image layer that is large where a boundary is probable: it separates or joins neighbours",
    "foreground": "An image layer that is large where the foreground is probable; the background becomes label 1",
}


class MapRows(QObject):  # type: ignore[misc]
    """The layer choosers of the section *Evidence*, and a line that describes the maps; signal `changed`."""

    changed = Signal()

    def __init__(self, section: Section, layout: QFormLayout, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.section = section
        self.combos = {name: LayerCombo(MAP_TIPS[name], is_image, [("None", None)]) for name in MAP_NAMES}
        for row, (name, combo) in enumerate(self.combos.items()):
            combo.chosen.connect(self.changed)
            layout.insertRow(row, name.capitalize(), combo)
        self.line = section.add_line("")
        self.line.setVisible(False)
        section.set_summary("the image alone")

    def layers(self) -> dict[str, Image]:
        return {name: combo.value() for name, combo in self.combos.items() if combo.value() is not None}

    def follow(self, layers: Iterable[Layer]) -> None:
        for combo in self.combos.values():
            combo.follow(list(layers))

    def check(self, source: ImageSource, settings: Settings) -> None:
        """Describe the maps; raise an InputError if one of them does not fit the image."""
        maps = self.layers()
        self.section.set_summary(", ".join(f"{name} {layer.name}" for name, layer in maps.items()) or "the image alone")
        self.line.setText("")
        self.line.setVisible(bool(maps))
        if maps:
            self.line.setText(describe_maps(source, maps, settings))


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
# Controls that the panel places elsewhere, beside what they are about.
LENT = ("steering", "painted_detail", "only_painted")
# Stands in the sections whose settings have no effect where a network finds the objects.
BY_NETWORK = "The network that looks for the objects settles this. <i>Objects by: Classical</i> has more to set."
PRESET_TIPS = {
    "general": "Any image; nothing is learnt from annotated images",
    "photo": "Photographs: couplings learnt from boundaries that annotators drew",
    "microscopy": "Nuclei and other objects on a background: fluorescence or stains, in 2D or 3D",
    "membranes": "Cells between dark membranes in electron micrographs: couplings learnt from such images",
    "paper": "As published by Xu, Caron and Doucet",
}


class RunEstimate(NamedTuple):
    """Start of the next run; None where a number is unknown."""

    sites: int | None
    counted: bool  # the sites have been made, so that their number is exact
    clusters: float | None  # that the prior expects

    def count_sites(self) -> str:
        """Format the number of sites.

        >>> RunEstimate(1200, False, 8.0).count_sites(), RunEstimate(1187, True, 8.0).count_sites()
        ('about 1,200 sites', '1,187 sites')
        """
        return "" if self.sites is None else f"{'' if self.counted else 'about '}{self.sites:,} sites"

    def count_clusters(self) -> str:
        return "" if self.clusters is None else format_count(round(self.clusters), "cluster")

    def describe(self) -> str:
        """Describe what a run would begin with.

        >>> RunEstimate(1000, False, 18.2).describe()
        'About 1,000 sites; the prior expects 18 clusters.'
        """
        if self.sites is None or self.clusters is None:
            return ""
        return f"{self.count_sites().capitalize()}; the prior expects {self.count_clusters()}."


class FormValues(NamedTuple):
    """The preset that was chosen last, and the value of every control."""

    preset: str
    values: dict[str, Any]


class SettingsForm(QObject):  # type: ignore[misc]
    """A control for every setting except the axes of the image; the signal `changed` tells of new values.

    It makes the sections, which the panel places.
    """

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.preset = DEFAULT_PRESET  # which was chosen last
        self.sections: dict[str, Section] = {}
        self.controls: dict[str, SettingWidget] = {}
        self.layouts: dict[str, QFormLayout] = {}
        self._rows: dict[str, tuple[QFormLayout, QWidget]] = {}
        self._is_filling = False
        self._is_flat = False  # the image is 2D, alone and in memory, so that a network can use it
        self._network_lines: list[QWidget] = []
        self.forecast = ClusterEstimate(self)
        self._initial = preset(self.preset)
        for name, (title, tip) in SECTION_TITLES.items():
            self._add_section(name, title, tip)
        self.maps = MapRows(self.sections["evidence"], self.layouts["evidence"], self)
        self.maps.changed.connect(self._edited)
        for name in LENT:
            self._add_control(name)
        self._show_active_rows()

    def _add_section(self, name: str, title: str, tip: str) -> None:
        section = self.sections[name] = Section(title, tip, f"settings.md#{name}")
        layout = self.layouts[name] = make_form()
        if name in NETWORK_SECTIONS:
            self._network_lines.append(section.add_line(BY_NETWORK))
        section.content.addLayout(layout)
        for setting_name, setting in setting_fields().items():
            if setting.section == name:
                control = self._add_control(setting_name)
                layout.addRow(control.title, control)
                layout.labelForField(control).setToolTip(control.toolTip())
                self._rows[setting_name] = (layout, control)

    def _add_control(self, name: str) -> SettingWidget:
        control = self.controls[name] = SettingWidget(name, getattr(self._initial, name))
        control.changed.connect(self._edited)
        return control

    def settings(self, **more: Any) -> Settings:
        """Get the settings; raise an InputError where they contradict each other."""
        return preset(self.preset, **self.values().values, **more)  # which also sets what has no control

    def values(self) -> FormValues:
        return FormValues(self.preset, {name: control.value() for name, control in self.controls.items()})

    def choose_preset(self, name: str) -> None:
        settings = preset(name)
        self.put(FormValues(name, {control: getattr(settings, control) for control in self.controls}))

    def put(self, values: FormValues) -> None:
        self.preset, self._is_filling = values.preset, True
        for name, control in self.controls.items():
            control.set_value(values.values[name])
        self._is_filling = False
        self._edited()

    def set_flat(self, flat: bool) -> None:
        if flat != self._is_flat:
            self._is_flat = flat
            self._show_active_rows()

    def _uses_network(self, settings: Settings) -> bool:
        """Return whether a network finds the objects; input maps are for what it replaces."""
        return self._is_flat and can_use_object_network(settings) and not self.maps.layers()

    def differences(self) -> list[str]:
        base = preset(self.preset)
        return [name for name, control in self.controls.items() if control.value() != getattr(base, name)]

    def estimate(self, pixels: int | None, sites: int | None = None) -> RunEstimate:
        """Estimate what a run begins with, from the pixels of the image or the number of sites once they are made."""
        now, counted = self.settings(), sites is not None
        uses_network = self._uses_network(now)
        if sites is None and pixels is not None and not uses_network:
            sites = now.site_count_for(pixels)
        clusters = None if sites is None or uses_network else self.forecast.clusters(now, sites)
        return RunEstimate(sites, counted, clusters)

    def summarize(self, estimate: RunEstimate, sites_from: str = "") -> None:
        now = self.settings()
        texts = summarize_sections(now, estimate, sites_from)
        if self._uses_network(now):
            number = f"{estimate.sites:,} " if estimate.counted else ""
            texts["superpixels"] = f"{number}fragments of objects" + (f", from {sites_from}" if sites_from else "")
            texts |= {"features": "what the network sees", "prior": "any number of objects"}
            texts["coupling"] = "learnt, by the network"
        for section, text in texts.items():
            self.sections[section].set_summary(text)

    def clear_summaries(self) -> None:
        for name, section in self.sections.items():
            if name != "evidence":  # which names the chosen layers
                section.set_summary("")

    def _edited(self) -> None:
        if not self._is_filling:
            self._show_active_rows()
            self.changed.emit()

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
        for name, (layout, control) in self._rows.items():
            shown = self._is_active(name)
            if uses_network:
                shown = (shown or name in NETWORK_SETTINGS) and not is_replaced_by_network(name)
            if control.isVisibleTo(control.parentWidget()) != shown:
                layout.setRowVisible(control, shown)
        for section in self.sections.values():
            section.content.setEnabled(True)

    def _is_active(self, name: str) -> bool:
        """Return whether a setting has an effect beside the others, which need not go together."""
        other, allowed = setting_fields()[name].active_if or ("", ())
        if not other:
            return True
        value = self.controls[other].value()
        return self._is_active(other) and (value in allowed if allowed else bool(value))


FEATURES = {
    "words": "colour words",
    "luminance": "{bins} bins of brightness",
    "gaussian": "channel values",
    "none": "nothing but maps",
}
COUPLINGS = {"constant": "", "learnt": "learnt, "}


def summarize_sections(now: Settings, estimate: RunEstimate, sites_from: str = "") -> dict[str, str]:
    """Describe each section in one line."""
    if estimate.counted or sites_from:
        method = [f"from {sites_from}"] if sites_from else []
    else:
        size = [f"{now.site_size:,} pixels each"] if now.site_count is None else []
        method = [*size, display_text(now.superpixels)]
    features = FEATURES[now.likelihood].format(bins=now.bins)
    if now.texture_words:
        features += f", {now.texture_words} texture words"
    number = f"α {now.alpha:g}" if now.prior != "potts" else f"K {now.K}"
    prior = f"{display_text(now.prior).lower().replace(' k', ' K')}, {number}"
    if estimate.clusters is not None:
        prior = f"expects {estimate.count_clusters()}: {prior}"
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
    return {
        "superpixels": ", ".join(filter(None, [estimate.count_sites(), *method])),
        "features": features,
        "prior": prior,
        "coupling": f"{COUPLINGS.get(now.coupling, f'by {now.coupling}, ')}β {now.beta:g}",
        "sampler": sampler,
        "result": result,
    }
