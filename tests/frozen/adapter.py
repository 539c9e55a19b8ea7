"""The only place of these tests that knows internal names: a run that a person corrects, saved and restored."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

import napari_gsw as gsw
from napari_gsw.core.interactive.interactive_run import InteractiveRun, replay_run
from napari_gsw.core.pipeline.saved_run import attach_image
from napari_gsw.core.posterior import object_edits
from napari_gsw.core.sampler import bonds
from napari_gsw.core.sites.scribbles import make_scribble

__all__ = ["Run", "bonds", "neutral_state"]


class Run:
    """An interactive run of one array: the actions of a person by names that stay."""

    def __init__(self, inner: InteractiveRun, image: Any = None, given: dict[str, Any] | None = None) -> None:
        self._inner, self._image, self._given = inner, image, given or {}
        if image is not None and not hasattr(image, "chunks"):  # sites of a lazy image are never split
            self._inner.rebuild_problem = self._cut_sites

    @classmethod
    def begin(cls, image: Any, settings: gsw.Settings, seed: int, seeds: Any = None, **given: Any) -> Run:
        """Prepare an image (an array or a list) and start its chains."""
        problem = _problem(image, settings, {**given, "seeds": seeds})
        given = given if seeds is None else {**given, "seeds": seeds}
        return cls(InteractiveRun(problem, settings, seed, seeds), image, given)

    @classmethod
    def restore(cls, saved: gsw.SavedRun, image: Any = None) -> Run:
        """Continue a saved run."""
        return cls(InteractiveRun.restore(_complete(saved, image)), image, dict(saved.given))

    @classmethod
    def replay(cls, saved: gsw.SavedRun, image: Any) -> Run:
        """Repeat all actions of a saved run from its start."""
        given = {name: value for name, value in saved.given.items() if name != "seeds"}
        saved = _complete(saved, image)
        remake = cls(InteractiveRun.restore(saved), image, given)._cut_sites
        return cls(replay_run(saved, remake), image, given)

    def save(self) -> gsw.SavedRun:
        """Freeze the run as it is now."""
        self._inner.image, self._inner.inputs = self._image, self._given
        return self._inner.save()

    def _cut_sites(self, sites: Any, strokes: Any) -> Any:
        given = {name: value for name, value in self._given.items() if name not in ("seeds", "init")}
        return _problem(self._image, self._inner.settings, {**given, "sites": sites, "seeds": strokes})

    # ---- sampling

    def go(self, sweeps: int) -> None:
        """Make exactly so many sweeps."""
        end = self._inner.sweep + sweeps
        while self._inner.sweep < end:
            self._inner.advance(end - self._inner.sweep)

    def start(self, sweeps: int) -> None:
        """Set the target without sampling."""
        self._inner.run_for(sweeps)

    def run(self, sweeps: int) -> None:
        """Set the target and sample up to it."""
        self.start(sweeps)
        self.finish()

    def finish(self) -> None:
        """Sample up to the target."""
        while self._inner.sweep < self._inner.target:
            self._inner.advance()

    def wake(self) -> None:
        """Let a run at rest settle after a correction."""
        self._inner.resume_after_correction()
        self.finish()

    # ---- actions of a person

    def draw(self, where: Any, number: int, lock: bool = True) -> None:
        """Draw a brush stroke over the pixels of an index expression."""
        sites = self._inner.problem.site_image
        before = np.concatenate(([0], self._inner.display_labels))[sites]
        after = before.copy()
        after[where] = number
        path = np.argwhere(before != after).astype(float)
        self._inner.draw(make_scribble(sites, before, after, path), lock=lock)

    def paint(self, sites: Any, number: int, lock: bool = False) -> None:
        """Give sites, from 0, a number."""
        self._inner.paint(sites, number, lock=lock)

    def lock(self, sites: Any) -> None:
        """Hold sites."""
        self._inner.lock(sites)

    def unlock(self, sites: Any) -> None:
        """Release sites."""
        self._inner.unlock(sites)

    def undo(self) -> bool:
        """Undo one step; False if there is none."""
        return self._inner.undo()

    def redo(self) -> bool:
        """Redo one step; False if there is none."""
        return self._inner.redo()

    def change_settings(self, **changes: Any) -> None:
        """Change settings under way."""
        self._inner.update_settings(self._inner.settings.replace(**changes))

    def look_back(self, sweep: int) -> None:
        """Continue from the remembered state nearest to a sweep."""
        self._inner.revert_to(self._inner.history.nearest(sweep)[1])

    def edit(self, kind: str, *arguments: Any, **more: Any) -> None:
        """Edit objects as they are shown: accept, merge, cut, delete or draw."""
        make = {
            "accept": object_edits.accept_object,
            "merge": object_edits.merge_objects,
            "cut": object_edits.split_objects,
            "delete": object_edits.delete_object,
            "draw": object_edits.draw_object,
        }[kind]
        self._inner.edit(make(self.labels.astype(np.uint16), *arguments, True, **more))

    # ---- what there is to see

    @property
    def sweep(self) -> int:
        return self._inner.sweep

    @property
    def target(self) -> int:
        return self._inner.target

    @property
    def labels(self) -> Any:
        """(*shape,) labels of the result; of several images as slices of one array."""
        return np.asarray(self._inner.summary.labels)

    @property
    def numbers(self) -> Any:
        """(n,) numbers on the screen."""
        return self._inner.display_labels

    @property
    def locks(self) -> Any:
        """(n,) sites that are held."""
        return self._inner.locks

    @property
    def traces(self) -> list[Any]:
        """(sweeps, 3) of each chain."""
        return list(self._inner.traces)

    @property
    def undo_steps(self) -> int:
        return len(self._inner.log.done)

    @property
    def redo_steps(self) -> int:
        return len(self._inner.log.undone)


def _problem(image: Any, settings: gsw.Settings, given: dict[str, Any]) -> Any:
    """Prepare an image; several as slices of one array, which is how the window works on them."""
    if not isinstance(image, list):
        return gsw.prepare(image, settings, **given)
    parts = {
        name: [plane[: one.shape[0], : one.shape[1]] for plane, one in zip(value, image, strict=True)]
        for name, value in given.items()
        if value is not None
    }
    return gsw.prepare(image, settings, **parts).stacked()


def _complete(saved: gsw.SavedRun, image: Any) -> gsw.SavedRun:
    """Give a run that is read in blocks the image that a file does not hold."""
    return attach_image(saved, image) if hasattr(image, "chunks") else saved


def neutral_state(state: Any) -> dict[str, Any]:
    """Arrays of a stored chain state that sampling depends on."""
    return {name: array for name, array in state.items() if name not in ("version", "fingerprint")}


# ---- what a user sees


def command_parser() -> Any:
    """The parser of all commands."""
    from napari_gsw.cli import parser

    return parser()


def plain(value: Any) -> Any:
    """A value ready for JSON."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, tuple | list):
        return [plain(one) for one in value]
    return type(value).__name__


def declaration(setting: Any, default: Any) -> dict[str, Any]:
    """Everything about a setting but its help."""
    low, high = setting.low, setting.high
    facts = {
        "section": setting.section,
        "title": setting.title,
        "kind": setting.kind.__name__ + (" or None" if setting.optional else ""),
        "default": default,
        "range": [low, high] if setting.kind is not str and (low, high) != (-math.inf, math.inf) else None,
        "without its ends": [setting.exclusive_min, setting.exclusive_max]
        if setting.exclusive_min or setting.exclusive_max
        else None,
        "choices": list(setting.choices) or None,
        "symbol": setting.symbol,
        "usual": setting.usual,
        "when": None if setting.active_if is None else [setting.active_if[0], list(setting.active_if[1][:6])],
    }
    return {key: plain(value) for key, value in facts.items() if value is not None and value != ""}


def declared(options: Any) -> dict[str, Any]:
    """Declarations of a class of settings by name."""
    defaults = {field.name: field.default for field in dataclasses.fields(options)}
    return {name: declaration(one, defaults[name]) for name, one in options.setting_fields().items()}


def setting_table() -> dict[str, Any]:
    """Declarations of all settings by name."""
    return declared(gsw.Settings)


def method_table() -> dict[str, Any]:
    """For each method the declarations of its own settings."""
    from napari_gsw.methods import METHODS

    return {name: {} if one.options is None else declared(one.options) for name, one in METHODS.items()}


def file_formats() -> dict[str, list[str]]:
    """Endings that are read and written."""
    from napari_gsw.batch.images import ENDINGS
    from napari_gsw.files.images import HDF5, IMAGE_SUFFIXES
    from napari_gsw.files.labels import WRITERS

    return {
        "images read": sorted(IMAGE_SUFFIXES),
        "images of a batch": sorted(ENDINGS),
        "labels written": sorted(WRITERS),
        "maps read": sorted(HDF5),
    }


def batch_columns() -> list[str]:
    """Columns of batch.csv."""
    from napari_gsw.batch.run import COLUMNS

    return list(COLUMNS)


def score_columns() -> dict[str, list[str]]:
    """Headers of the comparison's tables."""
    from napari_gsw.widgets.comparison.panel import OBJECT_COLUMNS, REGION_COLUMNS

    tables = {"regions": REGION_COLUMNS, "objects": OBJECT_COLUMNS}
    return {name: [column.header for column in columns] for name, columns in tables.items()}


def panel_keys() -> list[str]:
    """Keys that the panel binds."""
    from napari_gsw.widgets.panel.panel import KEYS

    return sorted(KEYS)


def unfold(dock: Any) -> None:
    """Open all foldable sections of a dock."""
    from napari_gsw.widgets.common.layouts import Section

    for section in dock.findChildren(Section):
        section.unfold()


def choose(panel: Any, choice: Any) -> None:
    """Choose a preset by its name, or a value of settings by their names."""
    if isinstance(choice, str):
        panel.presets.choose(choice)
    else:
        for name, value in choice.items():
            panel.form.controls[name].set_value(value)


def open_in_panel(panel: Any, path: Any) -> None:
    """Begin to open a session in the panel, as the button does after its dialog."""
    panel.saving.chosen.emit(str(path))


def is_at_rest(panel: Any) -> bool:
    """Return whether the panel shows a run that has ended."""
    session = panel.session
    drawn = session.frame is not None and session.layer_view.drawn.get(session.position) is session.frame
    return drawn and session.state == "done" and session.run is None and not panel.opening.is_busy


def interactive_run(panel: Any) -> Run:
    """The run that a panel shows."""
    return Run(panel.session.array_run.interactive)
