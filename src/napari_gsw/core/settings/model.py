"""Settings of the model: what the likelihood sees of a site, the prior on partitions, and the couplings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from napari_gsw.core.settings.setting import POSITIVE, Options, setting

# Parameters of likelihoods and priors lie in this range, in which the log posterior of each cluster is right to 1e-5.
# Nothing is to be had beyond: a prior worth 1e9 draws is as good as certain, and one worth 1e-100 as good as none.
MIN_PARAMETER, MAX_PARAMETER = 1e-100, 1e9
PARAMETER: Mapping[str, Any] = {"low": MIN_PARAMETER, "exclusive_min": True, "high": MAX_PARAMETER}
# A coupling beyond this would drown the last digits of everything else; exp(1e6) is as good as a bond already.
MAX_BETA = 1e6


@dataclass(frozen=True)
class FeatureSettings(Options):
    """What the likelihood (eq. 3) sees of a site, and what it is worth."""

    likelihood: str = setting(
        "words",
        "features",
        "What a site is described by: a histogram of colour words, an 8-bin luminance histogram, "
        "the continuous channels themselves (gaussian), or nothing but maps that are given beside the image (none).",
        choices=("words", "luminance", "gaussian", "none"),
    )
    words: int = setting(
        120,
        "features",
        "Number of colour words in a codebook learnt from the image.",
        low=1,
        high=65535,
        active_if=("likelihood", ("words",)),
        title="Colour words",
    )
    colours: str = setting(
        "lab",
        "features",
        "Colours in which the words of an RGB image are told apart: Lab, or hue, saturation and value.",
        choices=("lab", "hsv"),
        active_if=("likelihood", ("words",)),
        title="Colour space",
    )
    codebook: str = setting(
        "auto",
        "features",
        "Where the colour words come from: shipped (learnt on photographs, RGB only), image, the path of a "
        "saved codebook, or auto (shipped for RGB, else image).",
        active_if=("likelihood", ("words",)),
    )
    word_scale: float = setting(
        0.0,
        "features",
        "Difference of colour (in units of Lab) within which words that are learnt from the channels of an image count "
        "as alike, so that a ramp is one surface; 0 for none. The words of RGB images lie far apart anyway.",
        low=0.0,
        active_if=("likelihood", ("words",)),
        title="Alike within",
    )
    bins: int = setting(
        8,
        "features",
        "Number of bins of the luminance histogram.",
        low=1,
        high=65535,
        active_if=("likelihood", ("luminance",)),
        title="Luminance bins",
    )
    phi: float = setting(
        50.0,
        "features",
        "Concentration of the prior on a cluster's histogram.",
        **PARAMETER,
        symbol="phi",
        active_if=("likelihood", ("words", "luminance")),
        title="Word smoothing",
    )
    evidence: float | None = setting(
        5.0,
        "features",
        "Number of independent draws that a site's pixels are worth; none takes every pixel as one draw.",
        kind=float,
        optional=True,
        **POSITIVE,
        high=MAX_PARAMETER,
        symbol="s",
    )
    texture_words: int = setting(
        0, "features", "Number of texture words in a second histogram; 0 for none.", low=0, high=65535
    )
    texture_phi: float = setting(
        20.0,
        "features",
        "Concentration of the prior on a cluster's texture histogram.",
        **PARAMETER,
        active_if=("texture_words", ()),
        title="Texture concentration",
    )
    texture_evidence: float | None = setting(
        5.0,
        "features",
        "Number of independent draws that a site's texture is worth; none for every pixel.",
        kind=float,
        optional=True,
        **POSITIVE,
        high=MAX_PARAMETER,
        active_if=("texture_words", ()),
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
        **POSITIVE,
        active_if=("graph_passes", ()),
        title="Smoothing scale",
    )
    position: float = setting(
        0.0,
        "features",
        "Number of draws that a site's place in the image is worth: keeps clusters together in space; 0 for none.",
        low=0.0,
        high=MAX_PARAMETER,
        title="Position",
    )
    gauss_kappa: float = setting(
        0.01,
        "features",
        "How many draws the prior mean of a Gaussian cluster is worth.",
        **PARAMETER,
        active_if=("likelihood", ("gaussian",)),
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
        exclusive_min=True,
        high=MAX_PARAMETER,
        active_if=("likelihood", ("gaussian",)),
        title="Shape of variance",
    )
    gauss_spread: float = setting(
        0.05,
        "features",
        "Expected variance within a Gaussian cluster, as a fraction of the image's variance.",
        **PARAMETER,
        active_if=("likelihood", ("gaussian",)),
        title="Expected spread",
    )


@dataclass(frozen=True)
class PriorSettings(Options):
    """The prior on partitions (eq. 6 to 11)."""

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
        high=MAX_PARAMETER,
        symbol="alpha",
        active_if=("prior", ("dirichlet-process", "pitman-yor", "finite-dirichlet")),
        title="Concentration",
    )
    theta: float = setting(
        0.25,
        "prior",
        "Discount of the Pitman-Yor prior: in [0, 1) with alpha > -theta, or negative with alpha = -L theta.",
        low=-MAX_PARAMETER,
        high=1.0,
        exclusive_max=True,
        symbol="theta",
        active_if=("prior", ("pitman-yor",)),
        title="Discount",
    )
    K: int = setting(
        20,
        "prior",
        "Largest number of clusters (finite-dirichlet, potts).",
        low=1,
        symbol="K",
        active_if=("prior", ("finite-dirichlet", "potts")),
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


@dataclass(frozen=True)
class CouplingSettings(Options):
    """Which sites are neighbours, and their beta_ij (eq. 12)."""

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
        active_if=("neighbourhood", (2,)),
        title="Second-order weight",
    )
    coupling: str = setting(
        "constant",
        "coupling",
        "How beta varies from edge to edge: not at all, with the length of the common boundary, falling with the "
        "contrast across it, as learnt from the boundaries that people draw, or by a map of boundaries alone, which "
        "otherwise adds to it.",
        choices=("constant", "length", "contrast", "learnt", "boundaries"),
        title="Varies with",
    )
    beta: float = setting(
        0.02,
        "coupling",
        "Strength with which neighbours share a cluster.",
        low=0.0,
        high=MAX_BETA,
        symbol="beta",
        title="Strength",
    )
    contrast_scale: float = setting(
        5.0,
        "coupling",
        "Contrast (in units of Lab colour) at which the coupling has fallen to 37 %.",
        **POSITIVE,
        active_if=("coupling", ("contrast",)),
    )
    colour_scale: float | None = setting(
        None,
        "coupling",
        "Difference between the mean colours of two sites, smoothed over the graph (in units of Lab), at which the "
        "coupling has fallen to 37 %; none leaves it out.",
        kind=float,
        optional=True,
        **POSITIVE,
        active_if=("coupling", ("contrast",)),
        title="Colour scale",
    )
    texture_scale: float | None = setting(
        None,
        "coupling",
        "Distance between the texture words of two sites, smoothed over the graph (chi2, 0 to 1), at which the "
        "coupling has fallen to 37 %; none leaves it out.",
        kind=float,
        optional=True,
        **POSITIVE,
        active_if=("coupling", ("contrast",)),
        title="Texture scale",
    )
    boundary_model: str = setting(
        "shipped",
        "coupling",
        "What learnt couplings go by, and objects that a network sees: shipped, membranes (learnt on electron "
        "micrographs), or the path of a saved model.",
        active_if=("coupling", ("learnt",)),
        title="Learnt from",
    )
    network: str = setting(
        "shipped",
        "coupling",
        "A network whose boundaries are a cue of learnt couplings, or that sees objects: shipped (learnt on "
        "photographs, and on nuclei; needs onnxruntime), none, or the path of a saved one.",
        active_if=("coupling", ("learnt",)),
    )
    offset: float = setting(
        1.0,
        "coupling",
        "Log odds for one segment from which on a learnt coupling attracts; larger values make more regions.",
        active_if=("coupling", ("learnt",)),
        title="Neutral log odds",
    )
    repulsion: float = setting(
        1.0,
        "coupling",
        "Weight of learnt couplings that push neighbours apart; 0 leaves only those that attract.",
        low=0.0,
        active_if=("coupling", ("learnt",)),
        title="Repulsion",
    )
