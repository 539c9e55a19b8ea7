"""All settings as controls in sections, made from the declaration; presets set them at a stroke."""

from __future__ import annotations

from typing import Any

from qtpy.QtCore import QObject, Signal
from qtpy.QtWidgets import QFormLayout, QWidget

from napari_gsw.core.model.priors import from_settings
from napari_gsw.core.presets import DEFAULT_PRESET, PRESETS, preset
from napari_gsw.core.settings import Settings, declarations
from napari_gsw.widgets.kit.section import Section
from napari_gsw.widgets.kit.setting_control import Control, spoken, title

TITLES = {
    "superpixels": "Superpixels",
    "features": "Features",
    "prior": "Prior",
    "coupling": "Coupling",
    "sampler": "Sampler",
    "result": "Result",
}
HELP = {
    "superpixels": "How the image is cut into the sites that are sampled",
    "features": "What the model sees of a site",
    "prior": "How many clusters are expected, and of what sizes",
    "coupling": "How strongly neighbouring sites want to share a cluster",
    "sampler": "How the chain moves; it does not change where it settles",
    "result": "What is made of the states of the chain: which partition, which view of it",
}


# What each preset is for.
PURPOSE = {
    "general": "Any image, without anything learnt from people.",
    "photo": "Photographs: couplings learnt from the boundaries that people draw.",
    "microscopy": "Nuclei and other objects on a background: fluorescence or stains, in 2D or 3D.",
    "paper": "As published by Xu, Caron and Doucet.",
}


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
    """

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.preset = DEFAULT_PRESET
        self.sections: dict[str, Section] = {}
        self.controls: dict[str, Control] = {}
        self.layouts: dict[str, QFormLayout] = {}
        self._rows: dict[str, tuple[QFormLayout, QWidget]] = {}
        self._filling = False
        start = preset(self.preset)
        for section, words in TITLES.items():
            made = self.sections[section] = Section(words, HELP[section])
            layout = self.layouts[section] = QFormLayout()
            layout.setContentsMargins(0, 0, 0, 0)
            layout.setHorizontalSpacing(8)
            layout.setVerticalSpacing(4)
            layout.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
            made.content.addLayout(layout)
            for name, setting in declarations().items():
                if setting.section == section:
                    control = self.controls[name] = Control(name, setting, getattr(start, name))
                    layout.addRow(title(name, setting), control)
                    label = layout.labelForField(control)
                    label.setToolTip(control.toolTip())
                    self._rows[name] = (layout, control)
                    control.changed.connect(self._touched)
        self._arrange()

    def settings(self, **more: Any) -> Settings:
        """The settings as they stand; an InputError says which of them do not go together."""
        return Settings(**{name: control.value() for name, control in self.controls.items()}, **more)

    def choose_preset(self, name: str) -> None:
        """Set every control as a preset says."""
        self.preset = name
        self.fill(preset(name))

    def fill(self, settings: Settings) -> None:
        self._filling = True
        for name, control in self.controls.items():
            control.set_value(getattr(settings, name))
        self._filling = False
        self._touched()

    def differences(self) -> list[str]:
        """Settings that differ from the chosen preset and matter."""
        base = preset(self.preset)
        now = {name: control.value() for name, control in self.controls.items()}
        return [name for name, value in now.items() if value != getattr(base, name)]

    def summarise(self, sites: int | None) -> None:
        """Tell in each section's head what it holds; `sites` is their number as far as it is known."""
        now = self.settings()
        for section, text in summaries(now, sites).items():
            self.sections[section].set_summary(text)

    def _touched(self) -> None:
        if not self._filling:
            self._arrange()
            self.changed.emit()

    def _arrange(self) -> None:
        """Show only what has an effect beside the other settings."""
        values = {name: control.value() for name, control in self.controls.items()}
        for name, (layout, control) in self._rows.items():
            setting, shown = declarations()[name], True
            while setting.when is not None and shown:
                other, allowed = setting.when
                shown = values[other] in allowed if allowed else bool(values[other])
                setting = declarations()[other]
            if control.isVisibleTo(control.parentWidget()) != shown:
                layout.setRowVisible(control, shown)


def preset_tip(name: str) -> str:
    """What a preset sets, in words."""
    words = ", ".join(f"{title(k, declarations()[k]).lower()} {v}" for k, v in PRESETS[name].items())
    return f"{PURPOSE.get(name, '')}\n{words}; the rest as by default.".strip()


def expected_clusters(settings: Settings, sites: int) -> float | None:
    """How many clusters the prior expects of so many sites; None where it forbids them all."""
    try:
        return from_settings(settings).expected_clusters(sites)
    except Exception:  # a combination that is refused elsewhere, with its reason
        return None


def summaries(now: Settings, sites: int | None) -> dict[str, str]:
    """One line for each section."""
    texts = {}
    count = "" if sites is None else f"about {sites:,} sites, "
    size = f"{now.site_size:,} pixels each, " if now.site_count is None else ""
    texts["superpixels"] = f"{count}{size}{spoken(now.superpixels)}"
    first = {"words": "colour words", "luminance": f"{now.bins} luminance bins", "gaussian": "Gaussian channels"}
    texture = f", {now.texture_words} texture words" if now.texture_words else ""
    texts["features"] = first[now.likelihood] + texture
    number = f"α {now.alpha:g}" if now.prior != "potts" else f"K {now.K}"
    line = f"{spoken(now.prior)}, {number}"
    if sites is not None and (expected := expected_clusters(now, sites)) is not None:
        line = f"expects {expected:.0f} cluster{'s' * (round(expected) != 1)}: {line}"
    texts["prior"] = line
    kind = "" if now.coupling == "constant" else f"by {now.coupling}, "
    texts["coupling"] = f"{kind}β {now.beta:g}"
    moves = f", λ {now.lam:g}" if now.matters("lam") else f", bonds up to {now.bond:g}" if now.matters("bond") else ""
    chains = f", {now.chains} chains" if now.chains > 1 else ""
    texts["sampler"] = f"{spoken(now.sampler)}{moves}{chains}"
    which = "best state" if now.consensus == "none" else f"consensus ({spoken(now.consensus)})"
    small = f" of {now.min_region:,} pixels or more" if now.min_region and now.view != "clusters" else ""
    texts["result"] = f"{which}, {now.view}{small}"
    return texts
