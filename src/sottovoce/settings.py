"""Declarations of settings: each setting has its type, default, help text and bounds in one place.

A settings class is a frozen dataclass whose fields are made by `setting`. The command line, TOML
files and their templates read these declarations, and `check` compares every value with them.
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

# Key in the metadata of a dataclass field that marks it as a setting.
_METADATA_KEY = "setting"
# Types that a setting can have, and how messages name them.
_TYPE_NAMES: dict[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a finite number",
    str: "a text",
}
# The same types by the names that annotations have.
_TYPES_BY_NAME = {kind.__name__: kind for kind in _TYPE_NAMES}


def setting(
    default: Any,
    help: str,  # noqa: A002 - the word that command lines use
    *,
    min_value: float | None = None,
    above: float | None = None,
    max_value: float | None = None,
    none_meaning: str = "",
) -> Any:
    """Declare a field of a settings class; its annotation is the type of the setting.

    Args:
        default: The default value.
        help: One line for the command line and for settings files.
        min_value: Smallest value.
        above: Number that the value must be above.
        max_value: Largest value.
        none_meaning: What None stands for, if it is the default.
    """
    metadata = {
        "help": help,
        "min_value": min_value,
        "above": above,
        "max_value": max_value,
        "none_meaning": none_meaning,
    }
    return field(default=default, metadata={_METADATA_KEY: metadata})


@dataclass(frozen=True)
class Setting:
    """The declaration of one field of a settings class."""

    name: str
    kind: type
    """bool, int, float or str."""
    optional: bool = False
    """Whether the value may be None."""
    default: Any = None
    help: str = ""
    """One line for the command line and for settings files."""
    min_value: float | None = None
    """Smallest value."""
    above: float | None = None
    """Number that the value must be above."""
    max_value: float | None = None
    """Largest value."""
    none_meaning: str = ""
    """What None stands for."""

    def check_value(self, value: Any) -> Any:
        """Return the value, converted to the type of the setting.

        A whole number is accepted for a float, and numpy's types for Python's. A boolean is not
        accepted for a number.

        Raises:
            SettingsError: The value has another type or is out of bounds; names the setting.
        """
        if value is None and self.optional:
            return None
        if self.kind in (int, float):
            return self._check_number(value)
        if not isinstance(value, (bool, np.bool_) if self.kind is bool else str):
            raise make_value_error(self.name, _TYPE_NAMES[self.kind], value)
        return self.kind(value)

    def _check_number(self, value: Any) -> Any:
        is_number = isinstance(value, Integral if self.kind is int else Real)
        try:
            is_valid = (
                is_number
                and type(value) is not bool
                and isfinite(value)
                and (self.min_value is None or value >= self.min_value)
                and (self.above is None or value > self.above)
                and (self.max_value is None or value <= self.max_value)
            )
        except OverflowError:  # an integer that is too large for a float
            is_valid = False
        if not is_valid:
            expected = f"{_TYPE_NAMES[self.kind]} {self.format_bounds()}".rstrip()
            raise make_value_error(self.name, expected, value)
        return self.kind(value)

    def format_bounds(self) -> str:
        """Return the bounds in words, to follow "must be a number"."""
        if self.min_value is not None and self.max_value is not None:
            return f"from {self.min_value:.16g} to {self.max_value:.16g}"
        bounds = (
            ("of at least", self.min_value),
            ("above", self.above),
            ("of at most", self.max_value),
        )
        return " and ".join(f"{words} {bound:g}" for words, bound in bounds if bound is not None)


def make_value_error(name: str, expected: str, value: object) -> SettingsError:
    """Return the error for a value that is not what is expected."""
    return SettingsError(f"{name} must be {expected}, not {format_value(value)}", setting=name)


def format_value(value: object) -> str:
    """Format a refused value for a message as in a settings file, in at most 80 characters."""
    try:
        if isinstance(value, bool | str | list | dict | date | clock):
            return f"{json.dumps(value, default=str, ensure_ascii=False):.80}"
        return f"{value!r:.80}"
    except ValueError:  # an integer with more digits than Python formats
        return "a number far too long"


# Declarations that get_settings() has read, by settings class.
_SETTINGS_BY_CLASS: dict[type, dict[str, Setting]] = {}


def get_settings(settings_class: type[DataclassInstance]) -> dict[str, Setting]:
    """Return the settings of a class by name, in order; every call returns the same dict."""
    if settings_class not in _SETTINGS_BY_CLASS:
        _SETTINGS_BY_CLASS[settings_class] = {
            declared.name: _read_declaration(declared)
            for declared in fields(settings_class)
            if _METADATA_KEY in declared.metadata
        }
    return _SETTINGS_BY_CLASS[settings_class]


def _read_declaration(declared: Field[Any]) -> Setting:
    kind, *others = _get_type_names(declared.type)
    if kind not in _TYPES_BY_NAME or others not in ([], ["None"]):
        raise SettingsError(
            f"the setting {declared.name} must be declared as one of {', '.join(_TYPES_BY_NAME)}, "
            f"or as one of these with | None; it is {declared.type!r:.80}"
        )
    return Setting(
        declared.name,
        _TYPES_BY_NAME[kind],
        bool(others),
        declared.default,
        **declared.metadata[_METADATA_KEY],
    )


def _get_type_names(annotation: Any) -> list[str]:
    """Return the names of the types in an annotation, such as ["int", "None"]."""
    # An annotation is text if its module postpones the evaluation of annotations.
    if isinstance(annotation, str):
        return [name.strip() for name in annotation.split("|")]
    kinds = get_args(annotation) or (annotation,)
    return ["None" if kind is type(None) else getattr(kind, "__name__", "") for kind in kinds]


def check(settings: DataclassInstance) -> None:
    """Check and convert every setting of a frozen dataclass, in its `__post_init__`.

    Raises:
        SettingsError: A value is invalid; names the setting.
    """
    for name, declaration in get_settings(type(settings)).items():
        # This is the only way to assign a field of a frozen dataclass.
        object.__setattr__(settings, name, declaration.check_value(getattr(settings, name)))
