"""Settings of scribbles, of the chain, and of what is made of its states."""

from __future__ import annotations

from dataclasses import dataclass

from napari_gsw.core.settings.setting import Options, declare_in

# Pixels of a region at least, where the image and not a person says how many; a small image says fewer.
MIN_REGION_PIXELS = 300

# Laid out by hand, so that a setting takes few lines.
# fmt: off
strokes_setting = declare_in("strokes")
sampler_setting = declare_in("sampler")
result_setting = declare_in("result")


@dataclass(frozen=True)
class ScribbleSettings(Options):
    """Effect of painted labels on sites that nobody painted."""

    steering: float = strokes_setting(
        1.5, "How strongly strokes speak for sites that they do not touch but that are near and look alike; 0: a "
        "stroke only holds what it covers.", bounds="[0, 1000]", title="Reach of strokes",
    )
    painted_detail: float = strokes_setting(
        1.0, "How many times as many superpixels there are if every label is painted before the run, so that outlines "
        "follow the image more closely.", bounds="[1, 100]", title="Detail of painted labels",
    )
    only_painted: str = strokes_setting(
        "auto", "Whether every pixel gets one of the painted labels (yes) or the model may find more (no); auto is "
        "yes if two or more labels are painted before the first sweep, unless objects are looked for.",
        choices=("auto", "yes", "no"), title="Only my labels",
    )


@dataclass(frozen=True)
class SamplerSettings(Options):
    """Bonds (eq. 18 and 24), moves, start and end of the chains."""

    sampler: str = sampler_setting(
        "gsw", "How sites are bonded in a sweep: by lambda (gsw), lambda 1 (swendsen-wang), not at all (gibbs), "
        "lambda falling with the distance of the sites (data-driven), by a bond probability (bond), or by one drawn "
        "for each sweep (bond-drawn).", choices=("gsw", "swendsen-wang", "gibbs", "data-driven", "bond", "bond-drawn"),
    )
    lam: float = sampler_setting(
        10.0, "Bond strength relative to the coupling.",
        bounds="[0, inf)", symbol="lambda", active_if=("sampler", ("gsw", "data-driven")), title="Bond strength",
    )
    tau: float = sampler_setting(
        1.0, "How fast lambda falls with distance (data-driven).",
        bounds="[0, inf)", symbol="tau", active_if=("sampler", ("data-driven",)), title="Fall with distance",
    )
    distance: str = sampler_setting(
        "hellinger", "Distance between two sites' features (data-driven): hellinger, chi2 or total-variation between "
        "histograms, euclidean between channel means.",
        choices=("hellinger", "chi2", "total-variation", "euclidean"), active_if=("sampler", ("data-driven",)),
    )
    bond: float = sampler_setting(
        0.2, "Probability that an edge of mean coupling inside a cluster is bonded (bond), or the largest such "
        "probability drawn (bond-drawn).",
        bounds="[0, 1)", active_if=("sampler", ("bond", "bond-drawn")), title="Bond probability",
    )
    bond_low: float = sampler_setting(
        0.0, "Smallest bond probability drawn (bond-drawn).",
        bounds="[0, 1)", active_if=("sampler", ("bond-drawn",)), title="Least probability",
    )
    bond_cap: float | None = sampler_setting(
        None, "Upper limit of beta times delta on an edge, or none; keeps spin clusters from percolating.",
        bounds="[0, inf)", kind=float, optional=True, active_if=("sampler", ("gsw", "swendsen-wang", "data-driven")),
        title="Bond limit",
    )
    regroups: int | None = sampler_setting(
        None, "Whole-cluster moves (merge, split, exchange) for each sweep; none makes one where cluster sizes are "
        "limited.", bounds="[0, inf)", kind=int, optional=True, title="Whole-cluster moves",
    )
    splits: int = sampler_setting(
        0, "Moves for each sweep that split a cluster or merge two, informed by the marginal likelihood.",
        bounds="[0, inf)", title="Split-merge moves",
    )
    full_scans: float = sampler_setting(
        1.0, "Share of the sweeps in which a site weighs every cluster; in the others only those of its neighbours "
        "and a new one, which is faster where there are many clusters.", bounds="(0, 1]", title="Full scans",
    )
    hot: float = sampler_setting(
        1.0, "Temperature of the first sweep, which falls to 1 over the burn-in (annealing); 1 for none.",
        bounds="[1, inf)", title="First temperature",
    )
    replicas: int = sampler_setting(
        1, "Copies of each chain at rising temperatures that exchange their states (parallel tempering); 1 for none.",
        bounds="[1, 64]", title="Tempering replicas",
    )
    hottest: float = sampler_setting(
        4.0, "Temperature of the hottest copy.",
        bounds="(1, inf)", active_if=("replicas", tuple(range(2, 65))), title="Hottest replica",
    )
    start: str = sampler_setting(
        "one", "First state of the chain: one cluster (of several chains, the others from random clusters), every "
        "site its own, or random clusters.", choices=("one", "singletons", "random"),
    )
    start_clusters: int = sampler_setting(
        20, "Number of clusters of a random start.",
        bounds="[1, inf)", active_if=("start", ("one", "random")), title="Clusters at start",
    )
    chains: int = sampler_setting(
        1, "Number of independent chains; the result is the best state of all, the uncertainty is averaged over them.",
        bounds="[1, 64]",
    )
    sweeps: int = sampler_setting(
        300, "Number of sweeps of the chain.", bounds="[0, inf)",
    )
    stop: str = sampler_setting(
        "sweeps", "When a run ends: after its sweeps, or as soon as the chains agree after the burn-in (agreement).",
        choices=("sweeps", "agreement"), title="Ends",
    )
    burn_in: float = sampler_setting(
        0.5, "Fraction of the sweeps left out of the uncertainty.", bounds="[0, 1)", title="Burn-in",
    )


@dataclass(frozen=True)
class ResultSettings(Options):
    """Which partition is the result, and how it is shown."""

    consensus: str = result_setting(
        "none", "Which partition is the result: the best state (none), or the most typical of the states seen after "
        "the burn-in, by the information that it shares with them (vi) or by pairs of sites (binder).",
        choices=("none", "vi", "binder"),
    )
    polish: str = result_setting(
        "no", "Whether the best state is improved site by site and merge by merge until nothing raises the log "
        "posterior.", choices=("no", "yes"), active_if=("consensus", ("none",)),
    )
    view: str = result_setting(
        "clusters", "What labels stand for: clusters (what looks alike), regions (the connected parts of clusters), "
        "or objects on a background (the largest cluster, 0).", choices=("clusters", "regions", "objects"),
    )
    neck: float = result_setting(
        0.0, "Objects are parted where they are thinner than this share of the smaller part; 0 leaves them together.",
        bounds="[0, 1)", active_if=("view", ("objects",)), title="Part at necks",
    )
    distinction: float = result_setting(
        0.0, "How distinct objects are at least, by the steepness of their borders and their contrast (noise 3 to 6, "
        "nuclei 7 and more); what is less distinct or out of focus is background; 0 keeps all.",
        bounds="[0, inf)", active_if=("view", ("objects",)), title="Distinct objects",
    )
    min_region: int | None = result_setting(
        0, "Regions with fewer pixels than this (with a spacing, cubes of the smallest distance) join a neighbour "
        f"(objects: the background); 0 keeps all, none is {MIN_REGION_PIXELS}, or a fiftieth of the image if that is "
        "less.", bounds="[0, inf)", optional=True, usual=MIN_REGION_PIXELS, title="Smallest region",
    )
    merge: str = result_setting(
        "posterior", "Which neighbour a small region joins: the one with which it is most probably one (posterior), "
        "or the one of nearest mean colour.",
        choices=("posterior", "colour"), active_if=("min_region", ()), title="Joins by",
    )
    join: float = result_setting(
        0.0, "Neighbouring regions join whose boundary is weaker than this, on the scale of Detail: with learnt "
        "couplings the probability that people draw it. Regions that a person has painted stay; 0 keeps all.",
        bounds="[0, 1)", active_if=("view", ("regions",)), title="Weakest boundary",
    )
