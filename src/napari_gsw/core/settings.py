"""Every knob, once: its default, its bounds and one sentence of help.

The command line, the widget, the documentation and the saved provenance all read this declaration; none
of them has a list of its own. :class:`Settings` is frozen: a changed setting is a new object
(:meth:`Settings.replace`), so that what was saved is what was run.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from napari_gsw.core.errors import InputError

Section = Literal["image", "superpixels", "features", "prior", "coupling", "sampler"]
SECTIONS: tuple[Section, ...] = get_args(Section)


@dataclass(frozen=True)
class Knob:
    """What is known of one setting beside its name and its default.

    Attributes
    ----------
    help : one sentence for a person.
    section : the part of the form it belongs to.
    kind : the type of its values; ``None`` is a further value where `optional` is true.
    low, high : the allowed range; the ends are allowed unless `open_low` or `open_high` is set.
    choices : the allowed words, for a setting that is one of several words.
    symbol : its name in the paper.
    title : its name in a form, where the name itself is not a word.
    when : another setting and those of its values with which this one matters (none named: all but 0); None if it
        always does.
    """

    help: str
    section: Section
    kind: type
    optional: bool = False
    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False
    choices: tuple[str, ...] = ()
    symbol: str = ""
    title: str = ""
    when: tuple[str, tuple[Any, ...]] | None = None

    @property
    def allowed(self) -> str:
        """The allowed values in words, as error messages and the help print them."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        word = {int: "a whole number", float: "a number", str: "text"}[self.kind]
        if math.isfinite(self.low) and math.isfinite(self.high):
            left, right = "(" if self.open_low else "[", ")" if self.open_high else "]"
            word += f" in {left}{self.low:g}, {self.high:g}{right}"
        elif math.isfinite(self.low):
            word += f" {'>' if self.open_low else '>='} {self.low:g}"
        elif math.isfinite(self.high):
            word += f" {'<' if self.open_high else '<='} {self.high:g}"
        return word + (" or none" if self.optional else "")

    def convert(self, name: str, value: Any) -> Any:
        """Check one value and give it its type; text (from a command line or a file) is parsed."""
        if self.optional and (value is None or (isinstance(value, str) and value.lower() == "none")):
            return None
        try:
            converted = self._parse(value)
        except (TypeError, ValueError, OverflowError):
            raise InputError(f"{name} must be {self.allowed}, not {value!r}") from None
        if self.choices:
            if converted not in self.choices:
                raise InputError(f"{name} must be {self.allowed}, not {value!r}")
        elif self.kind in (int, float):
            inside = (self.low < converted if self.open_low else self.low <= converted) and (
                converted < self.high if self.open_high else converted <= self.high
            )
            if not inside:  # also for NaN, which compares false with everything
                raise InputError(f"{name} must be {self.allowed}, not {value!r}")
        return converted

    def _parse(self, value: Any) -> Any:
        if isinstance(value, bool):
            return _refuse(value)
        if self.kind is int:
            number = int(value) if isinstance(value, str) else value
            return int(number) if number == int(number) else _refuse(value)
        if self.kind is str:
            return value if isinstance(value, str) else _refuse(value)
        return float(value)


def _refuse(value: Any) -> Any:
    raise ValueError(value)


def knob(default: Any, section: Section, help: str, **more: Any) -> Any:
    """A dataclass field with its :class:`Knob` attached; the kind follows from the default."""
    kind = more.pop("kind", type(default))
    return field(default=default, metadata={"knob": Knob(help=help, section=section, kind=kind, **more)})


@dataclass(frozen=True)
class Settings:
    """All settings of a segmentation. See ``docs/settings.md`` for the table made from this class."""

    axes: str = knob(
        "auto",
        "image",
        "Order of the image's axes, such as YX, YXS (S: RGB samples), CYX or ZYX (C: channels); auto guesses.",
    )

    superpixels: str = knob(
        "slic",
        "superpixels",
        "How pixels are grouped into sites.",
        choices=("slic", "felzenszwalb", "watershed", "grid"),
        title="Method",
    )
    site_size: int = knob(
        60,
        "superpixels",
        "Mean number of pixels in a site.",
        low=1,
        title="Site size",
    )
    compactness: float = knob(
        10.0,
        "superpixels",
        "Large values make sites round and equal, small ones let them follow colour (slic, watershed).",
        low=0.0,
        open_low=True,
        when=("superpixels", ("slic", "watershed")),
    )
    smoothing: float = knob(
        0.0, "superpixels", "Width in pixels of the Gaussian blur before sites are made.", low=0.0, high=100.0
    )

    likelihood: str = knob(
        "words",
        "features",
        "What a site is described by: a histogram of colour words, an 8-bin luminance histogram, "
        "or the continuous channels themselves (gaussian).",
        choices=("words", "luminance", "gaussian"),
    )
    words: int = knob(
        120,
        "features",
        "Number of colour words in a codebook learnt from the image.",
        low=1,
        high=65535,
        when=("likelihood", ("words",)),
        title="Colour words",
    )
    codebook: str = knob(
        "auto",
        "features",
        "Where the colour words come from: shipped (learnt on photographs, RGB only), image, the path of a "
        "saved codebook, or auto (shipped for RGB, else image).",
        when=("likelihood", ("words",)),
    )
    bins: int = knob(
        8,
        "features",
        "Number of bins of the luminance histogram.",
        low=1,
        high=65535,
        when=("likelihood", ("luminance",)),
        title="Luminance bins",
    )
    phi: float = knob(
        50.0,
        "features",
        "Concentration of the Dirichlet prior on a cluster's histogram.",
        low=0.0,
        open_low=True,
        symbol="phi",
        when=("likelihood", ("words", "luminance")),
        title="Histogram concentration",
    )
    evidence: float | None = knob(
        5.0,
        "features",
        "Number of independent draws that a site's pixels are worth; none takes every pixel as one draw.",
        kind=float,
        optional=True,
        low=0.0,
        open_low=True,
        symbol="s",
    )
    texture_words: int = knob(
        0, "features", "Number of texture words in a second histogram; 0 for none.", low=0, high=65535
    )
    texture_phi: float = knob(
        20.0,
        "features",
        "Concentration of the Dirichlet prior on a cluster's texture histogram.",
        low=0.0,
        open_low=True,
        when=("texture_words", ()),
        title="Texture concentration",
    )
    texture_evidence: float | None = knob(
        5.0,
        "features",
        "Number of independent draws that a site's texture is worth; none for every pixel.",
        kind=float,
        optional=True,
        low=0.0,
        open_low=True,
        when=("texture_words", ()),
    )
    gauss_kappa: float = knob(
        0.01,
        "features",
        "How many draws the prior mean of a Gaussian cluster is worth.",
        low=0.0,
        open_low=True,
        when=("likelihood", ("gaussian",)),
        title="Weight of prior mean",
    )
    gauss_shape: float = knob(
        3.0,
        "features",
        "Shape of the inverse-gamma prior on the variance within a Gaussian cluster.",
        low=1.0,
        open_low=True,
        when=("likelihood", ("gaussian",)),
        title="Shape of variance",
    )
    gauss_spread: float = knob(
        0.05,
        "features",
        "Expected variance within a Gaussian cluster, as a fraction of the image's variance.",
        low=0.0,
        open_low=True,
        when=("likelihood", ("gaussian",)),
        title="Expected spread",
    )

    prior: str = knob(
        "dirichlet-process",
        "prior",
        "Prior on the number and the sizes of clusters.",
        choices=("dirichlet-process", "pitman-yor", "finite-dirichlet", "potts"),
    )
    alpha: float = knob(
        3.0,
        "prior",
        "Concentration: larger values expect more clusters.",
        symbol="alpha",
        when=("prior", ("dirichlet-process", "pitman-yor", "finite-dirichlet")),
        title="Concentration",
    )
    theta: float = knob(
        0.25,
        "prior",
        "Discount of the Pitman-Yor prior: in [0, 1) with alpha > -theta, or negative with alpha = -L theta.",
        high=1.0,
        open_high=True,
        symbol="theta",
        when=("prior", ("pitman-yor",)),
        title="Discount",
    )
    K: int = knob(
        20,
        "prior",
        "Largest number of clusters (finite-dirichlet, potts).",
        low=1,
        symbol="K",
        when=("prior", ("finite-dirichlet", "potts")),
        title="Most clusters",
    )
    min_size: int = knob(
        1,
        "prior",
        "Smallest number of sites in a cluster.",
        low=0,
        symbol="T_min",
        title="Smallest cluster",
    )
    max_size: int | None = knob(
        None,
        "prior",
        "Largest number of sites in a cluster, or none.",
        kind=int,
        optional=True,
        low=1,
        symbol="T_max",
        title="Largest cluster",
    )

    neighbourhood: int = knob(
        1,
        "coupling",
        "1 couples sites that touch, 2 also the neighbours of neighbours.",
        low=1,
        high=2,
        title="Neighbourhood",
    )
    second_weight: float = knob(
        0.5,
        "coupling",
        "Coupling of second-order neighbours relative to sites that touch.",
        low=0.0,
        when=("neighbourhood", (2,)),
        title="Second-order weight",
    )
    coupling: str = knob(
        "constant",
        "coupling",
        "How beta varies from edge to edge: not at all, with the length of the common boundary, or falling with the "
        "contrast across it.",
        choices=("constant", "length", "contrast"),
        title="Varies with",
    )
    beta: float = knob(
        0.02,
        "coupling",
        "Strength with which neighbours share a cluster.",
        low=0.0,
        symbol="beta",
        title="Strength",
    )
    contrast_scale: float = knob(
        5.0,
        "coupling",
        "Contrast (in units of Lab colour) at which the coupling has fallen to 37 %.",
        low=0.0,
        open_low=True,
        when=("coupling", ("contrast",)),
    )

    sampler: str = knob(
        "gsw",
        "sampler",
        "How sites are bonded in a sweep: by lambda (gsw), lambda 1 (swendsen-wang), not at all (gibbs), lambda "
        "falling with the distance of the sites (data-driven), by a bond probability (bond), or by one drawn for "
        "each sweep (bond-drawn).",
        choices=("gsw", "swendsen-wang", "gibbs", "data-driven", "bond", "bond-drawn"),
    )
    lam: float = knob(
        10.0,
        "sampler",
        "Bond strength relative to the coupling.",
        low=0.0,
        symbol="lambda",
        when=("sampler", ("gsw", "data-driven")),
        title="Bond strength",
    )
    tau: float = knob(
        1.0,
        "sampler",
        "How fast lambda falls with distance (data-driven).",
        low=0.0,
        symbol="tau",
        when=("sampler", ("data-driven",)),
        title="Fall with distance",
    )
    distance: str = knob(
        "hellinger",
        "sampler",
        "Distance between two sites' features (data-driven): hellinger, chi2 or total-variation between histograms, "
        "euclidean between channel means.",
        choices=("hellinger", "chi2", "total-variation", "euclidean"),
        when=("sampler", ("data-driven",)),
    )
    bond: float = knob(
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
    bond_low: float = knob(
        0.0,
        "sampler",
        "Smallest bond probability drawn (bond-drawn).",
        low=0.0,
        high=1.0,
        open_high=True,
        when=("sampler", ("bond-drawn",)),
        title="Least probability",
    )
    bond_cap: float | None = knob(
        None,
        "sampler",
        "Upper limit of beta times delta on an edge (gsw, data-driven), or none; keeps spin clusters from percolating.",
        kind=float,
        optional=True,
        low=0.0,
        when=("sampler", ("gsw", "data-driven")),
        title="Bond limit",
    )
    regroups: int | None = knob(
        None,
        "sampler",
        "Whole-cluster moves (merge, split, exchange) for each sweep; none makes one where cluster sizes are limited.",
        kind=int,
        optional=True,
        low=0,
        title="Whole-cluster moves",
    )
    start: str = knob(
        "one",
        "sampler",
        "First state of the chain: one cluster, every site its own, or random clusters.",
        choices=("one", "singletons", "random"),
    )
    start_clusters: int = knob(
        20,
        "sampler",
        "Number of clusters of a random start.",
        low=1,
        when=("start", ("random",)),
        title="Clusters at start",
    )
    chains: int = knob(
        1,
        "sampler",
        "Number of independent chains; the result is the best state of all, the uncertainty is averaged over them.",
        low=1,
        high=64,
    )
    sweeps: int = knob(300, "sampler", "Number of sweeps of the chain.", low=0)
    burn_in: float = knob(
        0.5,
        "sampler",
        "Fraction of the sweeps left out of the uncertainty.",
        low=0.0,
        high=1.0,
        open_high=True,
        title="Burn-in",
    )

    def __post_init__(self) -> None:
        for name, k in knobs().items():
            object.__setattr__(self, name, k.convert(name, getattr(self, name)))
        if self.max_size is not None and self.max_size < self.min_size:
            raise InputError(f"max_size must be a whole number >= min_size ({self.min_size}), not {self.max_size}")
        if self.sampler == "bond-drawn" and self.bond_low > self.bond:
            raise InputError(f"bond_low must be a number in [0, bond = {self.bond:g}], not {self.bond_low:g}")

    def replace(self, **changes: Any) -> Settings:
        """A copy with some settings changed; an unknown name is an error that suggests the nearest one."""
        for name in changes:
            _known(name)
        return dataclasses.replace(self, **changes)

    def matters(self, name: str) -> bool:
        """Whether a setting has any effect beside the others as they are."""
        when = knobs()[name].when
        if when is None:
            return True
        other, values = when
        return self.matters(other) and (getattr(self, other) in values if values else bool(getattr(self, other)))

    def to_dict(self) -> dict[str, Any]:
        """Plain values by name, ready for JSON."""
        return dataclasses.asdict(self)


def knobs() -> Mapping[str, Knob]:
    """All knobs by name, in the order of the declaration."""
    return {f.name: f.metadata["knob"] for f in dataclasses.fields(Settings)}


def _known(name: str) -> None:
    names = list(knobs())
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"; did you mean {near[0]}?" if near else f"; the settings are {', '.join(names)}"
        raise InputError(f"there is no setting {name!r}{hint}")


# A preset is a line of differences from the defaults above.
PRESETS: Mapping[str, Mapping[str, Any]] = {
    "general": dict(
        coupling="contrast",
        beta=1.5,
        alpha=0.3,
        evidence=7.0,
        texture_words=32,
        sampler="bond-drawn",
        bond=0.5,
        start="random",
    ),
    "paper": dict(evidence=8.0, alpha=3.0, beta=0.02, lam=10.0, sweeps=1000),
}
DEFAULT_PRESET = "general"


def preset(name: str, **changes: Any) -> Settings:
    """The settings of a preset, with some of them changed.

    >>> preset("paper", alpha=1.0).alpha
    1.0
    """
    if name not in PRESETS:
        raise InputError(f"preset must be one of {', '.join(PRESETS)}, not {name!r}")
    return Settings().replace(**{**PRESETS[name], **changes})


def default_words(name: str) -> str:
    """The value of a setting in the preset that is used when none is named, and in those that differ from it.

    >>> default_words("evidence")
    '7 (paper 8)'
    """
    values = {p: c.get(name, getattr(Settings(), name)) for p, c in PRESETS.items()}
    default = values[DEFAULT_PRESET]
    others = [f"{p} {_word(v)}" for p, v in values.items() if v != default]
    return _word(default) + (f" ({', '.join(others)})" if others else "")


def _word(value: object) -> str:
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
