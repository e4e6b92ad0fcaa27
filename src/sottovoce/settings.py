"""How a setting is stated: once, with its help text and its bounds.

A settings class is a frozen dataclass whose fields are made by `setting`. The command line, the
TOML files and their templates read the same statement, and `check` holds every value against it.
"""

from __future__ import annotations

import json
from dataclasses import Field, dataclass, field, fields
from datetime import date
from datetime import time as clock
from math import isfinite
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from sottovoce.errors import SettingsError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_KEY = "setting"


def setting(
    default: Any,
    help: str,  # noqa: A002 - the word that command lines have for it
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    otherwise: str = "",
) -> Any:
    """A field of a settings class, whose annotation says what kind of value it takes.

    `otherwise` says what None stands for, where that is the default.
    """
    about = {"help": help, "least": least, "above": above, "most": most, "otherwise": otherwise}
    return field(default=default, metadata={_KEY: about})


@dataclass(frozen=True)
class Setting:
    """What is said about one field of a settings class."""

    name: str
    kind: type
    """bool, int, float or str."""
    optional: bool = False
    """Whether None is a value too."""
    default: Any = None
    help: str = ""
    """One line for the command line and for a settings file."""
    least: float | None = None
    above: float | None = None
    most: float | None = None
    otherwise: str = ""
    """What None stands for."""

    def checked(self, value: Any) -> Any:
        """The value in its kind, or a `SettingsError` that names the setting.

        A boolean is never a number, a whole number will do for a float, and numpy's numbers do too.
        """
        if value is None and self.optional:
            return None
        if self.kind in (int, float):
            return self._number(value)
        if not isinstance(value, (bool, np.bool_) if self.kind is bool else str):
            raise SettingsError(f"{self.name} must be {_KINDS[self.kind]}, not {shown(value)}")
        return self.kind(value)

    def _number(self, value: Any) -> Any:
        number = isinstance(value, Integral if self.kind is int else Real)
        try:
            fine = (
                number
                and type(value) is not bool
                and isfinite(value)
                and (self.least is None or value >= self.least)
                and (self.above is None or value > self.above)
                and (self.most is None or value <= self.most)
            )
        except OverflowError:  # a whole number beyond any float
            fine = False
        if not fine:
            wanted = f"{_KINDS[self.kind]} {self.bounds()}".rstrip()
            raise SettingsError(f"{self.name} must be {wanted}, not {shown(value)}")
        return self.kind(value)

    def bounds(self) -> str:
        """In words, to complete "must be a number"."""
        if self.least is not None and self.most is not None:
            return f"from {self.least:.16g} to {self.most:.16g}"
        stated = (("of at least", self.least), ("above", self.above), ("of at most", self.most))
        return " and ".join(f"{word} {bound:g}" for word, bound in stated if bound is not None)


def shown(value: object) -> str:
    """A refused value, for a message: as a settings file has it, and short."""
    try:
        if isinstance(value, bool | str | list | dict | date | clock):
            return f"{json.dumps(value, default=str, ensure_ascii=False):.80}"
        return f"{value!r:.80}"
    except ValueError:  # an integer of more digits than Python writes out
        return "a number far too long"


_KINDS: dict[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a finite number",
    str: "a text",
}
_BY_NAME = {kind.__name__: kind for kind in _KINDS}


_STATED: dict[type, dict[str, Setting]] = {}


def stated(kind: type[DataclassInstance]) -> dict[str, Setting]:
    """The stated fields of a settings class by name, in order: one dict for all who ask."""
    if kind not in _STATED:
        found = [each for each in fields(kind) if _KEY in each.metadata]
        _STATED[kind] = {each.name: _setting(each) for each in found}
    return _STATED[kind]


def _setting(each: Field[Any]) -> Setting:
    kind, *none = _names(each.type)
    if kind not in _BY_NAME or none not in ([], ["None"]):
        raise SettingsError(
            f"the setting {each.name} must be declared as one of {', '.join(_BY_NAME)}, or as one "
            f"of these with | None; it is {each.type!r:.80}"
        )
    about = each.metadata[_KEY]
    return Setting(each.name, _BY_NAME[kind], bool(none), each.default, **about)


def _names(annotation: Any) -> list[str]:
    """Of the types in it: a text where a module postpones evaluation, else types themselves."""
    if isinstance(annotation, str):
        return [name.strip() for name in annotation.split("|")]
    kinds = get_args(annotation) or (annotation,)
    return ["None" if kind is type(None) else getattr(kind, "__name__", "") for kind in kinds]


def check(settings: DataclassInstance) -> None:
    """Hold every stated field against its statement; for `__post_init__` of a frozen class."""
    for name, each in stated(type(settings)).items():
        object.__setattr__(settings, name, each.checked(getattr(settings, name)))
