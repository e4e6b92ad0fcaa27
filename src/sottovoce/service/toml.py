"""Settings files: read TOML into frozen dataclasses, and write defaults for a new file."""

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
from sottovoce.settings import Setting, get_settings, make_value_error

T = TypeVar("T")

# Patterns of the header of a table, and of a line with a key.
_HEADER_PATTERN = re.compile(r"\s*\[\s*([\w.\-]+)\s*\]")
_KEY_PATTERN = re.compile(r"\s*['\"]?([\w\-]+)['\"]?\s*[.=]")


def read_settings(path: Path, settings_class: type[T]) -> T:
    """Read an instance of a settings class from a TOML file, whose tables are nested classes.

    Paths in the file are relative to its folder.

    Raises:
        SettingsError: The file cannot be read, or a setting is wrong. The message names the file,
            the line and the setting.
    """
    if not path.exists():
        raise SettingsError(f"{path}: this file does not exist; name the settings file")
    if path.is_dir():
        raise SettingsError(f"{path}: this is a folder; name the settings file in it")
    try:
        text = path.read_text(encoding="utf-8")
        content = tomllib.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise SettingsError(f"{path}: cannot be read as TOML: {error}") from error
    try:
        return _parse_table(content, settings_class, "", path.parent)
    except SettingsError as error:
        line = _find_line(error.setting, text)
        location = path if line is None else f"{path}, line {line}"
        raise SettingsError(f"{location}: {error}", setting=error.setting) from error


def _find_line(setting: str, text: str) -> int | None:
    """Return the line number of a setting; of its innermost table if the file lacks the setting."""
    table = ""
    lines: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER_PATTERN.match(line):
            table = header[1]
            lines.setdefault(table, number)
        elif key := _KEY_PATTERN.match(line):
            lines.setdefault(f"{table}.{key[1]}".lstrip("."), number)
    name = setting.partition("[")[0]  # without the index in a list
    while name and name not in lines:
        name = name.rpartition(".")[0]
    return lines.get(name)


def _parse_table(content: dict[str, Any], kind: type[T], prefix: str, folder: Path) -> T:
    declared: dict[str, Field[Any]] = {field.name: field for field in fields(kind)}  # type: ignore[arg-type]
    unknown = sorted(set(content) - set(declared))
    if unknown:
        name, similar = f"{prefix}{unknown[0]}", get_close_matches(unknown[0], declared, n=1)
        hint = f"there are {', '.join(declared)}"
        if similar:
            hint = f"did you mean {prefix}{similar[0]}?"
        raise SettingsError(f"unknown {name}; {hint}", setting=name)
    for name, field in declared.items():
        is_required = field.default is MISSING and field.default_factory is MISSING
        if is_required and name not in content:
            raise SettingsError(f"{prefix}{name} must be set", setting=f"{prefix}{name}")
    kinds = get_type_hints(kind)
    values = {
        name: _parse_value(value, kinds[name], f"{prefix}{name}", folder)
        for name, value in content.items()
    }
    try:
        return kind(**values)
    except SettingsError as error:
        # The message begins with the name of a setting in this table.
        raise SettingsError(f"{prefix}{error}", setting=f"{prefix}{error.setting}") from error


def _parse_value(value: object, kind: Any, name: str, folder: Path) -> Any:
    origin = get_origin(kind)
    inner = [argument for argument in get_args(kind) if argument is not NoneType]
    if origin is tuple:
        if not isinstance(value, list):
            raise make_value_error(name, "a list", value)
        return tuple(
            _parse_value(item, inner[0], f"{name}[{place}]", folder)
            for place, item in enumerate(value)
        )
    if inner and origin is not dict:  # an optional value, as in `str | None`
        return _parse_value(value, inner[0], name, folder)
    if kind is Path:
        if not isinstance(value, str) or not value:
            raise make_value_error(name, "a path", value)
        return folder / value
    if origin is not dict and not is_dataclass(kind):
        return Setting(name, kind).check_value(value)
    if not isinstance(value, dict):
        raise make_value_error(name, "a table", value)
    if origin is dict:  # the operator chooses the keys
        return {key: _parse_value(value[key], inner[1], f"{name}.{key}", folder) for key in value}
    if not hasattr(kind, "from_table"):
        return _parse_table(value, kind, f"{name}.", folder)
    try:
        return kind.from_table(value)
    except SettingsError as error:
        raise SettingsError(f"{name}: {error}", setting=f"{name}.{error.setting}") from error


def render_settings(
    kind: Any, *, omit: Container[str] = (), commented: bool = False, **values: object
) -> str:
    """Return lines of TOML with the settings of a class, each with its help as a comment.

    Args:
        kind: The settings class.
        omit: Names of settings to leave out.
        commented: Whether to comment out every line.
        **values: Values instead of the defaults.
    """
    sign = "# " if commented else ""
    return "".join(
        f"{sign}{name} = {json.dumps(values.get(name, setting.default))}  # {setting.help}\n"
        for name, setting in get_settings(kind).items()
        if name not in omit
    )
