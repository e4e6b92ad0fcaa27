"""Settings of a service: one TOML file, one frozen dataclass, parsed once, unknown keys refused."""

from __future__ import annotations

import tomllib
from dataclasses import MISSING, Field, fields, is_dataclass
from math import inf, isfinite
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar, get_args, get_type_hints

from sottovoce.errors import SettingsError
from sottovoce.protocol.strict import shown

T = TypeVar("T")


def read_settings(path: Path, kind: type[T]) -> T:
    """The file as a dataclass; nested dataclasses are tables, paths are relative to the file."""
    if not path.exists():
        raise SettingsError(f"{path}: there is no such file")
    if path.is_dir():
        raise SettingsError(f"{path}: this is a folder; name the settings file in it")
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise SettingsError(f"{path}: cannot be read as TOML: {error}") from error
    try:
        return _table(content, kind, "", path.parent)
    except SettingsError as error:
        raise SettingsError(f"{path}: {error}") from error


def _table(content: dict[str, Any], kind: type[T], prefix: str, base: Path) -> T:
    known: dict[str, Field[Any]] = {field.name: field for field in fields(kind)}  # type: ignore[arg-type]
    unknown = sorted(set(content) - set(known))
    if unknown:
        raise SettingsError(f"unknown {prefix}{unknown[0]}; there are: {', '.join(known)}")
    missing = [name for name, field in known.items() if _needed(field) and name not in content]
    if missing:
        raise SettingsError(f"{prefix}{missing[0]} is missing")
    types = get_type_hints(kind)
    return kind(
        **{name: _value(v, types[name], f"{prefix}{name}", base) for name, v in content.items()}
    )


def _needed(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _value(value: object, kind: Any, name: str, base: Path) -> Any:
    """One value of the kinds that our settings have; a boolean is never a number."""
    choices = [choice for choice in get_args(kind) if choice is not NoneType]
    if choices and getattr(kind, "__origin__", None) is dict:
        return _named_tables(value, choices[1], name, base)
    if choices and getattr(kind, "__origin__", None) is tuple:
        return _list(value, choices[0], name, base)
    if choices and NoneType in get_args(kind):
        return _value(value, choices[0], name, base)
    if hasattr(kind, "from_table") and isinstance(value, dict):
        return _read_by_itself(value, kind, name)
    if is_dataclass(kind) and isinstance(kind, type) and isinstance(value, dict):
        return _table(value, kind, f"{name}.", base)
    if kind is Path and isinstance(value, str) and value:
        return base / value
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        return _finite(value, name)
    if choices and value in choices:
        return value
    if (
        not isinstance(kind, type)
        or not isinstance(value, kind)
        or isinstance(value, bool) != (kind is bool)
    ):
        plain = "a table" if is_dataclass(kind) else getattr(kind, "__name__", kind)
        wanted = ", ".join(map(repr, choices)) or plain
        raise SettingsError(f"{name} must be {wanted}, not {shown(value)}")
    return value


def _read_by_itself(value: dict[str, Any], kind: Any, name: str) -> Any:
    """A table that knows best what may stand in it, as the settings of a training do."""
    try:
        return kind.from_table(value)
    except SettingsError as error:
        raise SettingsError(f"{name}: {error}") from error


def _finite(value: float, name: str) -> float:
    """TOML has `nan`, `inf` and integers beyond any float; none of them can be a setting."""
    try:
        known = float(value)
    except OverflowError:
        known = inf
    if not isfinite(known):
        raise SettingsError(f"{name} must be a finite number, not {shown(value)}")
    return known


def _named_tables(value: object, kind: Any, name: str, base: Path) -> dict[str, Any]:
    """A table whose keys are names that the operator chose."""
    if not isinstance(value, dict):
        raise SettingsError(f"{name} must be a table, not {shown(value)}")
    return {key: _value(entry, kind, f"{name}.{key}", base) for key, entry in value.items()}


def _list(value: object, kind: Any, name: str, base: Path) -> tuple[Any, ...]:
    """Any number of values of one kind."""
    if not isinstance(value, list):
        raise SettingsError(f"{name} must be a list, not {shown(value)}")
    return tuple(_value(each, kind, f"{name}[{at}]", base) for at, each in enumerate(value))
