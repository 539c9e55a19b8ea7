"""How a setting is declared: its default, its bounds and one sentence of help, in one place.

:class:`Options` is the frozen record of such settings that the package's own and those of the methods it is compared
with have in common: values are checked and given their type when the record is made.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, Self

from napari_gsw.core.errors import InputError


@dataclass(frozen=True)
class Setting:
    """What is known of one setting beside its name and its default.

    Attributes
    ----------
    help : one sentence for a person.
    section : the part of the form it belongs to.
    kind : the type of its values; ``None`` is a further value where `optional` is true.
    low, high : the allowed range; the ends are allowed unless `exclusive_min` or `exclusive_max` is set.
    choices : the allowed words, for a setting that is one of several words.
    symbol : its name in the paper.
    title : its name in a form, where the name itself is not a word.
    usual : what ``None`` comes to as a rule, for a form to show in its place.
    when : another setting and those of its values with which this one matters (none named: all but 0); None if it
        always does.
    """

    help: str
    section: str
    kind: type
    optional: bool = False
    low: float = -math.inf
    high: float = math.inf
    exclusive_min: bool = False
    exclusive_max: bool = False
    choices: tuple[str, ...] = ()
    symbol: str = ""
    title: str = ""
    usual: float | None = None
    active_if: tuple[str, tuple[Any, ...]] | None = None

    @property
    def allowed(self) -> str:
        """The allowed values in words, as error messages and the help print them."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        word = {int: "a whole number", float: "a number", str: "text"}[self.kind]
        if math.isfinite(self.low) and math.isfinite(self.high):
            left, right = "(" if self.exclusive_min else "[", ")" if self.exclusive_max else "]"
            word += f" in {left}{self.low:g}, {self.high:g}{right}"
        elif math.isfinite(self.low):
            word += f" {'>' if self.exclusive_min else '>='} {self.low:g}"
        elif math.isfinite(self.high):
            word += f" {'<' if self.exclusive_max else '<='} {self.high:g}"
        return word + (" or none" if self.optional else "")

    def convert(self, name: str, value: Any) -> Any:
        """Check one value and give it its type; text (from a command line or a file) is parsed."""
        if self.optional and (value is None or (isinstance(value, str) and value.lower() == "none")):
            return None
        try:
            converted = self._parse(value)
        except (TypeError, ValueError, OverflowError):
            raise InputError(f"{name} must be {self.allowed}, not {value!r}") from None
        inside = converted in self.choices if self.choices else self.kind is str or self.is_inside(converted)
        if not inside:
            raise InputError(f"{name} must be {self.allowed}, not {value!r}")
        return converted

    def is_inside(self, value: Any) -> bool:
        """Whether a number is in the allowed range; NaN, which compares false with everything, is not, nor infinity."""
        if not -math.inf < value < math.inf:
            return False
        above = self.low < value if self.exclusive_min else self.low <= value
        below = value < self.high if self.exclusive_max else value <= self.high
        return bool(above and below)

    def check(self, name: str, value: Any) -> None:
        """Refuse what is no number of the allowed range, for those who use a value without :class:`Options`."""
        if self.optional and value is None:
            return
        if isinstance(value, bool) or not isinstance(value, Real) or not self.is_inside(value):
            raise InputError(f"{name} must be {self.allowed}, not {value!r}")

    def _parse(self, value: Any) -> Any:
        """A value, or the text of one, as this setting's type; ValueError if it is none."""
        if isinstance(value, bool) or getattr(value, "ndim", 0) != 0:
            return _refuse(value)
        if self.kind is int:
            number = int(value) if isinstance(value, str) else value
            return int(number) if number == int(number) else _refuse(value)
        if self.kind is str:
            return value if isinstance(value, str) else _refuse(value)
        if getattr(getattr(value, "dtype", None), "kind", "") == "c":  # numpy would drop the imaginary part
            raise TypeError
        return float(value)


def _refuse(value: Any) -> Any:
    raise ValueError(value)


# Ranges that many settings have: a number > 0, and a share that is less than all.
POSITIVE: Mapping[str, Any] = {"low": 0.0, "exclusive_min": True}
SHARE: Mapping[str, Any] = {"low": 0.0, "high": 1.0, "exclusive_max": True}


def setting(default: Any, section: str, help: str, **more: Any) -> Any:
    """A dataclass field with its :class:`Setting` attached; the kind follows from the default."""
    kind = more.pop("kind", type(default))
    return field(default=default, metadata={"setting": Setting(help=help, section=section, kind=kind, **more)})


# The settings of each class of options: a form asks for them hundreds of times.
_DECLARED: dict[type, Mapping[str, Setting]] = {}


@dataclass(frozen=True)
class Options:
    """Settings, each made by :func:`setting`. Frozen: a changed setting is a new object (:meth:`replace`)."""

    def __post_init__(self) -> None:
        for name, k in self.setting_fields().items():
            object.__setattr__(self, name, k.convert(name, getattr(self, name)))

    @classmethod
    def setting_fields(cls) -> Mapping[str, Setting]:
        """All settings by name, in the order of the declaration."""
        known = _DECLARED.get(cls)
        if known is None:
            known = _DECLARED[cls] = {f.name: f.metadata["setting"] for f in dataclasses.fields(cls)}
        return known

    def replace(self, **changes: Any) -> Self:
        """A copy with some settings changed; an unknown name is an error that suggests the nearest one."""
        for name in changes:
            self._known(name)
        return dataclasses.replace(self, **changes)

    def is_active(self, name: str) -> bool:
        """Whether a setting has any effect beside the others as they are."""
        active_if = self.setting_fields()[name].active_if
        if active_if is None:
            return True
        other, values = active_if
        value = getattr(self, other)
        return self.is_active(other) and (value in values if values else value is None or bool(value))

    def to_dict(self) -> dict[str, Any]:
        """Plain values by name, ready for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def _known(cls, name: str) -> None:
        names = cls.setting_fields()
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"; did you mean {near[0]}?" if near else f"; the settings are {', '.join(names)}"
            raise InputError(f"there is no setting {name!r}{hint}")
