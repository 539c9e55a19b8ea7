"""The only place of these tests that knows internal names: a run that a person corrects, saved and restored."""

from __future__ import annotations

from typing import Any

import numpy as np

import napari_gsw as gsw
from napari_gsw.core.pipeline.live_chain import LiveChain
from napari_gsw.core.pipeline.live_record import restored_live, saved_live
from napari_gsw.core.pipeline.provenance import looks_of
from napari_gsw.core.pipeline.replay import replayed_chain
from napari_gsw.core.pipeline.saved_run import with_image
from napari_gsw.core.posterior import object_edits
from napari_gsw.core.sampler import bonds
from napari_gsw.core.sites.strokes import stroke_of

__all__ = ["Run", "bonds", "neutral_state"]


class Run:
    """An interactive run of one array: the actions of a person by names that stay."""

    def __init__(self, inner: LiveChain, image: Any = None, given: dict[str, Any] | None = None) -> None:
        self._inner, self._image, self._given = inner, image, given or {}
        if image is not None and not hasattr(image, "chunks"):  # sites of a lazy image are never split
            self._inner.remake = self._cut_sites

    @classmethod
    def begin(cls, image: Any, settings: gsw.Settings, seed: int, seeds: Any = None, **given: Any) -> Run:
        """Prepare an image (an array or a list) and start its chains."""
        problem = _problem(image, settings, {**given, "seeds": seeds})
        given = given if seeds is None else {**given, "seeds": seeds}
        return cls(LiveChain(problem, settings, seed, seeds), image, given)

    @classmethod
    def restore(cls, saved: gsw.SavedRun, image: Any = None) -> Run:
        """Continue a saved run."""
        return cls(restored_live(_complete(saved, image)), image, dict(saved.given))

    @classmethod
    def replay(cls, saved: gsw.SavedRun, image: Any) -> Run:
        """Repeat all actions of a saved run from its start."""
        given = {name: value for name, value in saved.given.items() if name != "seeds"}
        saved = _complete(saved, image)
        remake = cls(restored_live(saved), image, given)._cut_sites
        return cls(replayed_chain(saved, remake), image, given)

    def save(self) -> gsw.SavedRun:
        """Freeze the run as it is now."""
        return saved_live(self._inner, looks_of(self._image), self._given)

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
        self._inner.wake()
        self.finish()

    # ---- actions of a person

    def draw(self, where: Any, number: int, lock: bool = True) -> None:
        """Draw a brush stroke over the pixels of an index expression."""
        sites = self._inner.problem.site_image
        before = np.concatenate(([0], self._inner.numbers))[sites]
        after = before.copy()
        after[where] = number
        path = np.argwhere(before != after).astype(float)
        self._inner.draw(stroke_of(sites, before, after, path), lock=lock)

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
        self._inner.retune(self._inner.settings.replace(**changes))

    def look_back(self, sweep: int) -> None:
        """Continue from the remembered state nearest to a sweep."""
        self._inner.go_back(self._inner.history.near(sweep)[1])

    def edit(self, kind: str, *arguments: Any, **more: Any) -> None:
        """Edit objects as they are shown: accept, merge, cut, delete or draw."""
        make = {
            "accept": object_edits.accepted,
            "merge": object_edits.merged,
            "cut": object_edits.cut,
            "delete": object_edits.deleted,
            "draw": object_edits.drawn,
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
        return self._inner.numbers

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
    return with_image(saved, image) if hasattr(image, "chunks") else saved


def neutral_state(state: Any) -> dict[str, Any]:
    """Arrays of a stored chain state that sampling depends on."""
    return {name: array for name, array in state.items() if name not in ("version", "fingerprint")}
