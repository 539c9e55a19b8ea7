"""All methods by name: ours, and those it is compared with.

A :class:`Choice` is a method with everything that it depends on, so that whoever runs it (the command line, an
evaluation, a script) need not know which one it is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from napari_gsw.core.arrays import LabelImage
from napari_gsw.core.errors import InputError
from napari_gsw.core.evidence.given_maps import MAPS
from napari_gsw.core.image.lazy import is_lazy
from napari_gsw.core.image.lazy_image import open_lazy
from napari_gsw.core.pipeline.provenance import array_hash
from napari_gsw.core.pipeline.sampling import Keep
from napari_gsw.core.pipeline.saved_run import SavedRun
from napari_gsw.core.pipeline.segment import resume
from napari_gsw.core.pipeline.segment import segment as segment_by_gsw
from napari_gsw.core.pipeline.stage import Report, Stage
from napari_gsw.core.posterior.result import Outcome
from napari_gsw.core.presets import DEFAULT_PRESET, preset
from napari_gsw.core.setting import Options
from napari_gsw.core.settings import Settings
from napari_gsw.core.versions import all_versions
from napari_gsw.files.geometry import Geometry
from napari_gsw.files.images import open_image, read_image
from napari_gsw.files.pixel_spacing import chosen_geometry, file_spacing, known_geometry
from napari_gsw.methods import crp
from napari_gsw.methods.distance_watershed import DistanceWatershed, distance_watershed
from napari_gsw.methods.felzenszwalb import Felzenszwalb, felzenszwalb
from napari_gsw.methods.forest import Forest, forest
from napari_gsw.methods.graph_cut import GraphCut, graph_cut
from napari_gsw.methods.mean_shift import MeanShift, mean_shift
from napari_gsw.methods.normalized_cut import NormalizedCut, normalized_cut
from napari_gsw.methods.object_watershed import NetworkWatershed, OtsuWatershed, network_watershed, otsu_watershed
from napari_gsw.methods.random_walker import RandomWalker, random_walker
from napari_gsw.methods.signed_graphs import Gasp, Multicut, MutexWatershed, SignedGraph, signed_graph
from napari_gsw.methods.watershed import Watershed, watershed


class Method(NamedTuple):
    """A way to segment.

    Attributes
    ----------
    help : a few words for a person.
    options : the settings of its own, or None.
    samples : whether it is a chain on sites, and so takes the settings of sites, features and sweeps.
    needs_seeds : whether it does nothing without strokes that a person has painted.
    divides_sites : whether it divides our sites by our couplings, and so takes the settings of both.
    """

    help: str
    options: type[Options] | None
    samples: bool
    needs_seeds: bool = False
    divides_sites: bool = False

    @property
    def takes_settings(self) -> bool:
        """Whether the settings of the package are its own too."""
        return self.samples or self.divides_sites


METHODS: Mapping[str, Method] = {
    "gsw": Method("Potts-partition model, generalized Swendsen-Wang sampler", None, True),
    "rdd-crp": Method("region-level distance-dependent Chinese restaurant process", crp.RddCrp, True),
    "dd-crp": Method("distance-dependent Chinese restaurant process", crp.DdCrp, True),
    "mean-shift": Method("mean shift: OpenCV's filtering with region merging", MeanShift, False),
    "felzenszwalb": Method("scikit-image's graph-based segmentation", Felzenszwalb, False),
    "normalized-cut": Method("normalized cut of the graph of superpixels", NormalizedCut, False),
    "otsu-watershed": Method("objects: Otsu's threshold, cut by a watershed of the distance", OtsuWatershed, False),
    "network-watershed": Method("objects: our network with a plain watershed", NetworkWatershed, False),
    "multicut": Method("multicut of our sites and couplings", Multicut, False, divides_sites=True),
    "gasp": Method("signed graph agglomeration of our sites and couplings", Gasp, False, divides_sites=True),
    "mutex-watershed": Method(
        "mutex watershed of our sites by our couplings", MutexWatershed, False, divides_sites=True
    ),
    "distance-watershed": Method("watershed of the distance to dark ridges", DistanceWatershed, False),
    "random-walker": Method("scikit-image's random walker from strokes", RandomWalker, False, True),
    "watershed": Method("scikit-image's watershed of the gradient from strokes", Watershed, False, True),
    "forest": Method("pixels classified by scikit-learn's trees, learnt under strokes", Forest, False, True),
    "graph-cut": Method("graph cuts with mixtures of colours, learnt under strokes", GraphCut, False, True),
}
# The label images and maps that a method takes beside the image.
ARRAYS: Mapping[str, tuple[str, ...]] = {
    "gsw": ("sites", "mask", "seeds", "init", *MAPS),
    "rdd-crp": ("sites", "mask"),
    **dict.fromkeys(("dd-crp", "multicut", "gasp", "mutex-watershed"), ("sites", "mask")),
    **{name: ("seeds",) for name, method in METHODS.items() if method.needs_seeds},
}
# The methods that heed what a person has painted.
SEEDED = tuple(name for name in METHODS if "seeds" in ARRAYS.get(name, ()))
# The methods that are one call: image, options, axes, seed -> labels.
ONE_CALL: Mapping[str, Callable[[Any, Any, str, int], LabelImage]] = {
    "mean-shift": lambda image, options, axes, seed: mean_shift(image, options, axes),
    "felzenszwalb": lambda image, options, axes, seed: felzenszwalb(image, options, axes),
    "normalized-cut": lambda image, options, axes, seed: normalized_cut(image, options, axes, seed),
    "otsu-watershed": lambda image, options, axes, seed: otsu_watershed(image, options, axes),
    "network-watershed": lambda image, options, axes, seed: network_watershed(image, options, axes),
    "distance-watershed": lambda image, options, axes, seed: distance_watershed(image, options, axes),
}
# The same from strokes: image, strokes, options, axes, seed -> labels.
FROM_SEEDS: Mapping[str, Callable[[Any, Any, Any, str, int], LabelImage]] = {
    "random-walker": lambda image, seeds, options, axes, seed: random_walker(image, seeds, options, axes),
    "watershed": lambda image, seeds, options, axes, seed: watershed(image, seeds, options, axes),
    "forest": lambda image, seeds, options, axes, seed: forest(image, seeds, options, axes, seed),
    "graph-cut": lambda image, seeds, options, axes, seed: graph_cut(image, seeds, options, axes, seed),
}


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
        return replace(self, settings=self.settings.replace(spacing=file_spacing(path, self.settings.axes)))

    def place(self, path: str | os.PathLike[str]) -> Geometry:
        """Where the pixels of a file's image lie, once the choice has its axes and spacing."""
        return chosen_geometry(known_geometry(path), self.settings.axes, self.settings.spacing)


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
    own_names = () if options is None else tuple(options.declarations())
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
    keep: Keep | None = None,
    saved: SavedRun | None = None,
    **arrays: Any,
) -> Outcome:
    """Segment an image by any method.

    Parameters
    ----------
    image : array, as for :func:`napari_gsw.core.image.picture.picture`.
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
    if METHODS[choice.method].needs_seeds and arrays.get("seeds") is None:
        raise InputError(f"{choice.method} needs seeds: a label image of strokes, 0 where nothing is painted")
    settings, options = choice.settings, choice.options
    if saved is not None:
        resumed: Any = resume(saved, image=image, report=report, keep=keep)
        return Outcome(resumed.labels, resumed.provenance, resumed)
    if METHODS[choice.method].samples:
        result = (
            crp.segment(image, settings, options, seed, report=report, **arrays)
            if isinstance(options, crp.DdCrp)
            else segment_by_gsw(image, settings, seed=seed, report=report, keep=keep, **arrays)
        )
        return Outcome(result.labels, result.provenance, result)
    if report:
        report(Stage(choice.method), None)
    if isinstance(options, SignedGraph):
        labels = signed_graph(image, settings, options, report=report, **arrays)
    elif choice.method in FROM_SEEDS:
        labels = FROM_SEEDS[choice.method](image, arrays["seeds"], options, settings.axes, seed)
    else:
        labels = ONE_CALL[choice.method](image, options, settings.axes, seed)
    return Outcome(labels, _provenance(image, choice, seed, labels, arrays), None)


def image_of(path: str | os.PathLike[str], choice: Choice) -> tuple[Any, str]:
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
    grid = open_lazy(image, choice.settings.axes).grid(choice.settings.block_pixels)
    return (image, axes) if choice.method == "gsw" and len(grid) > 1 else read_image(path)


def _provenance(
    image: ArrayLike, choice: Choice, seed: int, labels: LabelImage, arrays: Mapping[str, Any]
) -> dict[str, Any]:
    array = np.asarray(image)
    return {
        "software": "napari-gsw",
        "versions": all_versions(),
        "image": {
            "shape": list(array.shape), "dtype": str(array.dtype), "sha256": array_hash(array),
        },
        "given": {name: array_hash(np.asarray(value)) for name, value in arrays.items()},
        "method": choice.to_dict(),
        "seed": seed,
        "regions": int(np.count_nonzero(np.unique(labels))),  # 0 is what is in none
    }  # fmt: skip
