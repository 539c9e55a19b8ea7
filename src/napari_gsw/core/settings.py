"""Every setting, once: its default, its bounds and one sentence of help.

The command line, the widget, the documentation and the saved provenance all read this declaration; none
of them has a list of its own. :class:`Settings` is frozen: a changed setting is a new object
(``replace``), so that what was saved is what was run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from napari_gsw.core.errors import InputError
from napari_gsw.core.setting import Options, Setting, setting

# Parameters of likelihoods and priors lie in this range, in which the log posterior of each cluster is right to 1e-5.
# Nothing is to be had beyond: a prior worth 1e9 draws is as good as certain, and one worth 1e-100 as good as none.
LEAST, MOST = 1e-100, 1e9
# A coupling beyond this would drown the last digits of everything else; exp(1e6) is as good as a bond already.
MOST_BETA = 1e6

# The parts of a form, in its order.
SECTIONS = ("image", "superpixels", "features", "prior", "coupling", "sampler", "result")


@dataclass(frozen=True)
class Settings(Options):
    """All settings of a segmentation. See ``docs/settings.md`` for the table made from this class."""

    axes: str = setting(
        "auto",
        "image",
        "Order of the image's axes, such as YX, YXS (S: RGB samples), CYX or ZYX (C: channels); auto guesses.",
    )
    block_pixels: int = setting(
        2**21,
        "image",
        "Lazy images (zarr, dask) of more than eight times as many pixels are worked on in blocks of about so many.",
        low=2**12,
        title="Pixels of a block",
    )

    signal: str = setting(
        "colour",
        "superpixels",
        "What is looked at: perceptual colour, or how far a pixel stands out from the background (objects: "
        "fluorescence, stains).",
        choices=("colour", "objects"),
        title="Look at",
    )

    superpixels: str = setting(
        "slic",
        "superpixels",
        "How pixels are grouped into sites.",
        choices=("slic", "felzenszwalb", "watershed", "grid"),
        title="Method",
    )
    site_size: int = setting(
        60,
        "superpixels",
        "Mean number of pixels in a site.",
        low=1,
        when=("site_count", (None,)),
        title="Site size",
    )
    site_count: int | None = setting(
        None,
        "superpixels",
        "Number of sites, whatever the size of the image; none goes by the site size.",
        kind=int,
        optional=True,
        low=1,
        title="Number of sites",
    )
    most_sites: int | None = setting(
        500_000,
        "superpixels",
        "Sites of an image at most, where they go by the site size: in a very large image they are larger than that; "
        "none for no limit.",
        kind=int,
        optional=True,
        low=1,
        when=("site_count", (None,)),
        title="Most sites",
    )
    compactness: float = setting(
        10.0,
        "superpixels",
        "Large values make sites round and equal, small ones let them follow colour (slic, watershed).",
        low=0.0,
        open_low=True,
        when=("superpixels", ("slic", "watershed")),
    )
    smoothing: float = setting(
        0.0, "superpixels", "Width in pixels of the Gaussian blur before sites are made.", low=0.0, high=100.0
    )

    likelihood: str = setting(
        "words",
        "features",
        "What a site is described by: a histogram of colour words, an 8-bin luminance histogram, "
        "or the continuous channels themselves (gaussian).",
        choices=("words", "luminance", "gaussian"),
    )
    words: int = setting(
        120,
        "features",
        "Number of colour words in a codebook learnt from the image.",
        low=1,
        high=65535,
        when=("likelihood", ("words",)),
        title="Colour words",
    )
    colours: str = setting(
        "lab",
        "features",
        "Colours in which the words of an RGB image are told apart: Lab, or hue, saturation and value.",
        choices=("lab", "hsv"),
        when=("likelihood", ("words",)),
        title="Colour space",
    )
    codebook: str = setting(
        "auto",
        "features",
        "Where the colour words come from: shipped (learnt on photographs, RGB only), image, the path of a "
        "saved codebook, or auto (shipped for RGB, else image).",
        when=("likelihood", ("words",)),
    )
    bins: int = setting(
        8,
        "features",
        "Number of bins of the luminance histogram.",
        low=1,
        high=65535,
        when=("likelihood", ("luminance",)),
        title="Luminance bins",
    )
    phi: float = setting(
        50.0,
        "features",
        "Concentration of the Dirichlet prior on a cluster's histogram.",
        low=LEAST,
        open_low=True,
        high=MOST,
        symbol="phi",
        when=("likelihood", ("words", "luminance")),
        title="Histogram concentration",
    )
    evidence: float | None = setting(
        5.0,
        "features",
        "Number of independent draws that a site's pixels are worth; none takes every pixel as one draw.",
        kind=float,
        optional=True,
        low=0.0,
        open_low=True,
        high=MOST,
        symbol="s",
    )
    texture_words: int = setting(
        0, "features", "Number of texture words in a second histogram; 0 for none.", low=0, high=65535
    )
    texture_phi: float = setting(
        20.0,
        "features",
        "Concentration of the Dirichlet prior on a cluster's texture histogram.",
        low=LEAST,
        open_low=True,
        high=MOST,
        when=("texture_words", ()),
        title="Texture concentration",
    )
    texture_evidence: float | None = setting(
        5.0,
        "features",
        "Number of independent draws that a site's texture is worth; none for every pixel.",
        kind=float,
        optional=True,
        low=0.0,
        open_low=True,
        high=MOST,
        when=("texture_words", ()),
    )
    graph_passes: int = setting(
        0,
        "features",
        "How often histograms are smoothed over the graph: each site borrows from neighbours that look alike.",
        low=0,
        high=1000,
        title="Smoothing passes",
    )
    graph_scale: float = setting(
        12.0,
        "features",
        "Difference of colour (in units of Lab) across which little is borrowed.",
        low=0.0,
        open_low=True,
        when=("graph_passes", ()),
        title="Smoothing scale",
    )
    position: float = setting(
        0.0,
        "features",
        "Number of draws that a site's place in the image is worth: keeps clusters together in space; 0 for none.",
        low=0.0,
        high=MOST,
        title="Position",
    )
    gauss_kappa: float = setting(
        0.01,
        "features",
        "How many draws the prior mean of a Gaussian cluster is worth.",
        low=LEAST,
        open_low=True,
        high=MOST,
        when=("likelihood", ("gaussian",)),
        title="Weight of prior mean",
    )
    gauss_shape: float | None = setting(
        3.0,
        "features",
        "Shape of the inverse-gamma prior on the variance within a Gaussian cluster; none takes the expected variance "
        "for certain.",
        kind=float,
        optional=True,
        low=1.0,
        open_low=True,
        high=MOST,
        when=("likelihood", ("gaussian",)),
        title="Shape of variance",
    )
    gauss_spread: float = setting(
        0.05,
        "features",
        "Expected variance within a Gaussian cluster, as a fraction of the image's variance.",
        low=LEAST,
        open_low=True,
        high=MOST,
        when=("likelihood", ("gaussian",)),
        title="Expected spread",
    )

    prior: str = setting(
        "dirichlet-process",
        "prior",
        "Prior on the number and the sizes of clusters.",
        choices=("dirichlet-process", "pitman-yor", "finite-dirichlet", "potts"),
    )
    alpha: float = setting(
        3.0,
        "prior",
        "Concentration: larger values expect more clusters.",
        high=MOST,
        symbol="alpha",
        when=("prior", ("dirichlet-process", "pitman-yor", "finite-dirichlet")),
        title="Concentration",
    )
    theta: float = setting(
        0.25,
        "prior",
        "Discount of the Pitman-Yor prior: in [0, 1) with alpha > -theta, or negative with alpha = -L theta.",
        low=-MOST,
        high=1.0,
        open_high=True,
        symbol="theta",
        when=("prior", ("pitman-yor",)),
        title="Discount",
    )
    K: int = setting(
        20,
        "prior",
        "Largest number of clusters (finite-dirichlet, potts).",
        low=1,
        symbol="K",
        when=("prior", ("finite-dirichlet", "potts")),
        title="Most clusters",
    )
    min_size: int = setting(
        1,
        "prior",
        "Smallest number of sites in a cluster.",
        low=0,
        symbol="T_min",
        title="Smallest cluster",
    )
    max_size: int | None = setting(
        None,
        "prior",
        "Largest number of sites in a cluster, or none.",
        kind=int,
        optional=True,
        low=1,
        symbol="T_max",
        title="Largest cluster",
    )

    neighbourhood: int = setting(
        1,
        "coupling",
        "1 couples sites that touch, 2 also the neighbours of neighbours.",
        low=1,
        high=2,
        title="Neighbourhood",
    )
    second_weight: float = setting(
        0.5,
        "coupling",
        "Coupling of second-order neighbours relative to sites that touch.",
        low=0.0,
        when=("neighbourhood", (2,)),
        title="Second-order weight",
    )
    coupling: str = setting(
        "constant",
        "coupling",
        "How beta varies from edge to edge: not at all, with the length of the common boundary, falling with the "
        "contrast across it, or as learnt from the boundaries that people draw in photographs.",
        choices=("constant", "length", "contrast", "learnt"),
        title="Varies with",
    )
    beta: float = setting(
        0.02,
        "coupling",
        "Strength with which neighbours share a cluster.",
        low=0.0,
        high=MOST_BETA,
        symbol="beta",
        title="Strength",
    )
    contrast_scale: float = setting(
        5.0,
        "coupling",
        "Contrast (in units of Lab colour) at which the coupling has fallen to 37 %.",
        low=0.0,
        open_low=True,
        when=("coupling", ("contrast",)),
    )
    colour_scale: float | None = setting(
        None,
        "coupling",
        "Difference between the mean colours of two sites, smoothed over the graph (in units of Lab), at which the "
        "coupling has fallen to 37 %; none leaves it out.",
        kind=float,
        optional=True,
        low=0.0,
        open_low=True,
        when=("coupling", ("contrast",)),
        title="Colour scale",
    )
    texture_scale: float | None = setting(
        None,
        "coupling",
        "Distance between the texture words of two sites, smoothed over the graph (chi2, 0 to 1), at which the "
        "coupling has fallen to 37 %; none leaves it out.",
        kind=float,
        optional=True,
        low=0.0,
        open_low=True,
        when=("coupling", ("contrast",)),
        title="Texture scale",
    )
    boundaries: str = setting(
        "shipped",
        "coupling",
        "What learnt couplings go by: shipped (learnt on photographs), or the path of a saved model.",
        when=("coupling", ("learnt",)),
    )
    offset: float = setting(
        1.0,
        "coupling",
        "Log odds for one segment from which on a learnt coupling attracts; larger values make more regions.",
        when=("coupling", ("learnt",)),
        title="Neutral log odds",
    )
    repulsion: float = setting(
        1.0,
        "coupling",
        "Weight of learnt couplings that push neighbours apart; 0 leaves only those that attract.",
        low=0.0,
        when=("coupling", ("learnt",)),
        title="Repulsion",
    )

    sampler: str = setting(
        "gsw",
        "sampler",
        "How sites are bonded in a sweep: by lambda (gsw), lambda 1 (swendsen-wang), not at all (gibbs), lambda "
        "falling with the distance of the sites (data-driven), by a bond probability (bond), or by one drawn for "
        "each sweep (bond-drawn).",
        choices=("gsw", "swendsen-wang", "gibbs", "data-driven", "bond", "bond-drawn"),
    )
    lam: float = setting(
        10.0,
        "sampler",
        "Bond strength relative to the coupling.",
        low=0.0,
        symbol="lambda",
        when=("sampler", ("gsw", "data-driven")),
        title="Bond strength",
    )
    tau: float = setting(
        1.0,
        "sampler",
        "How fast lambda falls with distance (data-driven).",
        low=0.0,
        symbol="tau",
        when=("sampler", ("data-driven",)),
        title="Fall with distance",
    )
    distance: str = setting(
        "hellinger",
        "sampler",
        "Distance between two sites' features (data-driven): hellinger, chi2 or total-variation between histograms, "
        "euclidean between channel means.",
        choices=("hellinger", "chi2", "total-variation", "euclidean"),
        when=("sampler", ("data-driven",)),
    )
    bond: float = setting(
        0.2,
        "sampler",
        "Probability that an edge of mean coupling inside a cluster is bonded (bond), or the largest such "
        "probability drawn (bond-drawn).",
        low=0.0,
        high=1.0,
        open_high=True,
        when=("sampler", ("bond", "bond-drawn")),
        title="Bond probability",
    )
    bond_low: float = setting(
        0.0,
        "sampler",
        "Smallest bond probability drawn (bond-drawn).",
        low=0.0,
        high=1.0,
        open_high=True,
        when=("sampler", ("bond-drawn",)),
        title="Least probability",
    )
    bond_cap: float | None = setting(
        None,
        "sampler",
        "Upper limit of beta times delta on an edge, or none; keeps spin clusters from percolating.",
        kind=float,
        optional=True,
        low=0.0,
        when=("sampler", ("gsw", "swendsen-wang", "data-driven")),
        title="Bond limit",
    )
    regroups: int | None = setting(
        None,
        "sampler",
        "Whole-cluster moves (merge, split, exchange) for each sweep; none makes one where cluster sizes are limited.",
        kind=int,
        optional=True,
        low=0,
        title="Whole-cluster moves",
    )
    splits: int = setting(
        0,
        "sampler",
        "Moves for each sweep that split a cluster or merge two, informed by the marginal likelihood.",
        low=0,
        title="Split-merge moves",
    )
    full_scans: float = setting(
        1.0,
        "sampler",
        "Share of the sweeps in which a site weighs every cluster; in the others only those of its neighbours and a "
        "new one, which is faster where there are many clusters.",
        low=0.0,
        high=1.0,
        open_low=True,
        title="Full scans",
    )
    hot: float = setting(
        1.0,
        "sampler",
        "Temperature of the first sweep, which falls to 1 over the burn-in (annealing); 1 for none.",
        low=1.0,
        title="First temperature",
    )
    replicas: int = setting(
        1,
        "sampler",
        "Copies of each chain at rising temperatures that exchange their states (parallel tempering); 1 for none.",
        low=1,
        high=64,
        title="Tempering replicas",
    )
    hottest: float = setting(
        4.0,
        "sampler",
        "Temperature of the hottest copy.",
        low=1.0,
        open_low=True,
        when=("replicas", tuple(range(2, 65))),
        title="Hottest replica",
    )
    start: str = setting(
        "one",
        "sampler",
        "First state of the chain: one cluster (of several chains, the others from random clusters), every site its "
        "own, or random clusters.",
        choices=("one", "singletons", "random"),
    )
    start_clusters: int = setting(
        20,
        "sampler",
        "Number of clusters of a random start.",
        low=1,
        when=("start", ("one", "random")),
        title="Clusters at start",
    )
    chains: int = setting(
        1,
        "sampler",
        "Number of independent chains; the result is the best state of all, the uncertainty is averaged over them.",
        low=1,
        high=64,
    )
    sweeps: int = setting(300, "sampler", "Number of sweeps of the chain.", low=0)
    stop: str = setting(
        "sweeps",
        "sampler",
        "When a run ends: after its sweeps, or as soon as the chains agree after the burn-in (agreement).",
        choices=("sweeps", "agreement"),
        title="Ends",
    )
    burn_in: float = setting(
        0.5,
        "sampler",
        "Fraction of the sweeps left out of the uncertainty.",
        low=0.0,
        high=1.0,
        open_high=True,
        title="Burn-in",
    )

    consensus: str = setting(
        "none",
        "result",
        "Which partition is the result: the best state (none), or the one with the least expected variation of "
        "information (vi) or Binder loss (binder) over the states seen after the burn-in.",
        choices=("none", "vi", "binder"),
    )
    polish: str = setting(
        "no",
        "result",
        "Whether the best state is improved site by site and merge by merge until nothing raises the log posterior.",
        choices=("no", "yes"),
        when=("consensus", ("none",)),
    )
    view: str = setting(
        "clusters",
        "result",
        "What labels stand for: clusters (what looks alike), regions (the connected parts of clusters), or objects "
        "on a background (the largest cluster, 0).",
        choices=("clusters", "regions", "objects"),
    )
    neck: float = setting(
        0.0,
        "result",
        "Objects are parted where they are thinner than this share of the smaller part; 0 leaves them together.",
        low=0.0,
        high=1.0,
        open_high=True,
        when=("view", ("objects",)),
        title="Part at necks",
    )
    min_region: int = setting(
        0,
        "result",
        "Regions with fewer pixels than this join a neighbour (objects: the background); 0 keeps all.",
        low=0,
        title="Smallest region",
    )
    merge: str = setting(
        "posterior",
        "result",
        "Which neighbour a small region joins: the one with which it is most probably one (posterior), or the one of "
        "nearest mean colour.",
        choices=("posterior", "colour"),
        when=("min_region", ()),
        title="Joins by",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_size is not None and self.max_size < self.min_size:
            raise InputError(f"max_size must be a whole number >= min_size ({self.min_size}), not {self.max_size}")
        if self.sampler == "bond-drawn" and self.bond_low > self.bond:
            raise InputError(f"bond_low must be a number in [0, bond = {self.bond:g}], not {self.bond_low:g}")

    def replace(self, **changes: Any) -> Self:
        """A copy with some settings changed. Who asks for a size of sites does not want a number of them."""
        if changes.get("site_size") is not None:
            changes = {"site_count": None} | changes
        return super().replace(**changes)

    def wanted_sites(self, pixels: int) -> int:
        """How many sites so many pixels are to become."""
        by_size = max(1, round(pixels / self.site_size))
        return min(self.site_count or min(by_size, self.most_sites or by_size), pixels)


def declarations() -> Mapping[str, Setting]:
    """All settings by name, in the order of the declaration."""
    return Settings.declarations()
