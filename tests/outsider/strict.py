"""Strict JSON: what is taken, and that everything else is refused."""

import json
import math
from collections.abc import Iterable
from typing import Any

LAST = 2**53 - 1
"""The largest whole number."""


class Refused(ValueError):  # noqa: N818
    """Something does not hold: nothing is used, stored or sent."""


def need(holds: object, what: str) -> None:
    if not holds:
        raise Refused(what)


def strict_json(data: bytes, cap: int) -> dict[str, Any]:
    need(len(data) <= cap, "longer than allowed")
    try:
        value = json.loads(
            data.decode(),
            object_pairs_hook=_unique,
            parse_int=_number,
            parse_float=_number,
            parse_constant=_number,
        )
    except (ValueError, RecursionError) as error:
        raise Refused(f"not strict JSON: {error}") from error
    if not isinstance(value, dict):
        raise Refused("not an object")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    need(len(dict(pairs)) == len(pairs), "a key is repeated")
    return dict(pairs)


def _number(text: str) -> int | float:
    need(math.isfinite(float(text)), "a number that is not finite")
    return int(text) if text.lstrip("-").isdecimal() else float(text)


def keyed(value: Any, keys: Iterable[str]) -> dict[str, Any]:
    """Require an object with exactly these keys."""
    wanted = set(keys)
    if not isinstance(value, dict) or value.keys() != wanted:
        raise Refused(f"an object with exactly {sorted(wanted)} is wanted")
    return value


def ranged(value: Any, kind: type, low: float, high: float) -> None:
    """Require a whole number (`int`) or any number (`float`) within these bounds."""
    is_kind = type(value) is int or (kind is float and type(value) is float)
    need(is_kind, "not a number of its kind")
    need(low <= value <= high, f"{value} is not in {low}..{high}")


def hexadecimal(value: Any, digits: int) -> None:
    is_text = isinstance(value, str) and len(value) == digits
    need(is_text and set(value) <= set("0123456789abcdef"), "not hexadecimal")


def text(value: Any, longest: int = 512) -> None:
    is_text = isinstance(value, str) and 1 <= len(value) <= longest
    need(is_text, f"a text of 1..{longest} characters is wanted")
    need(not any(0xD800 <= ord(letter) < 0xE000 for letter in value), "half of a surrogate pair")
    need(not any(is_control(ord(letter)) for letter in value), "a control character")


def is_control(point: int) -> bool:
    ranges = ((0, 0x1F), (0x7F, 0x9F), (0x2028, 0x202E), (0x2066, 0x2069))
    return any(low <= point <= high for low, high in ranges)
