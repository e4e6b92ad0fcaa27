"""JSON read strictly: one meaning for every file, on every machine, in every language."""

import json
import re
from typing import Any

from sottovoce.characters import CONTROL, named
from sottovoce.errors import ProtocolError

MOST = 2**53 - 1
"""No whole number is larger, so that JavaScript reads the same ones."""
_HEXADECIMAL = re.compile(r"(?:[0-9a-f]{2})*")


def read_object(raw: bytes, *, most: int, what: str) -> dict[str, Any]:
    """A JSON object in UTF-8: no repeated key, no NaN or Infinity, at most `most` bytes."""
    if len(raw) > most:
        raise ProtocolError(f"{what}: {len(raw)} bytes, at most {most} are read")
    try:
        value = json.loads(
            raw.decode("utf-8"), object_pairs_hook=_once, parse_constant=_no_constant
        )
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"{what}: not JSON as the protocol has it: {error}") from error
    if not isinstance(value, dict):
        raise ProtocolError(f"{what}: not a JSON object")
    return value


def shown(value: object) -> str:
    """A refused value, for a message: short, and never unrolled, however deep it is nested."""
    if isinstance(value, dict | list):
        return f"a {type(value).__name__} of {len(value)}"
    try:
        return f"{value!r:.80}"
    except ValueError:  # an integer of more digits than Python writes out
        return "a number far too long"


def exact_keys(value: dict[str, Any], keys: set[str], what: str) -> None:
    """Refuse what is missing and what is unknown."""
    missing, unknown = keys - set(value), set(value) - keys
    if missing or unknown:
        known = f"missing {sorted(missing)}, unknown {sorted(unknown)}"
        raise ProtocolError(f"{what}: {known:.400}")


def whole(value: object, *, least: int, most: int, what: str) -> int:
    """An integer, and not a boolean, within its range."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ProtocolError(f"{what}: a whole number in {least}..{most}, not {shown(value)}")
    return value


def number(value: object, *, least: float, most: float, what: str) -> float:
    """A number within its range, which has no negative ones."""
    try:
        known = float(value) if isinstance(value, int | float) else -1.0
    except OverflowError:
        known = -1.0
    if isinstance(value, bool) or not least <= known <= most:  # a NaN is not
        raise ProtocolError(f"{what}: a number in {least:g}..{most:g}, not {shown(value)}")
    return known


def boolean(value: object, *, what: str) -> bool:
    if not isinstance(value, bool):
        raise ProtocolError(f"{what}: true or false, not {shown(value)}")
    return value


def text(value: object, *, most: int, what: str) -> str:
    """A string of 1..`most` characters, none of which commands a terminal."""
    if not isinstance(value, str) or not 0 < len(value) <= most:
        raise ProtocolError(f"{what}: a string of 1..{most} characters, not {shown(value)}")
    if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
        raise ProtocolError(f"{what}: half of a surrogate pair is not a character")
    if found := CONTROL.search(value):
        raise ProtocolError(f"{what}: control character {named(found[0])} in {shown(value)}")
    return value


def hexadecimal(value: object, *, size: int = 32, what: str) -> bytes:
    """So many bytes in lower-case hexadecimal."""
    digits = 2 * size
    if not isinstance(value, str) or len(value) != digits or not _HEXADECIMAL.fullmatch(value):
        raise ProtocolError(f"{what}: {digits} lower-case hexadecimal digits, not {shown(value)}")
    return bytes.fromhex(value)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is repeated")
    return found


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")
