"""All methods by name: ours, and those it is compared with.

A :class:`Choice` is a method with everything that it depends on, so that whoever runs it (the command line, an
evaluation, a script) need not know which one it is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from napari_gsw.core.array_types import LabelImage
from napari_gsw.core.errors import InputError
from napari_gsw.core.features.input_maps import MAP_NAMES
from napari_gsw.core.image.lazy import is_lazy, open_lazy_image
from napari_gsw.core.pipeline.provenance import hash_array
from napari_gsw.core.pipeline.sampling_run import SaveHook
from napari_gsw.core.pipeline.saved_run import SavedRun
from napari_gsw.core.pipeline.segment import resume
from napari_gsw.core.pipeline.segment import segment as segment_by_gsw
from napari_gsw.core.pipeline.stage import Report, Stage
from napari_gsw.core.posterior.result import MethodResult
from napari_gsw.core.settings import Settings
from napari_gsw.core.settings.presets import DEFAULT_PRESET, preset
from napari_gsw.core.settings.setting import Options
from napari_gsw.core.versions import collect_versions
from napari_gsw.files.geometry import Geometry, resolve_geometry
from napari_gsw.files.images import open_image, read_geometry_or_unknown, read_image, read_spacing


class Method(NamedTuple):
    """A way to segment.

    Attributes
    ----------
    help : a few words for a person.
    samples : whether it is a chain on sites, and so takes the settings of sites, features and sweeps.
    own, call : the settings of its own and the function, as "module.name" in this room; none of it is imported before
        it is used.
    draws : whether the function takes a seed for random numbers.
    needs_seeds : whether it does nothing without strokes that a person has painted.
    divides_sites : whether it divides our sites by our couplings, and so takes the settings of both.
    """

    help: str
    samples: bool
    own: str = ""
    call: str = ""
    draws: bool = False
    needs_seeds: bool = False
    divides_sites: bool = False

    @property
    def options(self) -> type[Options] | None:
        """The settings of its own, or None."""
        return _named(self.own) if self.own else None

    @property
    def function(self) -> Callable[..., Any]:
        """What segments, of any method but ours."""
        function: Callable[..., Any] = _named(self.call)
        return function

    @property
    def takes_settings(self) -> bool:
        """Whether the settings of the package are its own too."""
        return self.samples or self.divides_sites


def _named(place: str) -> Any:
    module, name = place.split(".")
    return getattr(import_module(f"napari_gsw.methods.{module}"), name)


def _of_sites(help: str, own: str) -> Method:
    """A method that divides our sites by our couplings."""
    return Method(help, False, f"signed_graphs.{own}", "signed_graphs.signed_graph", divides_sites=True)


def _of_strokes(help: str, own: str, call: str, draws: bool = False) -> Method:
    return Method(help, False, own, call, draws, needs_seeds=True)


METHODS: Mapping[str, Method] = {
    "gsw": Method("Potts-partition model, generalized Swendsen-Wang sampler", True),
    "rdd-crp": Method("region-level distance-dependent Chinese restaurant process", True, "crp.RddCrp", "crp.segment"),
    "dd-crp": Method("distance-dependent Chinese restaurant process", True, "crp.DdCrp", "crp.segment"),
    "mean-shift": Method(
        "mean shift: OpenCV's filtering with region merging", False, "mean_shift.MeanShift", "mean_shift.mean_shift"
    ),
    "felzenszwalb": Method(
        "scikit-image's graph-based segmentation", False, "felzenszwalb.Felzenszwalb", "felzenszwalb.felzenszwalb"
    ),
    "normalized-cut": Method(
        "normalized cut of the graph of superpixels", False, "normalized_cut.NormalizedCut",
        "normalized_cut.normalized_cut", draws=True,
    ),
    "otsu-watershed": Method(
        "objects: Otsu's threshold, cut by a watershed of the distance", False, "object_watershed.OtsuWatershed",
        "object_watershed.otsu_watershed",
    ),
    "network-watershed": Method(
        "objects: our network with a plain watershed", False, "object_watershed.NetworkWatershed",
        "object_watershed.network_watershed",
    ),
    "multicut": _of_sites("multicut of our sites and couplings", "Multicut"),
    "gasp": _of_sites("signed graph agglomeration of our sites and couplings", "Gasp"),
    "mutex-watershed": _of_sites("mutex watershed of our sites by our couplings", "MutexWatershed"),
    "distance-watershed": Method(
        "watershed of the distance to dark ridges", False, "distance_watershed.DistanceWatershed",
        "distance_watershed.distance_watershed",
    ),
    "random-walker": _of_strokes(
        "scikit-image's random walker from strokes", "random_walker.RandomWalker", "random_walker.random_walker"
    ),
    "watershed": _of_strokes(
        "scikit-image's watershed of the gradient from strokes", "watershed.Watershed", "watershed.watershed"
    ),
    "forest": _of_strokes(
        "pixels classified by scikit-learn's trees, learnt under strokes", "forest.Forest", "forest.forest", draws=True
    ),
    "graph-cut": _of_strokes(
        "graph cuts with mixtures of colours, learnt under strokes", "graph_cut.GraphCut", "graph_cut.graph_cut",
        draws=True,
    ),
}  # fmt: skip
# The label images and maps that a method takes beside the image.
ARRAYS: Mapping[str, tuple[str, ...]] = {
    "gsw": ("sites", "mask", "seeds", "init", *MAP_NAMES),
    "rdd-crp": ("sites", "mask"),
    **dict.fromkeys(("dd-crp", "multicut", "gasp", "mutex-watershed"), ("sites", "mask")),
    **{name: ("seeds",) for name, method in METHODS.items() if method.needs_seeds},
}
# The methods that heed what a person has painted.
SEEDED = tuple(name for name in METHODS if "seeds" in ARRAYS.get(name, ()))


@dataclass(frozen=True)
class Choice:
    """A method, the package's settings (axes, sites, features, sweeps ...) and the method's own."""

    method: str
    settings: Settings
    options: Options | None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON: those that the method reads."""
        own = {} if self.options is None else self.options.to_dict()
        return {
            "method": self.method,
            **(self.settings.to_dict() if METHODS[self.method].takes_settings else {}),
            **own,
        }

    def with_axes(self, axes: str) -> Choice:
        """The same choice for an image whose file tells the order of its axes; an order that was chosen stays."""
        if self.settings.axes != "auto":
            return self
        return replace(self, settings=self.settings.replace(axes=axes))

    def with_spacing(self, path: str | os.PathLike[str]) -> Choice:
        """The same choice for the image of a file that tells how far its pixels are apart; what was chosen stays."""
        if self.settings.spacing != "auto":
            return self
        return replace(self, settings=self.settings.replace(spacing=read_spacing(path, self.settings.axes)))

    def place(self, path: str | os.PathLike[str]) -> Geometry:
        """Where the pixels of a file's image lie, once the choice has its axes and spacing."""
        return resolve_geometry(read_geometry_or_unknown(path), self.settings.axes, self.settings.spacing)


def choose(method: str = "gsw", preset_name: str = DEFAULT_PRESET, changes: Mapping[str, Any] | None = None) -> Choice:
    """A method by name, with a preset and single settings changed; a setting of the method's own goes first.

    Examples
    --------
    >>> choose("rdd-crp", "paper", {"gamma": 0.1, "evidence": 5}).to_dict()["gamma"]
    0.1
    """
    if method not in METHODS:
        raise InputError(f"method must be one of {', '.join(METHODS)}, not {method!r}")
    options, takes_settings = METHODS[method].options, METHODS[method].takes_settings
    own_names = () if options is None else tuple(options.setting_fields())
    own = {name: value for name, value in (changes or {}).items() if name in own_names}
    shared = {name: value for name, value in (changes or {}).items() if name not in own_names}
    for name in shared:
        if not takes_settings and name != "axes":
            raise InputError(f"{method} has no setting {name!r}; it has {', '.join(own_names)}")
    return Choice(method, preset(preset_name, **shared), None if options is None else options(**own))


def segment(
    image: ArrayLike,
    choice: Choice,
    seed: int = 0,
    *,
    report: Report | None = None,
    keep: SaveHook | None = None,
    saved: SavedRun | None = None,
    **arrays: Any,
) -> MethodResult:
    """Segment an image by any method.

    Parameters
    ----------
    image : array, as for :func:`napari_gsw.core.image.normalized_image.normalize_image`.
    choice : as :func:`choose` makes it.
    seed : of the methods that draw random numbers.
    report, keep : as for :func:`napari_gsw.segment`; only our own chains can be kept.
    saved : one of our own runs to go on with, of this image and choice.
    arrays : label images such as ``sites`` and ``mask``, for the methods that take them.

    Returns
    -------
    The label image and what made it; of a method that samples also its result.

    Examples
    --------
    >>> stripes = np.kron(np.eye(2), np.ones((30, 30)))
    >>> int(segment(stripes, choose("normalized-cut", changes={"site_size": 40})).labels.max())
    4
    """
    for name in arrays:
        if name not in ARRAYS.get(choice.method, ()):
            raise InputError(f"{choice.method} takes no {name}")
    method = METHODS[choice.method]
    if method.needs_seeds and arrays.get("seeds") is None:
        raise InputError(f"{choice.method} needs seeds: a label image of strokes, 0 where nothing is painted")
    settings, options = choice.settings, choice.options
    if saved is not None:
        resumed: Any = resume(saved, image=image, report=report, keep=keep)
        return MethodResult(resumed.labels, resumed.provenance, resumed)
    if method.samples:
        result = (
            segment_by_gsw(image, settings, seed=seed, report=report, keep=keep, **arrays)
            if options is None
            else method.function(image, settings, options, seed, report=report, **arrays)
        )
        return MethodResult(result.labels, result.provenance, result)
    if report:
        report(Stage(choice.method), None)
    if method.divides_sites:
        labels = method.function(image, settings, options, report=report, **arrays)
    else:
        strokes, drawn = [arrays["seeds"]] if method.needs_seeds else [], [seed] if method.draws else []
        labels = method.function(image, *strokes, options, settings.axes, *drawn)
    return MethodResult(labels, _provenance(image, choice, seed, labels, arrays), None)


def open_image_for(path: str | os.PathLike[str], choice: Choice) -> tuple[Any, str]:
    """The image of a file for a method.

    Parameters
    ----------
    path : as for :func:`napari_gsw.files.images.open_image`.
    choice : the method and its settings.

    Returns
    -------
    The array and the order of its axes; lazy only where it is to be worked on in blocks.
    """
    image, axes = open_image(path)
    if not is_lazy(image):
        return image, axes
    grid = open_lazy_image(image, choice.settings.axes).grid(choice.settings.block_pixels)
    return (image, axes) if choice.method == "gsw" and len(grid) > 1 else read_image(path)


def _provenance(
    image: ArrayLike, choice: Choice, seed: int, labels: LabelImage, arrays: Mapping[str, Any]
) -> dict[str, Any]:
    array = np.asarray(image)
    return {
        "software": "napari-gsw",
        "versions": collect_versions(),
        "image": {
            "shape": list(array.shape), "dtype": str(array.dtype), "sha256": hash_array(array),
        },
        "given": {name: hash_array(np.asarray(value)) for name, value in arrays.items()},
        "method": choice.to_dict(),
        "seed": seed,
        "regions": int(np.count_nonzero(np.unique(labels))),  # 0 is what is in none
    }  # fmt: skip
