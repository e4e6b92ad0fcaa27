"""Settings of a service: one TOML file, one frozen dataclass, parsed once, unknown keys refused."""

import json
import re
import tomllib
from collections.abc import Container
from dataclasses import MISSING, Field, fields, is_dataclass
from difflib import get_close_matches
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from sottovoce.errors import SettingsError
from sottovoce.settings import Setting, format_value, get_settings

T = TypeVar("T")


def read_settings(path: Path, kind: type[T]) -> T:
    """The file as a dataclass; nested dataclasses are tables, paths are relative to the file."""
    if not path.exists():
        raise SettingsError(f"{path}: there is no such file; name the settings file")
    if path.is_dir():
        raise SettingsError(f"{path}: this is a folder; name the settings file in it")
    try:
        text = path.read_text(encoding="utf-8")
        content = tomllib.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise SettingsError(f"{path}: cannot be read as TOML: {error}") from error
    try:
        return _table(content, kind, "", path.parent)
    except SettingsError as error:
        raise SettingsError(f"{path}{_line(str(error), text)}: {error}") from error


def _line(said: str, text: str) -> str:
    """Where the setting stands that a message begins with, or else its table."""
    found = _NAMED.match(said)
    names = () if found is None else (f"{found[1]}.{found[2]}", found[1])
    return next(filter(None, (_line_of(name, text) for name in names)), "")


_NAMED = re.compile(r"(?:unknown )?([\w.\-]+)(?:: (?:unknown )?(\w+))?")


def _line_of(name: str, text: str) -> str:
    """Where a setting stands, as far as a line can say it: `, line 7`."""
    *tables, last = name.split(".")
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            table = header[1]
            if table == name:
                return f", line {number}"
        named = re.match(rf"\s*['\"]?{re.escape(last)}['\"]?\s*[.=]", line)
        if named and table == ".".join(tables):
            return f", line {number}"
    return ""


_HEADER = re.compile(r"\s*\[\s*([\w.\-]+)\s*\]")


def _table(content: dict[str, Any], kind: type[T], prefix: str, base: Path) -> T:
    known: dict[str, Field[Any]] = {field.name: field for field in fields(kind)}  # type: ignore[arg-type]
    unknown = sorted(set(content) - set(known))
    if unknown:
        name, near = f"{prefix}{unknown[0]}", get_close_matches(unknown[0], known, n=1)
        what = f"did you mean {prefix}{near[0]}?" if near else f"there are {', '.join(known)}"
        raise SettingsError(f"unknown {name}; {what}")
    missing = [name for name, field in known.items() if _needed(field) and name not in content]
    if missing:
        raise SettingsError(f"{prefix}{missing[0]} must be set")
    types = get_type_hints(kind)
    values = {name: _value(v, types[name], f"{prefix}{name}", base) for name, v in content.items()}
    try:
        return kind(**values)
    except SettingsError as error:  # it begins with the name of a setting
        raise SettingsError(f"{prefix}{error}") from error


def _needed(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _value(value: object, kind: Any, name: str, base: Path) -> Any:
    """One value of the kinds that our settings have."""
    origin, inner = get_origin(kind), [each for each in get_args(kind) if each is not NoneType]
    if origin is tuple:
        if not isinstance(value, list):
            raise SettingsError(f"{name} must be a list, not {format_value(value)}")
        return tuple(_value(v, inner[0], f"{name}[{at}]", base) for at, v in enumerate(value))
    if inner and origin is not dict:  # or None
        return _value(value, inner[0], name, base)
    if origin is dict or is_dataclass(kind):
        if not isinstance(value, dict):
            raise SettingsError(f"{name} must be a table, not {format_value(value)}")
        return _below(value, kind, inner, name, base)
    if kind is Path:
        if not isinstance(value, str) or not value:
            raise SettingsError(f"{name} must be a path, not {format_value(value)}")
        return base / value
    return Setting(name, kind).check_value(value)


def _below(value: dict[str, Any], kind: Any, inner: list[Any], name: str, base: Path) -> Any:
    """A table: one whose keys the operator chose, one that knows best what may stand in it, any."""
    if inner:
        return {key: _value(each, inner[1], f"{name}.{key}", base) for key, each in value.items()}
    if not hasattr(kind, "from_table"):
        return _table(value, kind, f"{name}.", base)
    try:
        return kind.from_table(value)
    except SettingsError as error:
        raise SettingsError(f"{name}: {error}") from error


def render_settings(
    kind: Any, *, omit: Container[str] = (), commented: bool = False, **values: object
) -> str:
    """Render the settings of a class for a new file, each in a line with its help.

    Args:
        kind: The settings class.
        omit: Names of settings to leave out.
        commented: Whether every line is a comment.
        **values: Values instead of the defaults.
    """
    sign = "# " if commented else ""
    return "".join(
        f"{sign}{name} = {json.dumps(values.get(name, each.default))}  # {each.help}\n"
        for name, each in get_settings(kind).items()
        if name not in omit
    )
