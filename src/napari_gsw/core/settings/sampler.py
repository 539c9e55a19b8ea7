"""Settings of the chain, and of what is made of its states."""

from __future__ import annotations

from dataclasses import dataclass

from napari_gsw.core.settings.setting import POSITIVE, SHARE, Options, setting

# Pixels of a region at least, where the image and not a person says how many; a small image says fewer.
MIN_REGION_PIXELS = 300


@dataclass(frozen=True)
class SamplerSettings(Options):
    """Bonds (eq. 18 and 24), moves, start and end of the chains."""

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
        active_if=("sampler", ("gsw", "data-driven")),
        title="Bond strength",
    )
    tau: float = setting(
        1.0,
        "sampler",
        "How fast lambda falls with distance (data-driven).",
        low=0.0,
        symbol="tau",
        active_if=("sampler", ("data-driven",)),
        title="Fall with distance",
    )
    distance: str = setting(
        "hellinger",
        "sampler",
        "Distance between two sites' features (data-driven): hellinger, chi2 or total-variation between histograms, "
        "euclidean between channel means.",
        choices=("hellinger", "chi2", "total-variation", "euclidean"),
        active_if=("sampler", ("data-driven",)),
    )
    bond: float = setting(
        0.2,
        "sampler",
        "Probability that an edge of mean coupling inside a cluster is bonded (bond), or the largest such "
        "probability drawn (bond-drawn).",
        **SHARE,
        active_if=("sampler", ("bond", "bond-drawn")),
        title="Bond probability",
    )
    bond_low: float = setting(
        0.0,
        "sampler",
        "Smallest bond probability drawn (bond-drawn).",
        **SHARE,
        active_if=("sampler", ("bond-drawn",)),
        title="Least probability",
    )
    bond_cap: float | None = setting(
        None,
        "sampler",
        "Upper limit of beta times delta on an edge, or none; keeps spin clusters from percolating.",
        kind=float,
        optional=True,
        low=0.0,
        active_if=("sampler", ("gsw", "swendsen-wang", "data-driven")),
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
        **POSITIVE,
        high=1.0,
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
        exclusive_min=True,
        active_if=("replicas", tuple(range(2, 65))),
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
        active_if=("start", ("one", "random")),
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
        **SHARE,
        title="Burn-in",
    )


@dataclass(frozen=True)
class ResultSettings(Options):
    """Which partition is the result, and how it is shown."""

    consensus: str = setting(
        "none",
        "result",
        "Which partition is the result: the best state (none), or the most typical of the states seen after the "
        "burn-in, by the information that it shares with them (vi) or by pairs of sites (binder).",
        choices=("none", "vi", "binder"),
    )
    polish: str = setting(
        "no",
        "result",
        "Whether the best state is improved site by site and merge by merge until nothing raises the log posterior.",
        choices=("no", "yes"),
        active_if=("consensus", ("none",)),
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
        **SHARE,
        active_if=("view", ("objects",)),
        title="Part at necks",
    )
    distinction: float = setting(
        0.0,
        "result",
        "How distinct objects are at least, by the steepness of their borders and their contrast (noise 3 to 6, nuclei "
        "7 and more); what is less distinct or out of focus is background; 0 keeps all.",
        low=0.0,
        active_if=("view", ("objects",)),
        title="Distinct objects",
    )
    min_region: int | None = setting(
        0,
        "result",
        "Regions with fewer pixels than this (with a spacing, cubes of the smallest distance) join a neighbour "
        f"(objects: the background); 0 keeps all, none is {MIN_REGION_PIXELS}, or a fiftieth of the image if that is "
        "less.",
        optional=True,
        usual=MIN_REGION_PIXELS,
        low=0,
        title="Smallest region",
    )
    merge: str = setting(
        "posterior",
        "result",
        "Which neighbour a small region joins: the one with which it is most probably one (posterior), or the one of "
        "nearest mean colour.",
        choices=("posterior", "colour"),
        active_if=("min_region", ()),
        title="Joins by",
    )
    join: float = setting(
        0.0,
        "result",
        "Neighbouring regions join whose boundary is weaker than this, on the scale of Detail: with learnt couplings "
        "the probability that people draw it. Regions that a person has painted stay; 0 keeps all.",
        **SHARE,
        active_if=("view", ("regions",)),
        title="Weakest boundary",
    )
