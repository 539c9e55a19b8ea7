"""Segmentation methods by name, and a choice of one with all its settings.

The method ``gsw`` is built in; baselines are entry points of the group ``napari_gsw.methods``.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from napari_gsw.core.errors import InputError
from napari_gsw.core.features.input_maps import MAP_NAMES
from napari_gsw.core.image.lazy import is_lazy, open_lazy_image
from napari_gsw.core.pipeline.prepare import Report, Stage
from napari_gsw.core.pipeline.provenance import hash_array
from napari_gsw.core.pipeline.saved_run import SavedRun
from napari_gsw.core.pipeline.segment import SaveHook, resume
from napari_gsw.core.pipeline.segment import segment as segment_by_gsw
from napari_gsw.core.posterior.result import MethodResult
from napari_gsw.core.settings import Settings
from napari_gsw.core.settings.declaration import Options
from napari_gsw.core.settings.presets import DEFAULT_PRESET, preset
from napari_gsw.core.versions import collect_versions
from napari_gsw.files.geometry import Geometry, resolve_geometry
from napari_gsw.files.images import open_image, read_geometry, read_image, read_spacing

GROUP = "napari_gsw.methods"
# Label images and maps that a method may take beside the image.
ARRAY_NAMES = ("sites", "mask", "seeds", "init", *MAP_NAMES)


@dataclass(frozen=True)
class Method:
    """A segmentation method.

    The function takes an image and, by keyword, those of ``options``, ``settings``, ``axes``, ``seed``, ``report`` and
    of the arrays ``sites``, ``mask``, ``seeds``, ``init``, ... that it has as parameters. It returns a label image, or
    a :class:`~napari_gsw.Result` if it samples.
    """

    function: Callable[..., Any]
    options: type[Options] | None = None  # the settings that only this method has
    samples: bool = False  # whether it runs a Markov chain

    @cached_property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """Parameters of the function by name."""
        return inspect.signature(self.function).parameters

    @property
    def arrays(self) -> tuple[str, ...]:
        """Names of the label images and maps that it takes beside the image."""
        return tuple(name for name in ARRAY_NAMES if name in self.parameters)

    @property
    def needs_seeds(self) -> bool:
        """True if it only spreads the labels of scribbles."""
        return "seeds" in self.parameters and self.parameters["seeds"].default is inspect.Parameter.empty

    @property
    def takes_settings(self) -> bool:
        """True if it reads the settings of the package."""
        return "settings" in self.parameters


GSW = Method(segment_by_gsw, samples=True)


class _Methods(Mapping[str, Method]):
    """The methods by name, each imported when it is looked up."""

    @cached_property
    def _baselines(self) -> dict[str, EntryPoint]:
        return {entry.name: entry for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name)}

    def __getitem__(self, name: str) -> Method:
        return GSW if name == "gsw" else self._baselines[name].load()

    def __iter__(self) -> Iterator[str]:
        return iter(("gsw", *self._baselines))

    def __len__(self) -> int:
        return 1 + len(self._baselines)


METHODS: Mapping[str, Method] = _Methods()


@cache
def list_scribble_methods() -> tuple[str, ...]:
    """List the methods that make use of scribbles."""
    return tuple(name for name, method in METHODS.items() if "seeds" in method.arrays)


@dataclass(frozen=True)
class Choice:
    """A method, the settings of the package and those that only the method has."""

    method: str
    settings: Settings
    options: Options | None

    def to_dict(self) -> dict[str, Any]:
        """Return the settings that the method reads as plain values for JSON."""
        shared = self.settings.to_dict() if METHODS[self.method].takes_settings else {}
        return {"method": self.method, **shared, **({} if self.options is None else self.options.to_dict())}

    def with_axes(self, axes: str, path: str | os.PathLike[str] | None = None) -> Choice:
        """Return the choice with the axes of an image and the pixel spacing of its file, if these are to be found."""
        settings = self.settings if self.settings.axes != "auto" else self.settings.replace(axes=axes)
        if path is not None and settings.spacing == "auto":
            settings = settings.replace(spacing=read_spacing(path, settings.axes))
        return replace(self, settings=settings)

    def read_geometry(self, path: str | os.PathLike[str]) -> Geometry:
        """Read the geometry of a file's image, by the axes and the spacing of the settings."""
        return resolve_geometry(read_geometry(path), self.settings.axes, self.settings.spacing)


def choose(method: str = "gsw", preset_name: str = DEFAULT_PRESET, changes: Mapping[str, Any] | None = None) -> Choice:
    """Choose a method by name, with a preset and single settings changed.

    A name that is both a setting of the method and of the package means that of the method.

    Examples
    --------
    >>> choose("gsw", "paper", {"evidence": 5}).to_dict()["evidence"]
    5.0
    """
    if method not in METHODS:
        raise InputError(f"method must be one of {', '.join(METHODS)}, not {method!r}")
    options, takes_settings = METHODS[method].options, METHODS[method].takes_settings
    own_names = () if options is None else tuple(options.setting_fields())
    shared = dict(changes or {})
    own = {name: shared.pop(name) for name in own_names if name in shared}
    for name in shared:
        if not takes_settings and name != "axes":
            raise InputError(f"{method} has no setting {name!r}; it has {', '.join(own_names)}")
    return Choice(method, preset(preset_name, **shared), None if options is None else options(**own))


def segment(
    image: ArrayLike, choice: Choice, seed: int = 0, *, report: Report | None = None, keep: SaveHook | None = None,
    saved: SavedRun | None = None, **arrays: Any,
) -> MethodResult:  # fmt: skip
    """Segment an image by any method, with arguments as for :func:`napari_gsw.segment`.

    Only runs of ``gsw`` can be kept; `saved` is one of this image and choice, which is continued. `arrays` are the
    label images and maps, such as ``sites`` and ``mask``, for the methods that take them.
    """
    method = METHODS[choice.method]
    for name in arrays:
        if name not in method.arrays:
            raise InputError(f"{choice.method} takes no {name}")
    if method.needs_seeds and arrays.get("seeds") is None:
        raise InputError(f"{choice.method} needs seeds: a label image of scribbles, 0 where nothing is painted")
    if saved is not None:
        result: Any = resume(saved, image=image, report=report, keep=keep)
        return MethodResult(result.labels, result.provenance, result)
    if report and not method.samples:
        report(Stage(choice.method), None)
    values = {
        "options": choice.options, "settings": choice.settings, "axes": choice.settings.axes, "seed": seed,
        "report": report, "keep": keep,
    }  # fmt: skip
    taken = {name: value for name, value in values.items() if name in method.parameters}
    result = method.function(image, **taken, **arrays)
    if method.samples:
        return MethodResult(result.labels, result.provenance, result)
    array = np.asarray(image)
    provenance = {
        "software": "napari-gsw",
        "versions": collect_versions(),
        "image": {"shape": list(array.shape), "dtype": str(array.dtype), "sha256": hash_array(array)},
        "given": {name: hash_array(np.asarray(value)) for name, value in arrays.items()},
        "method": choice.to_dict(),
        "seed": seed,
        "regions": int(np.count_nonzero(np.unique(result))),  # 0 is the background
    }
    return MethodResult(result, provenance, None)


def open_image_for(path: str | os.PathLike[str], choice: Choice) -> tuple[Any, str]:
    """Open the image of a file and the order of its axes; it is lazy only if the method works on it in blocks."""
    image, axes = open_image(path)
    if not is_lazy(image):
        return image, axes
    grid = open_lazy_image(image, choice.settings.axes).grid(choice.settings.block_pixels)
    return (image, axes) if choice.method == "gsw" and len(grid) > 1 else read_image(path)
