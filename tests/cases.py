"""The layout of vector files: one case on a line, so that a diff shows which case changed."""

from json import dumps
from typing import Any


def format_cases(value: Any, indent: str = "") -> str:
    """Format JSON, with a line for each object of a list and for each field around such a list."""
    if not _has_cases(value):
        return dumps(value)
    inner = indent + " "
    if isinstance(value, dict):
        lines = [f"{dumps(key)}: {format_cases(item, inner)}" for key, item in value.items()]
    else:
        lines = [dumps(case) for case in value]
    first, last = "{}" if isinstance(value, dict) else "[]"
    return f"{first}\n{inner}" + f",\n{inner}".join(lines) + f"\n{indent}{last}"


def _has_cases(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_has_cases(item) for item in value.values())
    return isinstance(value, list) and any(isinstance(case, dict) for case in value)
