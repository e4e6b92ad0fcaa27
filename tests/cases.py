"""How vectors are written: one case on a line, so that a difference shows the case."""

from json import dumps
from typing import Any


def one_a_line(value: Any, indent: str = "") -> str:
    """JSON in which lists of objects, and the objects around them, are broken into lines."""
    if not _has_cases(value):
        return dumps(value)
    inner = indent + " "
    if isinstance(value, dict):
        lines = [f"{dumps(key)}: {one_a_line(each, inner)}" for key, each in value.items()]
    else:
        lines = [dumps(each) for each in value]
    first, last = "{}" if isinstance(value, dict) else "[]"
    return f"{first}\n{inner}" + f",\n{inner}".join(lines) + f"\n{indent}{last}"


def _has_cases(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_has_cases(each) for each in value.values())
    return isinstance(value, list) and any(isinstance(each, dict) for each in value)
