"""Every setting, declared once: the command line, the widget, the docs and the provenance read it here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from napari_gsw.core.errors import InputError
from napari_gsw.core.settings.declaration import Options, declare_in
from napari_gsw.core.versions import FormerName

# Sections of a form, in its order.
SECTIONS = ("image", "superpixels", "features", "prior", "coupling", "evidence", "strokes", "sampler", "result")
(
    in_image, in_superpixels, in_features, in_prior, in_coupling, in_evidence, in_strokes, in_sampler, in_result,
) = map(declare_in, SECTIONS)  # fmt: skip
# Names of settings in older versions.
RENAMED = {"boundaries": "boundary_model"}
# Fewest pixels of a superpixel, however far apart pixels are, unless fewer are asked for.
MIN_PIXELS = 6
# Pixels of a region at least, where the image and not a person says how many; a small image says fewer.
MIN_REGION_PIXELS = 300
# Range of the parameters of likelihoods and priors, in which the log posterior of each cluster is right to 1e-5.
MIN_PARAMETER, MAX_PARAMETER = 1e-100, 1e9
PARAMETER = f"({MIN_PARAMETER}, {MAX_PARAMETER}]"
# A larger coupling would drown the last digits of everything else.
MAX_BETA = 1e6
# How the range of a map's values is written.
RANGE_HELP = "auto guesses, LOW,HIGH such as 0,255, or logits for values that are log odds already."


def check_axes(axes: str, known: str = "ZYXCS") -> str:
    """Return the letters of axes in capitals, or ``auto``; an InputError tells which are allowed."""
    letters = axes if axes == "auto" else axes.upper()
    is_valid = set(letters) <= set(known) and len(set(letters)) == len(letters)
    if letters != "auto" and (not is_valid or not {"Y", "X"} <= set(letters) or {"C", "S"} <= set(letters)):
        raise InputError(
            f"axes must be auto or Y, X and possibly Z with at most one of C and S, such as ZYXC, not {axes!r}"
        )
    return letters


@dataclass(frozen=True)
class Settings(Options):
    """All settings of a segmentation; ``docs/settings.md`` is made from this class."""

    # A table, laid out by hand.
    # fmt: off
    # Reading of the image.
    axes: str = in_image("auto",
        "Order of the image's axes, such as YX, YXS (S: RGB samples), CYX or ZYX (C: channels); auto guesses.")
    spacing: str = in_image("auto", "Distance between pixels along each axis of space, such as 5,1,1 for planes that "
        "are five times as far apart as pixels; auto takes that of the file or the layer, or else the same along all.")
    denoise: str = in_superpixels("no", "Whether noise is taken off, where there is much, and colours of little "
        "contrast are stretched (auto). A photograph that is neither noisy nor pale stays as it is.",
        choices=("no", "auto"), title="Against noise")
    block_pixels: int = in_image(2**21,
        "Lazy images (zarr, dask) of more than eight times as many pixels are worked on in blocks of about so many.",
        bounds="[4096, inf)", title="Pixels of a block")

    # Range and noise of the pixels, and their grouping into sites.
    signal: str = in_superpixels("colour", "What is looked at: perceptual colour, or how far a pixel stands out from "
        "the background (objects: fluorescence, stains).", choices=("colour", "objects"), title="Look at")
    sites_from: str = in_superpixels("auto",
        "What sites follow: the image, or a map that is given beside it: features (contrast is then theirs too), or "
        "boundaries (watersheds of the map). auto follows boundaries where they are given and count, else the image.",
        choices=("auto", "image", "features", "boundaries"), title="Follow")
    objects: str = in_superpixels("classical", "How objects are found: by a network that has learnt what nuclei look "
        "like, whose fragments the posterior puts together (network: flat images in memory, and small volumes whose "
        "objects hardly stand out; needs onnxruntime), or by how they stand out alone (classical, which is also what "
        "is done where a network cannot look or sees nothing).",
        choices=("classical", "network"), active_if=("signal", ("objects",)), title="Objects by")
    superpixels: str = in_superpixels("slic",
        "How pixels are grouped into sites. Those of ridges lie between dark lines, and are as large as these allow.",
        choices=("slic", "felzenszwalb", "watershed", "grid", "ridges"), title="Method")
    site_size: int = in_superpixels(60,
        "Mean number of pixels in a site; with a spacing, of cubes of the smallest distance between pixels.",
        bounds="[1, inf)", active_if=("site_count", (None,)), title="Site size")
    site_count: int | None = in_superpixels(None,
        "Number of sites, whatever the size of the image; none goes by the site size.",
        bounds="[1, inf)", kind=int, optional=True, title="Number of sites")
    most_sites: int | None = in_superpixels(500_000, "Sites of an image at most, where they go by the site size: in a "
        "very large image they are larger than that; none for no limit.",
        bounds="[1, inf)", optional=True, active_if=("site_count", (None,)), title="Most sites")
    compactness: float = in_superpixels(10.0,
        "Large values make sites round and equal, small ones let them follow colour (slic, watershed).",
        bounds="(0, inf)", active_if=("superpixels", ("slic", "watershed")))
    refocus: str = in_superpixels("no",
        "Whether sites of a flat image of plain shapes that is out of focus follow borders drawn half way up its "
        "slopes (auto); others are left as they are, and so is an image that is read in blocks.",
        choices=("no", "auto"))
    smoothing: float = in_superpixels(0.0, "Width in pixels of the Gaussian blur before sites are made.",
        bounds="[0, 100]")

    # Features of a site in the likelihood (eq. 3), and their weights.
    likelihood: str = in_features("words",
        "What a site is described by: a histogram of colour words, an 8-bin luminance histogram, the continuous "
        "channels themselves (gaussian), or nothing but maps that are given beside the image (none).",
        choices=("words", "luminance", "gaussian", "none"))
    words: int = in_features(120, "Number of colour words in a codebook learnt from the image.",
        bounds="[1, 65535]", active_if=("likelihood", ("words",)), title="Colour words")
    colours: str = in_features("lab",
        "Colours in which the words of an RGB image are told apart: Lab, or hue, saturation and value.",
        choices=("lab", "hsv"), active_if=("likelihood", ("words",)), title="Colour space")
    codebook: str = in_features("auto", "Where the colour words come from: shipped (learnt on photographs, RGB only), "
        "image, the path of a saved codebook, or auto (shipped for RGB, else image).",
        built_in=("auto", "shipped", "image"),
        active_if=("likelihood", ("words",)))
    word_scale: float = in_features(0.0,
        "Difference of colour (in units of Lab) within which words that are learnt from the channels of an image count "
        "as alike, so that a ramp is one surface; 0 for none. The words of RGB images lie far apart anyway.",
        bounds="[0, inf)", active_if=("likelihood", ("words",)), title="Alike within")
    bins: int = in_features(8, "Number of bins of the luminance histogram.",
        bounds="[1, 65535]", active_if=("likelihood", ("luminance",)), title="Luminance bins")
    phi: float = in_features(50.0, "Concentration of the prior on a cluster's histogram.",
        bounds=PARAMETER, symbol="phi", active_if=("likelihood", ("words", "luminance")), title="Word smoothing")
    evidence: float | None = in_features(5.0,
        "Number of independent draws that a site's pixels are worth; none takes every pixel as one draw.",
        bounds=f"(0, {MAX_PARAMETER}]", optional=True, symbol="s")
    texture_words: int = in_features(0, "Number of texture words in a second histogram; 0 for none.",
        bounds="[0, 65535]")
    texture_phi: float = in_features(20.0, "Concentration of the prior on a cluster's texture histogram.",
        bounds=PARAMETER, active_if=("texture_words", ()), title="Texture concentration")
    texture_evidence: float | None = in_features(5.0,
        "Number of independent draws that a site's texture is worth; none for every pixel.",
        bounds=f"(0, {MAX_PARAMETER}]", optional=True, active_if=("texture_words", ()))
    graph_passes: int = in_features(0,
        "How often histograms are smoothed over the graph: each site borrows from neighbours that look alike.",
        bounds="[0, 1000]", title="Smoothing passes")
    graph_scale: float = in_features(12.0, "Difference of colour (in units of Lab) across which little is borrowed.",
        bounds="(0, inf)", active_if=("graph_passes", ()), title="Smoothing scale")
    position: float = in_features(0.0,
        "Number of draws that a site's place in the image is worth: keeps clusters together in space; 0 for none.",
        bounds=f"[0, {MAX_PARAMETER}]", title="Position")
    gauss_kappa: float = in_features(0.01, "How many draws the prior mean of a Gaussian cluster is worth.",
        bounds=PARAMETER, active_if=("likelihood", ("gaussian",)), title="Weight of prior mean")
    gauss_shape: float | None = in_features(3.0, "Shape of the inverse-gamma prior on the variance within a Gaussian "
        "cluster; none takes the expected variance for certain.",
        bounds=f"(1, {MAX_PARAMETER}]", optional=True, active_if=("likelihood", ("gaussian",)),
        title="Shape of variance")
    gauss_spread: float = in_features(0.05,
        "Expected variance within a Gaussian cluster, as a fraction of the image's variance.",
        bounds=PARAMETER, active_if=("likelihood", ("gaussian",)), title="Expected spread")

    # The prior on partitions (eq. 6 to 11).
    prior: str = in_prior("dirichlet-process", "Prior on the number and the sizes of clusters.",
        choices=("dirichlet-process", "pitman-yor", "finite-dirichlet", "potts"))
    alpha: float = in_prior(3.0, "Concentration: larger values expect more clusters.",
        bounds=f"(-inf, {MAX_PARAMETER}]", symbol="alpha",
        active_if=("prior", ("dirichlet-process", "pitman-yor", "finite-dirichlet")), title="Concentration")
    theta: float = in_prior(0.25,
        "Discount of the Pitman-Yor prior: in [0, 1) with alpha > -theta, or negative with alpha = -L theta.",
        bounds=f"[{-MAX_PARAMETER}, 1)", symbol="theta", active_if=("prior", ("pitman-yor",)), title="Discount")
    K: int = in_prior(20, "Largest number of clusters (finite-dirichlet, potts).",
        bounds="[1, inf)", symbol="K", active_if=("prior", ("finite-dirichlet", "potts")), title="Most clusters")
    min_size: int = in_prior(1, "Smallest number of sites in a cluster.",
        bounds="[0, inf)", symbol="T_min", title="Smallest cluster")
    max_size: int | None = in_prior(None, "Largest number of sites in a cluster, or none.",
        bounds="[1, inf)", kind=int, optional=True, symbol="T_max", title="Largest cluster")

    # Which sites are neighbours, and their beta_ij (eq. 12).
    neighbourhood: int = in_coupling(1, "1 couples sites that touch, 2 also the neighbours of neighbours.",
        bounds="[1, 2]", title="Neighbourhood")
    second_weight: float = in_coupling(0.5, "Coupling of second-order neighbours relative to sites that touch.",
        bounds="[0, inf)", active_if=("neighbourhood", (2,)), title="Second-order weight")
    coupling: str = in_coupling("constant", "How beta varies from edge to edge: not at all, with the length of the "
        "common boundary, falling with the contrast across it, as learnt from the boundaries that people draw, or by a "
        "map of boundaries alone, which otherwise adds to it.",
        choices=("constant", "length", "contrast", "learnt", "boundaries"), title="Varies with")
    beta: float = in_coupling(0.02, "Strength with which neighbours share a cluster.",
        bounds=f"[0, {MAX_BETA}]", symbol="beta", title="Strength")
    contrast_scale: float = in_coupling(5.0,
        "Contrast (in units of Lab colour) at which the coupling has fallen to 37 %.",
        bounds="(0, inf)", active_if=("coupling", ("contrast",)))
    colour_scale: float | None = in_coupling(None, "Difference between the mean colours of two sites, smoothed over "
        "the graph (in units of Lab), at which the coupling has fallen to 37 %; none leaves it out.",
        bounds="(0, inf)", kind=float, optional=True, active_if=("coupling", ("contrast",)), title="Colour scale")
    texture_scale: float | None = in_coupling(None, "Distance between the texture words of two sites, smoothed over "
        "the graph (chi2, 0 to 1), at which the coupling has fallen to 37 %; none leaves it out.",
        bounds="(0, inf)", kind=float, optional=True, active_if=("coupling", ("contrast",)), title="Texture scale")
    boundary_model: str = in_coupling("shipped", "What learnt couplings go by, and objects that a network sees: "
        "shipped, membranes (learnt on electron micrographs), or the path of a saved model.",
        built_in=("shipped", "membranes"),
        active_if=("coupling", ("learnt",)), title="Learnt from")
    network: str = in_coupling("shipped", "A network whose boundaries are a cue of learnt couplings, or that sees "
        "objects: shipped (learnt on photographs, and on nuclei; needs onnxruntime), none, or the path of a saved one.",
        built_in=("shipped", "none"),
        active_if=("coupling", ("learnt",)))
    offset: float = in_coupling(1.0,
        "Log odds for one segment from which on a learnt coupling attracts; larger values make more regions.",
        active_if=("coupling", ("learnt",)), title="Neutral log odds")
    repulsion: float = in_coupling(1.0,
        "Weight of learnt couplings that push neighbours apart; 0 leaves only those that attract.",
        bounds="[0, inf)", active_if=("coupling", ("learnt",)), title="Repulsion")

    # Meaning of input maps, and their weight beside the image.
    channel_axis: str = in_evidence("auto",
        "Which axis of a map of features holds its channels; auto is the one that is not the image's.",
        choices=("auto", "first", "last"), title="Channels of features")
    components: int = in_evidence(8,
        "Features of more channels than this are reduced to so many principal components, each of variance 1.",
        bounds="[1, 64]", title="Most components")
    features_evidence: float | None = in_evidence(20.0,
        "Number of independent draws that a site's pixels are worth in a map of features; none takes every pixel.",
        bounds=f"(0, {MAX_PARAMETER}]", optional=True, title="Weight of features")
    boundaries_range: str = in_evidence("auto",
        f"The values of a map of boundaries that mean no boundary and a certain one: {RANGE_HELP}",
        title="Range of boundaries")
    boundaries_level: float = in_evidence(0.5, "Probability of a boundary at which two sites neither attract nor repel "
        "each other; smaller values make more regions.", bounds="(0, 1)", title="Neutral probability")
    boundaries_weight: float = in_evidence(2.0,
        "Weight of a map of boundaries: the coupling of two sites for each unit of its log odds between them.",
        bounds="[0, 1000]", title="Weight of boundaries")
    foreground_range: str = in_evidence("auto",
        f"The values of a map of the foreground that mean background and certain foreground: {RANGE_HELP}",
        title="Range of foreground")
    foreground_names: str = in_evidence("background", "Which clusters a map of the foreground names: the background "
        "alone (label 1; all else may be many clusters), or both (the foreground is label 2).",
        choices=("background", "both"), title="Foreground names")
    foreground_weight: float = in_evidence(1.0,
        "Weight of a map of the foreground: what a site gains in the right cluster for each unit of its log odds.",
        bounds="[0, 1000]", title="Weight of foreground")

    # Effect of painted labels on sites that nobody painted.
    steering: float = in_strokes(1.5, "How strongly strokes speak for sites that they do not touch but that are near "
        "and look alike; 0: a stroke only holds what it covers.", bounds="[0, 1000]", title="Reach of strokes")
    painted_detail: float = in_strokes(1.0, "How many times as many superpixels there are if every label is painted "
        "before the run, so that outlines follow the image more closely.",
        bounds="[1, 100]", title="Detail of painted labels")
    only_painted: str = in_strokes("auto",
        "Whether every pixel gets one of the painted labels (yes) or the model may find more (no); auto is yes if two "
        "or more labels are painted before the first sweep, unless objects are looked for.",
        choices=("auto", "yes", "no"), title="Only my labels")

    # Bonds (eq. 18 and 24), moves, start and end of the chains.
    sampler: str = in_sampler("gsw", "How sites are bonded in a sweep: by lambda (gsw), lambda 1 (swendsen-wang), not "
        "at all (gibbs), lambda falling with the distance of the sites (data-driven), by a bond probability (bond), or "
        "by one drawn for each sweep (bond-drawn).",
        choices=("gsw", "swendsen-wang", "gibbs", "data-driven", "bond", "bond-drawn"))
    lam: float = in_sampler(10.0, "Bond strength relative to the coupling.",
        bounds="[0, inf)", symbol="lambda", active_if=("sampler", ("gsw", "data-driven")), title="Bond strength")
    tau: float = in_sampler(1.0, "How fast lambda falls with distance (data-driven).",
        bounds="[0, inf)", symbol="tau", active_if=("sampler", ("data-driven",)), title="Fall with distance")
    distance: str = in_sampler("hellinger", "Distance between two sites' features (data-driven): hellinger, chi2 or "
        "total-variation between histograms, euclidean between channel means.",
        choices=("hellinger", "chi2", "total-variation", "euclidean"), active_if=("sampler", ("data-driven",)))
    bond: float = in_sampler(0.2, "Probability that an edge of mean coupling inside a cluster is bonded (bond), or the "
        "largest such probability drawn (bond-drawn).",
        bounds="[0, 1)", active_if=("sampler", ("bond", "bond-drawn")), title="Bond probability")
    bond_low: float = in_sampler(0.0, "Smallest bond probability drawn (bond-drawn).",
        bounds="[0, 1)", active_if=("sampler", ("bond-drawn",)), title="Least probability")
    bond_cap: float | None = in_sampler(None,
        "Upper limit of beta times delta on an edge, or none; keeps spin clusters from percolating.",
        bounds="[0, inf)", kind=float, optional=True, active_if=("sampler", ("gsw", "swendsen-wang", "data-driven")),
        title="Bond limit")
    regroups: int | None = in_sampler(None,
        "Whole-cluster moves (merge, split, exchange) for each sweep; none makes one where cluster sizes are limited.",
        bounds="[0, inf)", kind=int, optional=True, title="Whole-cluster moves")
    splits: int = in_sampler(0,
        "Moves for each sweep that split a cluster or merge two, informed by the marginal likelihood.",
        bounds="[0, inf)", title="Split-merge moves")
    full_scans: float = in_sampler(1.0, "Share of the sweeps in which a site weighs every cluster; in the others only "
        "those of its neighbours and a new one, which is faster where there are many clusters.",
        bounds="(0, 1]", title="Full scans")
    hot: float = in_sampler(1.0,
        "Temperature of the first sweep, which falls to 1 over the burn-in (annealing); 1 for none.",
        bounds="[1, inf)", title="First temperature")
    replicas: int = in_sampler(1,
        "Copies of each chain at rising temperatures that exchange their states (parallel tempering); 1 for none.",
        bounds="[1, 64]", title="Tempering replicas")
    hottest: float = in_sampler(4.0, "Temperature of the hottest copy.",
        bounds="(1, inf)", active_if=("replicas", tuple(range(2, 65))), title="Hottest replica")
    start: str = in_sampler("one", "First state of the chain: one cluster (of several chains, the others from random "
        "clusters), every site its own, or random clusters.", choices=("one", "singletons", "random"))
    start_clusters: int = in_sampler(20, "Number of clusters of a random start.",
        bounds="[1, inf)", active_if=("start", ("one", "random")), title="Clusters at start")
    chains: int = in_sampler(1,
        "Number of independent chains; the result is the best state of all, the uncertainty is averaged over them.",
        bounds="[1, 64]")
    sweeps: int = in_sampler(300, "Number of sweeps of the chain.", bounds="[0, inf)")
    stop: str = in_sampler("sweeps",
        "When a run ends: after its sweeps, or as soon as the chains agree after the burn-in (agreement).",
        choices=("sweeps", "agreement"), title="Ends")
    burn_in: float = in_sampler(0.5, "Fraction of the sweeps left out of the uncertainty.",
        bounds="[0, 1)", title="Burn-in")

    # Which partition is the result, and how it is shown.
    consensus: str = in_result("none",
        "Which partition is the result: the best state (none), or the most typical of the states seen after the "
        "burn-in, by the information that it shares with them (vi) or by pairs of sites (binder).",
        choices=("none", "vi", "binder"))
    polish: str = in_result("no",
        "Whether the best state is improved site by site and merge by merge until nothing raises the log posterior.",
        choices=("no", "yes"), active_if=("consensus", ("none",)))
    view: str = in_result("clusters", "What labels stand for: clusters (what looks alike), regions (the connected "
        "parts of clusters), or objects on a background (the largest cluster, 0).",
        choices=("clusters", "regions", "objects"))
    neck: float = in_result(0.0,
        "Objects are parted where they are thinner than this share of the smaller part; 0 leaves them together.",
        bounds="[0, 1)", active_if=("view", ("objects",)), title="Part at necks")
    distinction: float = in_result(0.0,
        "How distinct objects are at least, by the steepness of their borders and their contrast (noise 3 to 6, nuclei "
        "7 and more); what is less distinct or out of focus is background; 0 keeps all.",
        bounds="[0, inf)", active_if=("view", ("objects",)), title="Distinct objects")
    min_region: int | None = in_result(0, "Regions with fewer pixels than this (with a spacing, cubes of the smallest "
        f"distance) join a neighbour (objects: the background); 0 keeps all, none is {MIN_REGION_PIXELS}, or a "
        "fiftieth of the image if that is less.",
        bounds="[0, inf)", optional=True, usual=MIN_REGION_PIXELS, title="Smallest region")
    merge: str = in_result("posterior", "Which neighbour a small region joins: the one with which it is most probably "
        "one (posterior), or the one of nearest mean colour.",
        choices=("posterior", "colour"), active_if=("min_region", ()), title="Joins by")
    join: float = in_result(0.0,
        "Neighbouring regions join whose boundary is weaker than this, on the scale of Detail: with learnt couplings "
        "the probability that people draw it. Regions that a person has painted stay; 0 keeps all.",
        bounds="[0, 1)", active_if=("view", ("regions",)), title="Weakest boundary")
    # fmt: on

    def __post_init__(self) -> None:
        super().__post_init__()
        check_axes(self.axes, "TZYXCS")  # a lazy image may have a time axis of length 1
        if self.max_size is not None and self.max_size < self.min_size:
            raise InputError(f"max_size must be a whole number >= min_size ({self.min_size}), not {self.max_size}")
        if self.sampler == "bond-drawn" and self.bond_low > self.bond:
            raise InputError(f"bond_low must be a number in [0, bond = {self.bond:g}], not {self.bond_low:g}")

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some settings changed; a size of superpixels replaces their number."""
        if changes.get("site_size") is not None:
            changes = {"site_count": None} | changes
        return super().replace(**changes)

    def is_active(self, name: str) -> bool:
        """Return whether a setting has any effect; a network that finds objects uses two settings of the couplings."""
        if name in ("boundary_model", "network") and self.objects == "network" and self.is_active("objects"):
            return True
        return super().is_active(name)

    @property
    def calm(self) -> bool:
        """True if noise and weak contrast are looked for."""
        return self.denoise == "auto"

    def site_count_for(self, pixels: int, volume: float = 1.0) -> int:
        """Return how many superpixels an image of so many pixels gets.

        With a spacing, `site_size` counts cubes of the smallest distance between pixels, and `volume` is how many of
        these a pixel is. But a superpixel has at least `MIN_PIXELS` pixels.
        """
        size = max(self.site_size / volume, min(self.site_size, MIN_PIXELS)) if volume > 1 else self.site_size
        by_size = max(1, round(pixels / size))
        return min(self.site_count or min(by_size, self.most_sites or by_size), pixels)

    declarations = FormerName("setting_fields")
    matters = FormerName("is_active")
    wanted_sites = FormerName("site_count_for")


# All settings by name, in the order of the declaration.
setting_fields = Settings.setting_fields


def upgrade_names(values: Mapping[str, Any]) -> dict[str, Any]:
    """Replace the names of settings in a file of an older version by those of today.

    >>> upgrade_names({"beta": 2.0, "boundaries": "shipped"})
    {'beta': 2.0, 'boundary_model': 'shipped'}
    """
    return {RENAMED.get(name, name): value for name, value in values.items()}
