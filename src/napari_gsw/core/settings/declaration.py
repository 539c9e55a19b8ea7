"""Declaration of a setting: its default, its bounds and one sentence of help, in one place."""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from numbers import Real
from typing import Any, Self

from napari_gsw.core.errors import InputError

# Bounds of many settings: a number > 0, and a fraction below 1.
POSITIVE: Mapping[str, Any] = {"low": 0.0, "exclusive_min": True}
SHARE: Mapping[str, Any] = {"low": 0.0, "high": 1.0, "exclusive_max": True}


@dataclass(frozen=True)
class Setting:
    """Declaration of a setting, beside its name and its default."""

    help: str  # one sentence for the user
    section: str  # of the form
    kind: type
    optional: bool = False  # None is a value, too
    low: float = -math.inf  # bounds, which are allowed unless excluded
    high: float = math.inf
    exclusive_min: bool = False
    exclusive_max: bool = False
    choices: tuple[str, ...] = ()
    built_in: tuple[str, ...] = ()  # of a setting that may be the path of a file: its values that are none
    symbol: str = ""  # in the paper
    title: str = ""  # in a form, where the name itself is not a word
    usual: float | None = None  # what None stands for in most images
    # Another setting, and those of its values (none named: all but 0) with which this one has an effect.
    active_if: tuple[str, tuple[Any, ...]] | None = None

    @property
    def allowed(self) -> str:
        """The allowed values in words."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        text = {int: "a whole number", float: "a number", str: "text"}[self.kind]
        if math.isfinite(self.low) and math.isfinite(self.high):
            left, right = "(" if self.exclusive_min else "[", ")" if self.exclusive_max else "]"
            text += f" in {left}{self.low:g}, {self.high:g}{right}"
        elif math.isfinite(self.low):
            text += f" {'>' if self.exclusive_min else '>='} {self.low:g}"
        elif math.isfinite(self.high):
            text += f" {'<' if self.exclusive_max else '<='} {self.high:g}"
        return text + (" or none" if self.optional else "")

    def convert(self, name: str, value: Any) -> Any:
        """Check a value and give it its type; text from a command line or a file is parsed."""
        if self.optional and (value is None or (isinstance(value, str) and value.lower() == "none")):
            return None
        is_complex = getattr(getattr(value, "dtype", None), "kind", "") == "c"  # numpy drops the imaginary part
        is_scalar = not isinstance(value, bool) and getattr(value, "ndim", 0) == 0 and not is_complex
        try:
            converted = value if self.kind is str else self.kind(value)
            is_exact = self.kind is float or isinstance(value, str) or converted == value
            fits = is_scalar and is_exact and isinstance(converted, self.kind)
        except (TypeError, ValueError, OverflowError):
            fits = False
        fits = fits and (converted in self.choices if self.choices else self.kind is str or self._is_inside(converted))
        if not fits:
            raise InputError(f"{name} must be {self.allowed}, not {value!r}")
        return converted

    def check(self, name: str, value: Any) -> None:
        """Refuse what is no number within the bounds, without converting it."""
        is_number = isinstance(value, Real) and not isinstance(value, bool)
        if not (self.optional and value is None) and not (is_number and self._is_inside(value)):
            raise InputError(f"{name} must be {self.allowed}, not {value!r}")

    def _is_inside(self, value: Any) -> bool:
        is_above = self.low < value if self.exclusive_min else self.low <= value
        is_below = value < self.high if self.exclusive_max else value <= self.high
        return bool(is_above and is_below and -math.inf < value < math.inf)


def setting(default: Any, section: str, help: str, *, bounds: str = "", **more: Any) -> Any:
    """Declare a setting as a field of a dataclass; `more` are other attributes of :class:`Setting`.

    The kind follows from the default, unless that is None. `bounds` is an interval such as "[0, 1)" or "(0, inf)".
    """
    kind = more.pop("kind", type(default))
    if bounds:
        low, high = (float(end) for end in bounds[1:-1].split(","))
        more |= {"low": kind(low) if math.isfinite(low) else low, "high": kind(high) if math.isfinite(high) else high}
        more["exclusive_min"] = bounds[0] == "(" and math.isfinite(low)
        more["exclusive_max"] = bounds[-1] == ")" and math.isfinite(high)
    return field(default=default, metadata={"setting": Setting(help=help, section=section, kind=kind, **more)})


def declare_in(section: str) -> Callable[..., Any]:
    """Return :func:`setting` for one section."""
    return lambda default, text, **more: setting(default, section, text, **more)


@dataclass(frozen=True)
class Options:
    """Settings, each declared by :func:`setting`. A changed setting is a new object (:meth:`replace`)."""

    def __post_init__(self) -> None:
        for name, declared in self.setting_fields().items():
            object.__setattr__(self, name, declared.convert(name, getattr(self, name)))

    @classmethod
    @cache  # a form asks for them hundreds of times
    def setting_fields(cls) -> Mapping[str, Setting]:
        """Return all settings by name, in the order of the declaration."""
        return {f.name: f.metadata["setting"] for f in dataclasses.fields(cls)}

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some settings changed."""
        names = self.setting_fields()
        for name in changes:
            if name not in names:
                similar = difflib.get_close_matches(name, names, n=1)
                hint = f"did you mean {similar[0]}?" if similar else f"the settings are {', '.join(names)}"
                raise InputError(f"there is no setting {name!r}; {hint}")
        return dataclasses.replace(self, **changes)

    def is_active(self, name: str) -> bool:
        """Return whether a setting has any effect beside the others."""
        active_if = self.setting_fields()[name].active_if
        if active_if is None:
            return True
        other, values = active_if
        value = getattr(self, other)
        return self.is_active(other) and (value in values if values else value is None or bool(value))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values by name, ready for JSON."""
        return dataclasses.asdict(self)


def file_paths(settings: Options) -> dict[str, str]:
    """Return the settings whose value is the path of a file, by name."""
    fields = settings.setting_fields()
    values = {name: getattr(settings, name) for name, declared in fields.items() if declared.built_in}
    return {name: value for name, value in values.items() if value not in fields[name].built_in}
