"""How many clusters the prior expects, without keeping the window waiting."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from napari.layers import Image, Layer
from qtpy.QtCore import QObject, Signal
from qtpy.QtWidgets import QFormLayout, QLabel, QWidget

from napari_gsw.core.errors import InputError
from napari_gsw.core.features.input_maps import MAP_NAMES
from napari_gsw.core.model.priors import PartitionPrior, Truncated, make_prior
from napari_gsw.core.pipeline.prepare_objects import (
    NETWORK_SECTIONS,
    NETWORK_SETTINGS,
    can_use_object_network,
    is_replaced_by_network,
)
from napari_gsw.core.settings import Settings, setting_fields
from napari_gsw.core.settings.presets import DEFAULT_PRESET, preset
from napari_gsw.core.settings.sampler import MIN_REGION_PIXELS
from napari_gsw.widgets.common.collapsible import Section
from napari_gsw.widgets.common.layer_choosers import LayerCombo
from napari_gsw.widgets.common.setting_widgets import SettingWidget, display_text, setting_title
from napari_gsw.widgets.layers.image_source import ImageSource
from napari_gsw.widgets.layers.layer_metadata import is_image
from napari_gsw.widgets.layers.map_layers import describe_maps

# Of priors with limits there is no formula, only a sum that grows with the square of the number of sites: up to so many
# it is done while one waits, up to so many in the background (some seconds), and of more nothing is said.
AT_ONCE, MAX_IN_BACKGROUND = 300, 2_000

Question = tuple[PartitionPrior, int]


class ClusterEstimate(QObject):  # type: ignore[misc]
    """Answers at once, or later.

    Signals
    -------
    answered : what could not be said at once is known now.
    """

    answered = Signal()
    _worked_out = Signal(object, object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._worked_out.connect(self._keep)  # in the window's thread
        self._answers: dict[Question, float | None] = {}
        self._under_way = False

    def clusters(self, settings: Settings, sites: int) -> float | None:
        """The prior mean of the number of clusters among so many sites; None where it is not known, or not yet."""
        try:
            prior = make_prior(settings)
        except InputError:  # refused elsewhere, with its reason
            return None
        # The first answer of a process loads what it is computed with, which takes longer than a few sites do.
        if not isinstance(prior, Truncated) or (sites <= AT_ONCE and self._answers):
            return expected_clusters(prior, sites)
        question = (prior, sites)
        if question not in self._answers and sites <= MAX_IN_BACKGROUND and not self._under_way:
            self._under_way = True
            # A thread of its own: those of Qt are as many as there are cores, and a run would wait for one.
            threading.Thread(target=self._work, args=question, name="gsw-forecast", daemon=True).start()
        return self._answers.get(question)

    def _work(self, prior: PartitionPrior, sites: int) -> None:
        answer = expected_clusters(prior, sites)
        with suppress(RuntimeError):  # the panel is gone
            self._worked_out.emit((prior, sites), answer)

    def _keep(self, question: Question, answer: float | None) -> None:
        self._under_way = False
        self._answers = {question: answer}
        self.answered.emit()


def expected_clusters(prior: PartitionPrior, sites: int) -> float | None:
    """How many clusters a prior expects of so many sites; None where it forbids them all."""
    try:
        return prior.expected_clusters(sites)
    except InputError:
        return None


MAP_TIPS = {
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
        for row, name in enumerate(MAP_NAMES):
            combo = self.combos[name] = LayerCombo(is_image, [("None", None)])
            combo.setToolTip(MAP_TIPS[name])
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

    def check(self, source: ImageSource, settings: Settings) -> None:
        """Say what is recognised of the maps; an InputError if one does not fit the image."""
        self.describe(source, self.layers(), settings)

    def describe(self, source: ImageSource | None, maps: dict[str, Image], settings: Settings) -> None:
        self.section.set_summary(", ".join(f"{name} {layer.name}" for name, layer in maps.items()) or "the image alone")
        self.line.setText("")
        self.line.setVisible(bool(maps))
        if source is not None and maps:
            self.line.setText(describe_maps(source, maps, settings))


TITLES = {
    "superpixels": "Superpixels",
    "features": "Features",
    "prior": "Prior",
    "coupling": "Coupling",
    "evidence": "Evidence",
    "sampler": "Sampler",
    "result": "Result",
}
# Controls that the panel places elsewhere, beside what they are about.
LENT = ("steering", "painted_detail", "only_painted")
HELP = {
    "superpixels": "How the image is cut into the sites that are sampled",
    "features": "What the model sees of a site",
    "prior": "How many clusters are expected, and of what sizes",
    "coupling": "How strongly neighbouring sites want to share a cluster",
    "evidence": "Maps of other programs beside the image: features, boundaries, foreground",
    "sampler": "How the chain moves; it does not change where it settles",
    "result": "What is made of the states of the chain: which partition, which view of it",
}


# What stands in sections whose settings a network takes the place of, where it looks for the objects.
BY_NETWORK = "The network that looks for the objects settles this. <i>Objects by: Classical</i> has more to set."

# What each preset is for.
PURPOSE = {
    "general": "Any image, without anything learnt from people.",
    "photo": "Photographs: couplings learnt from the boundaries that people draw.",
    "microscopy": "Nuclei and other objects on a background: fluorescence or stains, in 2D or 3D.",
    "membranes": "Cells between dark membranes in electron micrographs: couplings learnt from such pictures.",
    "paper": "As published by Xu, Caron and Doucet.",
}


class RunEstimate(NamedTuple):
    """What a run would begin with, as far as it is known.

    Attributes
    ----------
    sites : number of sites, or None; `counted` whether they have been made already, so that it is exact.
    clusters : how many clusters the prior expects of so many sites; None where it is not known.
    """

    sites: int | None
    counted: bool
    clusters: float | None


class FormValues(NamedTuple):
    """What is in the form: the preset that was chosen last, and the value of every control."""

    preset: str
    values: dict[str, Any]


class SettingsForm(QObject):  # type: ignore[misc]
    """The controls of every setting but the image's axes, in one section each part of the model.

    Signals
    -------
    changed : a setting has changed.

    Attributes
    ----------
    preset : name of the preset that the user has chosen last.
    sections : by name, for the panel to place.
    layouts : the rows of each section.
    forecast : what the prior expects.
    """

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.preset = DEFAULT_PRESET
        self.sections: dict[str, Section] = {}
        self.controls: dict[str, SettingWidget] = {}
        self.layouts: dict[str, QFormLayout] = {}
        self._rows: dict[str, tuple[QFormLayout, QWidget]] = {}
        self._filling = False
        self._flat = False
        self._network_lines: list[QWidget] = []
        self.forecast = ClusterEstimate(self)
        start = preset(self.preset)
        for section, words in TITLES.items():
            folding = self.sections[section] = Section(words, HELP[section], f"settings.md#{section}")
            layout = self.layouts[section] = QFormLayout()
            layout.setContentsMargins(0, 0, 0, 0)
            layout.setHorizontalSpacing(8)
            layout.setVerticalSpacing(4)
            layout.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
            if section in NETWORK_SECTIONS:
                self._network_lines.append(folding.add_line(BY_NETWORK))
            folding.content.addLayout(layout)
            for name, setting in setting_fields().items():
                if setting.section == section:
                    control = self.controls[name] = SettingWidget(name, setting, getattr(start, name))
                    layout.addRow(setting_title(name, setting), control)
                    label = layout.labelForField(control)
                    label.setToolTip(control.toolTip())
                    self._rows[name] = (layout, control)
                    control.changed.connect(self._touched)
        self.maps = MapRows(self.sections["evidence"], self.layouts["evidence"], self)
        self.maps.changed.connect(self._touched)
        for name in LENT:
            control = self.controls[name] = SettingWidget(name, setting_fields()[name], getattr(start, name))
            control.changed.connect(self._touched)
        self._arrange()

    def settings(self, **more: Any) -> Settings:
        """The settings as they stand; an InputError says which of them do not go together."""
        values = {name: control.value() for name, control in self.controls.items()}
        return preset(self.preset, **values, **more)  # which also sets what has no control

    def choose_preset(self, name: str) -> None:
        """Set every control as a preset says."""
        self.preset = name
        self.fill(preset(name))

    def fill(self, settings: Settings) -> None:
        self.put(FormValues(self.preset, {name: getattr(settings, name) for name in self.controls}))

    def filling(self) -> FormValues:
        """What is in it now."""
        return FormValues(self.preset, {name: control.value() for name, control in self.controls.items()})

    def put(self, filling: FormValues) -> None:
        """Set every control at once."""
        self.preset, self._filling = filling.preset, True
        for name, control in self.controls.items():
            control.set_value(filling.values[name])
        self._filling = False
        self._touched()

    def set_flat(self, flat: bool) -> None:
        """Whether the image that is chosen is one that a network can look at: flat, alone and in memory."""
        if flat != self._flat:
            self._flat = flat
            self._arrange()

    def _by_network(self, settings: Settings) -> bool:
        """Whether a network is to look for the objects; maps beside the image are for what it stands in for."""
        return self._flat and can_use_object_network(settings) and not self.maps.layers()

    def differences(self) -> list[str]:
        """Settings that differ from the chosen preset and matter."""
        base = preset(self.preset)
        now = {name: control.value() for name, control in self.controls.items()}
        return [name for name, value in now.items() if value != getattr(base, name)]

    def expectation(self, pixels: int | None, sites: int | None = None) -> RunEstimate:
        """What the settings make one expect.

        Parameters
        ----------
        pixels : of the image, or None if it does not say how many sites there will be.
        sites : their number, once they have been made.
        """
        now = self.settings()
        counted = sites is not None
        by_network = self._by_network(now)
        if sites is None and pixels is not None and not by_network:
            sites = now.site_count_for(pixels)
        clusters = None if sites is None or by_network else self.forecast.clusters(now, sites)
        return RunEstimate(sites, counted, clusters)

    def summarise(self, expectation: RunEstimate, sites_from: str = "") -> None:
        """Show in each section's head what it holds; `sites_from` names the layer that the superpixels come from."""
        now = self.settings()
        texts = summaries(now, expectation, sites_from)
        if self._by_network(now):
            texts |= network_summaries(expectation, sites_from)
        for section, text in texts.items():
            self.sections[section].set_summary(text)

    def summarise_nothing(self) -> None:
        """The settings do not go together, so that there is nothing to say about them."""
        for name, section in self.sections.items():
            if name != "evidence":  # which says which layers were chosen
                section.set_summary("")

    def _touched(self) -> None:
        if not self._filling:
            self._arrange()
            self.changed.emit()

    def _arrange(self) -> None:
        """Show only what has an effect beside the other settings."""
        try:
            by_network = self._by_network(self.settings())
        except InputError:  # said elsewhere
            by_network = False
        with self._laid_out_once():
            for line in self._network_lines:
                line.setVisible(by_network)
            for name, (layout, control) in self._rows.items():
                shown = not is_replaced_by_network(name) and (name in NETWORK_SETTINGS or self._counts(name))
                shown = shown if by_network else self._counts(name)
                if control.isVisibleTo(control.parentWidget()) != shown:
                    layout.setRowVisible(control, shown)

    @contextmanager
    def _laid_out_once(self) -> Iterator[None]:
        """Rows that appear or go in here are placed in the end: Qt would lay out the whole window for each of them."""
        contents = [section.content for section in self.sections.values()]
        for content in contents:
            content.setEnabled(False)
        try:
            yield
        finally:
            for content in contents:
                content.setEnabled(True)

    def _counts(self, name: str) -> bool:
        """Whether a setting has any effect beside the others, which need not go together."""
        active_if = setting_fields()[name].active_if
        if active_if is None:
            return True
        other, allowed = active_if
        value = self.controls[other].value()
        return self._counts(other) and (value in allowed if allowed else bool(value))


def preset_tip(name: str) -> str:
    """What a preset is for; what it sets can be read in the sections."""
    return PURPOSE[name]


def count_sites(expectation: RunEstimate) -> str:
    """The number of sites in words; nothing if it is not known.

    >>> count_sites(Expectation(1200, False, 8.0)), count_sites(Expectation(1187, True, 8.0))
    ('about 1,200 sites', '1,187 sites')
    """
    if expectation.sites is None:
        return ""
    return f"{'' if expectation.counted else 'about '}{expectation.sites:,} sites"


def count_clusters(expectation: RunEstimate) -> str:
    """The number of clusters in words; nothing if it is not known.

    >>> count_clusters(Expectation(1200, False, 8.4)), count_clusters(Expectation(1200, False, 1.2))
    ('8 clusters', '1 cluster')
    """
    if expectation.clusters is None:
        return ""
    return f"{expectation.clusters:.0f} cluster{'s' * (round(expectation.clusters) != 1)}"


def network_summaries(expectation: RunEstimate, sites_from: str = "") -> dict[str, str]:
    """One line for each section that a network stands in for."""
    number = f"{expectation.sites:,} " if expectation.counted else ""
    return {
        "superpixels": f"{number}fragments of objects" + (f", from {sites_from}" if sites_from else ""),
        "features": "what the network sees",
        "prior": "any number of objects",
        "coupling": "learnt, by the network",
    }


def summaries(now: Settings, expectation: RunEstimate, sites_from: str = "") -> dict[str, str]:
    """One line for each section."""
    texts = {}
    how = [f"{now.site_size:,} pixels each"] if now.site_count is None else []
    how.append(display_text(now.superpixels))
    if expectation.counted or sites_from:
        how = [f"from {sites_from}"] if sites_from else []
    texts["superpixels"] = ", ".join(filter(None, [count_sites(expectation), *how]))
    first = {"words": "colour words", "luminance": f"{now.bins} bins of brightness", "gaussian": "channel values"}
    first["none"] = "nothing but maps"
    texture = f", {now.texture_words} texture words" if now.texture_words else ""
    texts["features"] = first[now.likelihood] + texture
    number = f"α {now.alpha:g}" if now.prior != "potts" else f"K {now.K}"
    line = f"{display_text(now.prior).lower().replace(' k', ' K')}, {number}"
    clusters = count_clusters(expectation)
    texts["prior"] = f"expects {clusters}: {line}" if clusters else line
    kind = {"constant": "", "learnt": "learnt, "}.get(now.coupling, f"by {now.coupling}, ")
    texts["coupling"] = f"{kind}β {now.beta:g}"
    moves = (
        f", λ {now.lam:g}" if now.is_active("lam") else f", bonds up to {now.bond:g}" if now.is_active("bond") else ""
    )
    chains = f", {now.chains} chains" if now.chains > 1 else ""
    texts["sampler"] = f"{display_text(now.sampler)}{moves}{chains}"
    which = "best state" if now.consensus == "none" else "consensus"
    least = MIN_REGION_PIXELS if now.min_region is None else now.min_region
    small = f" of {least:,} pixels or more" if least and now.view != "clusters" else ""
    texts["result"] = f"{which}, {now.view}{small}"
    return texts
