"""Settings of the model: likelihood, maps that a user brings beside the image, prior on partitions, couplings."""

from __future__ import annotations

from dataclasses import dataclass

from napari_gsw.core.settings.setting import Options, declare_in

# Range of the parameters of likelihoods and priors, in which the log posterior of each cluster is right to 1e-5.
MIN_PARAMETER, MAX_PARAMETER = 1e-100, 1e9
PARAMETER = f"({MIN_PARAMETER}, {MAX_PARAMETER}]"
# A larger coupling would drown the last digits of everything else.
MAX_BETA = 1e6
# How the range of a map's values is written.
RANGE_HELP = "auto guesses, LOW,HIGH such as 0,255, or logits for values that are log odds already."

# Laid out by hand, so that a setting takes few lines.
# fmt: off
features_setting = declare_in("features")
evidence_setting = declare_in("evidence")
prior_setting = declare_in("prior")
coupling_setting = declare_in("coupling")


@dataclass(frozen=True)
class FeatureSettings(Options):
    """Features of a site in the likelihood (eq. 3), and their weights."""

    likelihood: str = features_setting(
        "words", "What a site is described by: a histogram of colour words, an 8-bin luminance histogram, the "
        "continuous channels themselves (gaussian), or nothing but maps that are given beside the image (none).",
        choices=("words", "luminance", "gaussian", "none"),
    )
    words: int = features_setting(
        120, "Number of colour words in a codebook learnt from the image.",
        bounds="[1, 65535]", active_if=("likelihood", ("words",)), title="Colour words",
    )
    colours: str = features_setting(
        "lab", "Colours in which the words of an RGB image are told apart: Lab, or hue, saturation and value.",
        choices=("lab", "hsv"), active_if=("likelihood", ("words",)), title="Colour space",
    )
    codebook: str = features_setting(
        "auto", "Where the colour words come from: shipped (learnt on photographs, RGB only), image, the path of a "
        "saved codebook, or auto (shipped for RGB, else image).", active_if=("likelihood", ("words",)),
    )
    word_scale: float = features_setting(
        0.0, "Difference of colour (in units of Lab) within which words that are learnt from the channels of an image "
        "count as alike, so that a ramp is one surface; 0 for none. The words of RGB images lie far apart anyway.",
        bounds="[0, inf)", active_if=("likelihood", ("words",)), title="Alike within",
    )
    bins: int = features_setting(
        8, "Number of bins of the luminance histogram.",
        bounds="[1, 65535]", active_if=("likelihood", ("luminance",)), title="Luminance bins",
    )
    phi: float = features_setting(
        50.0, "Concentration of the prior on a cluster's histogram.",
        bounds=PARAMETER, symbol="phi", active_if=("likelihood", ("words", "luminance")), title="Word smoothing",
    )
    evidence: float | None = features_setting(
        5.0, "Number of independent draws that a site's pixels are worth; none takes every pixel as one draw.",
        bounds=f"(0, {MAX_PARAMETER}]", optional=True, symbol="s",
    )
    texture_words: int = features_setting(
        0, "Number of texture words in a second histogram; 0 for none.", bounds="[0, 65535]",
    )
    texture_phi: float = features_setting(
        20.0, "Concentration of the prior on a cluster's texture histogram.",
        bounds=PARAMETER, active_if=("texture_words", ()), title="Texture concentration",
    )
    texture_evidence: float | None = features_setting(
        5.0, "Number of independent draws that a site's texture is worth; none for every pixel.",
        bounds=f"(0, {MAX_PARAMETER}]", optional=True, active_if=("texture_words", ()),
    )
    graph_passes: int = features_setting(
        0, "How often histograms are smoothed over the graph: each site borrows from neighbours that look alike.",
        bounds="[0, 1000]", title="Smoothing passes",
    )
    graph_scale: float = features_setting(
        12.0, "Difference of colour (in units of Lab) across which little is borrowed.",
        bounds="(0, inf)", active_if=("graph_passes", ()), title="Smoothing scale",
    )
    position: float = features_setting(
        0.0, "Number of draws that a site's place in the image is worth: keeps clusters together in space; 0 for none.",
        bounds=f"[0, {MAX_PARAMETER}]", title="Position",
    )
    gauss_kappa: float = features_setting(
        0.01, "How many draws the prior mean of a Gaussian cluster is worth.",
        bounds=PARAMETER, active_if=("likelihood", ("gaussian",)), title="Weight of prior mean",
    )
    gauss_shape: float | None = features_setting(
        3.0, "Shape of the inverse-gamma prior on the variance within a Gaussian cluster; none takes the expected "
        "variance for certain.",
        bounds=f"(1, {MAX_PARAMETER}]", optional=True, active_if=("likelihood", ("gaussian",)),
        title="Shape of variance",
    )
    gauss_spread: float = features_setting(
        0.05, "Expected variance within a Gaussian cluster, as a fraction of the image's variance.",
        bounds=PARAMETER, active_if=("likelihood", ("gaussian",)), title="Expected spread",
    )


@dataclass(frozen=True)
class PriorSettings(Options):
    """The prior on partitions (eq. 6 to 11)."""

    prior: str = prior_setting(
        "dirichlet-process", "Prior on the number and the sizes of clusters.",
        choices=("dirichlet-process", "pitman-yor", "finite-dirichlet", "potts"),
    )
    alpha: float = prior_setting(
        3.0, "Concentration: larger values expect more clusters.",
        bounds=f"(-inf, {MAX_PARAMETER}]", symbol="alpha",
        active_if=("prior", ("dirichlet-process", "pitman-yor", "finite-dirichlet")), title="Concentration",
    )
    theta: float = prior_setting(
        0.25, "Discount of the Pitman-Yor prior: in [0, 1) with alpha > -theta, or negative with alpha = -L theta.",
        bounds=f"[{-MAX_PARAMETER}, 1)", symbol="theta", active_if=("prior", ("pitman-yor",)), title="Discount",
    )
    K: int = prior_setting(
        20, "Largest number of clusters (finite-dirichlet, potts).",
        bounds="[1, inf)", symbol="K", active_if=("prior", ("finite-dirichlet", "potts")), title="Most clusters",
    )
    min_size: int = prior_setting(
        1, "Smallest number of sites in a cluster.", bounds="[0, inf)", symbol="T_min", title="Smallest cluster",
    )
    max_size: int | None = prior_setting(
        None, "Largest number of sites in a cluster, or none.",
        bounds="[1, inf)", kind=int, optional=True, symbol="T_max", title="Largest cluster",
    )


@dataclass(frozen=True)
class CouplingSettings(Options):
    """Which sites are neighbours, and their beta_ij (eq. 12)."""

    neighbourhood: int = coupling_setting(
        1, "1 couples sites that touch, 2 also the neighbours of neighbours.", bounds="[1, 2]", title="Neighbourhood",
    )
    second_weight: float = coupling_setting(
        0.5, "Coupling of second-order neighbours relative to sites that touch.",
        bounds="[0, inf)", active_if=("neighbourhood", (2,)), title="Second-order weight",
    )
    coupling: str = coupling_setting(
        "constant", "How beta varies from edge to edge: not at all, with the length of the common boundary, falling "
        "with the contrast across it, as learnt from the boundaries that people draw, or by a map of boundaries "
        "alone, which otherwise adds to it.",
        choices=("constant", "length", "contrast", "learnt", "boundaries"), title="Varies with",
    )
    beta: float = coupling_setting(
        0.02, "Strength with which neighbours share a cluster.",
        bounds=f"[0, {MAX_BETA}]", symbol="beta", title="Strength",
    )
    contrast_scale: float = coupling_setting(
        5.0, "Contrast (in units of Lab colour) at which the coupling has fallen to 37 %.",
        bounds="(0, inf)", active_if=("coupling", ("contrast",)),
    )
    colour_scale: float | None = coupling_setting(
        None, "Difference between the mean colours of two sites, smoothed over the graph (in units of Lab), at which "
        "the coupling has fallen to 37 %; none leaves it out.",
        bounds="(0, inf)", kind=float, optional=True, active_if=("coupling", ("contrast",)), title="Colour scale",
    )
    texture_scale: float | None = coupling_setting(
        None, "Distance between the texture words of two sites, smoothed over the graph (chi2, 0 to 1), at which the "
        "coupling has fallen to 37 %; none leaves it out.",
        bounds="(0, inf)", kind=float, optional=True, active_if=("coupling", ("contrast",)), title="Texture scale",
    )
    boundary_model: str = coupling_setting(
        "shipped", "What learnt couplings go by, and objects that a network sees: shipped, membranes (learnt on "
        "electron micrographs), or the path of a saved model.",
        active_if=("coupling", ("learnt",)), title="Learnt from",
    )
    network: str = coupling_setting(
        "shipped", "A network whose boundaries are a cue of learnt couplings, or that sees objects: shipped (learnt "
        "on photographs, and on nuclei; needs onnxruntime), none, or the path of a saved one.",
        active_if=("coupling", ("learnt",)),
    )
    offset: float = coupling_setting(
        1.0, "Log odds for one segment from which on a learnt coupling attracts; larger values make more regions.",
        active_if=("coupling", ("learnt",)), title="Neutral log odds",
    )
    repulsion: float = coupling_setting(
        1.0, "Weight of learnt couplings that push neighbours apart; 0 leaves only those that attract.",
        bounds="[0, inf)", active_if=("coupling", ("learnt",)), title="Repulsion",
    )


@dataclass(frozen=True)
class InputMapSettings(Options):
    """Meaning of input maps, and their weight beside the image."""

    channel_axis: str = evidence_setting(
        "auto", "Which axis of a map of features holds its channels; auto is the one that is not the image's.",
        choices=("auto", "first", "last"), title="Channels of features",
    )
    components: int = evidence_setting(
        8, "Features of more channels than this are reduced to so many principal components, each of variance 1.",
        bounds="[1, 64]", title="Most components",
    )
    features_evidence: float | None = evidence_setting(
        20.0, "Number of independent draws that a site's pixels are worth in a map of features; none takes every "
        "pixel.", bounds=f"(0, {MAX_PARAMETER}]", optional=True, title="Weight of features",
    )
    boundaries_range: str = evidence_setting(
        "auto", f"The values of a map of boundaries that mean no boundary and a certain one: {RANGE_HELP}",
        title="Range of boundaries",
    )
    boundaries_level: float = evidence_setting(
        0.5, "Probability of a boundary at which two sites neither attract nor repel each other; smaller values make "
        "more regions.", bounds="(0, 1)", title="Neutral probability",
    )
    boundaries_weight: float = evidence_setting(
        2.0, "Weight of a map of boundaries: the coupling of two sites for each unit of its log odds between them.",
        bounds="[0, 1000]", title="Weight of boundaries",
    )
    foreground_range: str = evidence_setting(
        "auto", f"The values of a map of the foreground that mean background and certain foreground: {RANGE_HELP}",
        title="Range of foreground",
    )
    foreground_names: str = evidence_setting(
        "background", "Which clusters a map of the foreground names: the background alone (label 1; all else may be "
        "many clusters), or both (the foreground is label 2).",
        choices=("background", "both"), title="Foreground names",
    )
    foreground_weight: float = evidence_setting(
        1.0, "Weight of a map of the foreground: what a site gains in the right cluster for each unit of its log odds.",
        bounds="[0, 1000]", title="Weight of foreground",
    )
