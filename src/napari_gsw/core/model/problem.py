"""Data, graph, couplings and prior as one problem, and its log posterior in plain numpy.

:func:`log_posterior` is the specification: slow and obviously right. Fast code is tested against it.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from napari_gsw.core.array_types import BoolArray, Float64Array, Int32Array, Int64Array, LabelImage, Sites
from napari_gsw.core.errors import InputError, check_integer, to_array, to_float_array
from napari_gsw.core.graph.region_graph import CsrGraph, RegionGraph, check_edges, make_csr_graph
from napari_gsw.core.image.normalized_image import per_image
from napari_gsw.core.image.spacing import Spacing, get_spacing, pixel_volume
from napari_gsw.core.likelihood.conjugate import DirichletMultinomial, Gaussian, Likelihood
from napari_gsw.core.likelihood.likelihood_tables import RATE, LikelihoodTables, build_tables
from napari_gsw.core.model.external_field import ExternalField, ForegroundField, compute_log_field, make_field
from napari_gsw.core.model.priors import DirichletProcess, Exactly, PartitionPrior, PriorTables
from napari_gsw.core.settings import MAX_BETA, MIN_REGION_PIXELS, Settings
from napari_gsw.core.sites.blocked_labels import BlockedLabels, SiteImage, map_site_values
from napari_gsw.core.sites.site_values import find_site_labels, find_site_majority
from napari_gsw.core.versions import FormerName

# Sites are numbered in 32 bits.
MAX_SITES = 2**31 - 2
# By default the smallest region has one in so many pixels of the image.
MIN_REGION_SHARE = 50
# Bytes of a fingerprint.
FINGERPRINT_BYTES = 16


@dataclass(frozen=True, eq=False)
class Problem:
    """A posterior over partitions of n sites: p(y | partition) * exp(sum of beta_ij within clusters) * g(sizes).

    These are eq. (2), (12) and (6) of the paper; their product is eq. (14).

    Attributes
    ----------
    n : number of sites.
    likelihoods : independent blocks of data, each with one row for each site; without any, the prior remains.
    edges : (m, 2) int32 pairs of neighbouring sites.
    beta : (m,) coupling of each edge, of either sign.
    prior : the partition prior.
    sites : label image 1..n of the sites, 0 outside, in memory or in blocks; or None.
    graph : boundary lengths and contrasts of the edges, or None.
    settings : those it was prepared with, from which `sample` takes its defaults; or None.
    signal : foreground signal, an image; or None.
    block_context : how a chunked image was read (:class:`napari_gsw.core.blocks.assembly.BlockContext`), or None.
    field : external field of named clusters, a factor exp(sum of h_i(name)) of the posterior; or None.
    map_field : the field of a foreground map, which applies once sites are clamped; or None.
    maps : description of the input maps by name, ready for JSON.
    """

    n: int
    likelihoods: tuple[Likelihood, ...]
    edges: NDArray[np.int32]
    beta: Float64Array
    prior: PartitionPrior
    sites: SiteImage | None = None
    graph: RegionGraph | None = None
    settings: Settings | None = None
    signal: NDArray[np.float32] | None = None
    block_context: Any = None
    field: ExternalField | None = None
    map_field: ForegroundField | None = None
    maps: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", check_integer("n", self.n, 1, MAX_SITES))
        _check_blocks(self.likelihoods, self.n)
        object.__setattr__(self, "likelihoods", tuple(self.likelihoods))
        object.__setattr__(self, "edges", check_edges(self.edges, self.n))
        object.__setattr__(self, "beta", _check_beta(self.beta, len(self.edges)))
        if not isinstance(self.prior, PartitionPrior):
            raise InputError(f"prior must be a partition prior such as DirichletProcess(alpha=3), not {self.prior!r}")
        if self.field is not None:
            object.__setattr__(self, "field", make_field(*self.field, self.n))
        self.__dict__["tables"] = self.prior.tables(self.n)  # raises an error now rather than at the first sweep

    @classmethod
    def from_counts(
        cls,
        counts: ArrayLike,
        edges: ArrayLike,
        beta: ArrayLike = 0.02,
        prior: PartitionPrior | None = None,
        phi: float | Sequence[float] = 50.0,
        evidence: float | Sequence[float | None] | None = None,
    ) -> Problem:
        """Make a problem without an image.

        Parameters
        ----------
        counts : (n, words) integers, dense or sparse; or a list of such arrays, one for each block of features.
        edges : (m, 2) neighbouring sites, numbered from 0.
        beta : one coupling, or one for each edge.
        prior : the partition prior; None for ``DirichletProcess(alpha=3)``, as in the paper.
        phi, evidence : of all blocks, or one for each. ``evidence=None`` takes the counts as they are.
        """
        is_list = isinstance(counts, (list, tuple)) and len(counts) > 0 and _ndim(counts[0]) == 2
        blocks = list(counts) if is_list else [counts]  # type: ignore[arg-type]
        phis = list(phi) if isinstance(phi, Sequence) else [phi] * len(blocks)
        draws = list(evidence) if isinstance(evidence, Sequence) else [evidence] * len(blocks)
        if not len(phis) == len(draws) == len(blocks):
            raise InputError(f"phi and evidence must have one entry for each of {len(blocks)} blocks of counts")
        for c in blocks:
            if _ndim(c) != 2:
                raise InputError(f"counts must have shape (sites, words), not {np.shape(to_array('counts', c))}")
        data = tuple(DirichletMultinomial(c, p, e) for c, p, e in zip(blocks, phis, draws, strict=True))  # type: ignore[arg-type]
        return cls(data[0].n, data, edges, beta, prior or DirichletProcess(3.0))  # type: ignore[arg-type]

    @cached_property
    def tables(self) -> PriorTables:
        """The two tables of the prior."""
        return self.prior.tables(self.n)

    @cached_property
    def evidence(self) -> LikelihoodTables:
        """The data as lookup tables for the sampler."""
        return build_tables(self.likelihoods, self.n)

    @cached_property
    def adjacency(self) -> CsrGraph:
        """The graph in compressed form for the sampler."""
        return make_csr_graph(self.n, self.edges, self.beta)

    @cached_property
    def _data_digest(self) -> bytes:
        return hash_data(self.evidence, self.adjacency)

    @cached_property
    def fingerprint(self) -> NDArray[np.uint8]:
        """(16,) uint8 hash of everything that decides the posterior."""
        arrays = [np.frombuffer(self._data_digest, np.uint8), *self.tables, *(self.field or ())]
        return np.frombuffer(_digest(arrays), np.uint8)

    def with_field(self, field: ExternalField | None, prior: PartitionPrior | None = None) -> Problem:
        """Return the same data and graph with another field, and with another prior if one is given."""
        return self.lend(replace(self, field=field, prior=self.prior if prior is None else prior))

    def lend(self, other: Problem) -> Problem:
        """Give `other`, a problem with the same data and graph, the tables that are built already, and return it."""
        for name in ("evidence", "adjacency", "_data_digest"):
            if name in self.__dict__:
                other.__dict__[name] = self.__dict__[name]
        return other

    @property
    def spacing(self) -> Spacing:
        """Distances between pixels along each axis, the smallest being 1; None if all are equal."""
        if self.settings is None or self.sites is None:
            return None
        ndim = len(self.sites.shape)
        # Slices that were images of their own have the spacing of a plane.
        return get_spacing(self.settings, ndim) if self.settings.spacing.count(",") == ndim - 1 else None

    def own_pixels(self, cubes: int) -> int:
        """Return how many pixels have the volume of so many cubes with the smallest distance between pixels as edge."""
        return cubes if self.spacing is None else -int(-cubes // pixel_volume(self.spacing))

    def smallest_region(self, cubes: int | None) -> int:
        """Return the smallest number of pixels of a region by a setting; None depends on the size of the image."""
        if cubes is not None or self.graph is None:
            return self.own_pixels(cubes or 0)
        return min(self.own_pixels(MIN_REGION_PIXELS), int(self.graph.pixels.sum()) // MIN_REGION_SHARE)

    @property
    def has_fragments(self) -> bool:
        """True if sites are fragments of objects from a network; touching objects are then in different clusters."""
        return self.settings is not None and self.settings.objects == "network"

    coloured = FormerName("has_fragments")

    @property
    def closed(self) -> bool:
        """True if every site has to have one of the painted labels."""
        return isinstance(self.prior, Exactly)

    def paint(self, values: ArrayLike, background: float = 0) -> NDArray[np.generic]:
        """Make an image of one value for each site, with `background` outside; lazy if the image is chunked."""
        if self.sites is None:
            raise InputError("this problem was not made from an image, so there is nothing to paint")
        array = to_array("values", values)
        if array.shape != (self.n,):
            raise InputError(f"values must be one for each of {self.n} sites, not an array of shape {array.shape}")
        table = np.concatenate((np.array([background], dtype=array.dtype), array))
        image: NDArray[np.generic]
        image = map_site_values(self.sites, table) if isinstance(self.sites, BlockedLabels) else table[self.sites]
        return image

    def labels_under(self, image: ArrayLike, name: str) -> Int32Array:
        """Return (n,) the commonest non-zero label under each site, -1 for none; `name` is for errors."""
        return find_site_labels(self._sites(), self.n, image, name)

    def majority_under(self, image: LabelImage) -> Int64Array:
        """Return (n,) the commonest label under each site, 0 for the background."""
        return find_site_majority(self._sites(), self.n, image)

    def _sites(self) -> SiteImage:
        if self.sites is None:
            raise InputError("this problem was not made from an image, so there are no sites to look at")
        return self.sites

    @property
    def site_image(self) -> NDArray[np.int32]:
        """The label image of the sites, in memory."""
        return np.asarray(self._sites())


def site_pixels(problem: Problem) -> Float64Array:
    """(n,) pixels of each site, or 1 without an image."""
    return np.ones(problem.n) if problem.graph is None else problem.graph.pixels.astype(np.float64)


def boundary_length(problem: Problem) -> Float64Array:
    """(m,) length of the boundary of each edge, or 1 without an image."""
    return np.ones(len(problem.edges)) if problem.graph is None else problem.graph.length


def touching_edges(problem: Problem) -> BoolArray:
    """(m,) edges whose two sites touch."""
    return np.ones(len(problem.edges), bool) if problem.graph is None else np.asarray(problem.graph.order == 1)


def log_posterior(problem: Problem, labels: ArrayLike) -> float:
    """Compute the log posterior of a partition (eq. 14), up to a constant of the problem.

    It is the sum of log p(y | partition) (eq. 2), the couplings within clusters (eq. 12), log g (eq. 6) and the
    external field, if there is one.

    Parameters
    ----------
    labels : (n,) integers; sites with equal labels share a cluster.
    """
    check_problem(problem)
    z = check_labels(labels, problem.n)
    sizes = np.unique(z, return_counts=True)[1]
    log_v, log_w = problem.tables
    same = z[problem.edges[:, 0]] == z[problem.edges[:, 1]]
    data = sum(block.log_marginal(z) for block in problem.likelihoods)
    value = float(data + problem.beta[same].sum() + log_v[len(sizes)] + log_w[sizes].sum())
    return value if problem.field is None else value + compute_log_field(problem.field, z)


def check_problem(problem: Problem) -> None:
    """Raise an InputError for anything else."""
    if not isinstance(problem, Problem):
        raise InputError(f"problem must be a Problem, as prepare makes one, not {type(problem).__name__}")


def check_labels(labels: ArrayLike, n: int, name: str = "labels") -> NDArray[np.int64]:
    """Convert labels to (n,) int64, one for each site; `name` is for errors."""
    z = to_array(name, labels)
    if z.shape != (n,) or z.dtype.kind not in "bui":
        raise InputError(f"{name} must be {n} whole numbers, not {z.dtype} of shape {z.shape}")
    if z.dtype == np.uint64 and z.max(initial=0) > np.iinfo(np.int64).max:
        z = np.unique(z, return_inverse=True)[1]  # order matters, since sums depend on it
    return z.astype(np.int64)


def _check_blocks(blocks: Sequence[Likelihood], n: int) -> None:
    if not isinstance(blocks, (list, tuple)):
        raise InputError(f"likelihoods must be a list of blocks of features, not {type(blocks).__name__}")
    for block in blocks:
        if not isinstance(block, Likelihood):
            kind = type(block).__name__
            raise InputError(f"likelihoods must be blocks of DirichletMultinomial or Gaussian, not {kind}")
        if block.n != n:
            raise InputError(f"likelihoods must have one row for each of {n} sites in every block, not {block.n}")
    masses = [block.mass for block in blocks if isinstance(block, Gaussian)]
    if any(not np.array_equal(mass, masses[0]) for mass in masses):
        raise InputError("blocks of continuous channels must have the same mass: the same pixels of every site")


def _ndim(values: Any) -> int:
    return int(values.ndim) if hasattr(values, "ndim") else to_array("counts", values).ndim


def _check_beta(beta: ArrayLike, m: int) -> Float64Array:
    values = to_float_array("beta", beta)
    if values.ndim and values.shape != (m,):
        raise InputError(f"beta must be one number or one for each of {m} edges, not shape {values.shape}")
    if not np.isfinite(values).all():
        raise InputError("beta must be finite, not NaN or infinite")
    if np.abs(values).max(initial=0.0) > MAX_BETA:
        raise InputError(f"beta must be a number in [{-MAX_BETA:g}, {MAX_BETA:g}] on every edge")
    return np.array(np.broadcast_to(values, (m,)))


@dataclass(frozen=True, eq=False)
class SharedProblem(Problem):
    """A problem whose sites are those of several images.

    Attributes
    ----------
    site_images : label image of the sites of each image, numbered consecutively through all images; 0 outside.
    signals : foreground signal of each image, or None.
    """

    site_images: tuple[Sites, ...] = ()
    signals: tuple[NDArray[np.float32], ...] | None = None

    def paint(self, values: ArrayLike, background: float = 0) -> list[NDArray[np.generic]]:  # type: ignore[override]
        """Make an image of one value for each site of each image, with `background` outside."""
        return [self.view_image(k).paint(values, background) for k in range(len(self.site_images))]

    def labels_under(self, image: Any, name: str) -> Int32Array:
        """Return (n,) the commonest non-zero label under each site, from a list of label images or None."""
        labels = np.full(self.n, -1, np.int32)
        for sites, label_image in zip(self.site_images, per_image(image, len(self.site_images), name), strict=True):
            if label_image is not None:
                labels = np.maximum(labels, find_site_labels(sites, self.n, label_image, name))
        return labels

    of_image = FormerName("view_image")
    within = FormerName("sites_in_image")

    def sites_in_image(self, number: int) -> BoolArray:
        """Return (n,) whether each site belongs to an image."""
        before = max((int(sites.max()) for sites in self.site_images[:number]), default=0)
        numbers = np.arange(1, self.n + 1)
        return (numbers > before) & (numbers <= int(self.site_images[number].max()))

    def view_image(self, number: int) -> Problem:
        """Return the same problem with all n sites, of which only those of one image are painted."""
        signal = None if self.signals is None else self.signals[number]
        return self._with_sites(self.site_images[number], signal)

    def stacked(self, places: Sequence[int] | None = None, depth: int | None = None) -> Problem:
        """Return the same problem with its images as slices of one array, which is as large as the largest.

        Parameters
        ----------
        places : slice of each image; None for all slices in turn.
        depth : number of slices; slices without an image have no sites.
        """
        where = list(range(len(self.site_images)) if places is None else places)
        largest = np.max([sites.shape for sites in self.site_images], axis=0)
        shape = (len(where) if depth is None else depth, *largest.tolist())
        sites, signal = np.zeros(shape, np.int32), None
        if self.signals is not None:
            signal = np.zeros(shape, np.float32)
        for k, place in enumerate(where):
            inside = tuple(slice(n) for n in self.site_images[k].shape)
            sites[place][inside] = self.site_images[k]
            if signal is not None and self.signals is not None:
                signal[place][inside] = self.signals[k]
        return self._with_sites(sites, signal)

    def _with_sites(self, sites: Sites, signal: NDArray[np.float32] | None) -> Problem:
        shared = {f.name: getattr(self, f.name) for f in fields(Problem)}
        return self.lend(Problem(**(shared | {"sites": sites, "signal": signal})))


def hash_data(evidence: LikelihoodTables, graph: CsrGraph) -> bytes:
    """Hash the data and the graph, which do not depend on the field or the prior.

    Of the tables of words, which may have millions of entries, two entries for each word determine the rest.
    """
    first, gauss = evidence.table_start.astype(np.int64), evidence.gauss
    last = first + evidence.table_end.astype(np.int64) - 1
    # Values that all channels have in common are written once, as in older versions.
    if not len(gauss):
        gauss = np.ones(RATE)
    elif (gauss[:, :RATE] == gauss[0, :RATE]).all():
        gauss = np.concatenate((gauss[0, :RATE], gauss[:, RATE]))
    arrays = [*evidence._replace(table=evidence.table[np.minimum(first + 1, last)], gauss=gauss)]
    table = arrays.pop(evidence._fields.index("table"))
    return _digest([*arrays, table, evidence.table[last], graph.left, graph.right, graph.beta])


def _digest(arrays: Sequence[Any]) -> bytes:
    """Hash arrays and their shapes, the same on every machine.

    Floats are rounded to seven digits: the last digits of a logarithm differ between machines and library versions.
    """
    digest = hashlib.blake2b(digest_size=FINGERPRINT_BYTES)
    for values in arrays:
        array = np.asarray(values)
        with np.errstate(over="ignore", under="ignore"):
            array = array.astype("<f4" if array.dtype.kind == "f" else array.dtype.newbyteorder("<"), copy=False)
        digest.update(f"{array.shape}{array.dtype.str}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.digest()


def number_consecutively(sites: Sequence[Sites]) -> tuple[Sites, ...]:
    """Renumber the sites of several images, so that numbers are consecutive; 0 stays 0."""
    before = np.concatenate(([0], np.cumsum([int(s.max()) for s in sites])))
    return tuple(np.where(s > 0, s + np.int32(b), 0).astype(np.int32) for s, b in zip(sites, before, strict=False))
