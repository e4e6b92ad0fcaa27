"""Strict JSON: a file has one meaning on every machine and in every language."""

import json
import re
from typing import Any

from sottovoce.characters import CONTROL_CHARACTERS, format_code_point
from sottovoce.errors import ProtocolError

# The largest whole number that JavaScript reads exactly.
MAX_INTEGER = 2**53 - 1
_HEX_PATTERN = re.compile(r"(?:[0-9a-f]{2})*")


def parse_object(raw: bytes, *, max_bytes: int, what: str) -> dict[str, Any]:
    """Parse a JSON object in UTF-8; refuse repeated keys, NaN, Infinity and too many bytes.

    Args:
        raw: The bytes of the object.
        max_bytes: The largest length that is read.
        what: Name of the object, for the message of an error.

    Raises:
        ProtocolError: The bytes are not such an object.
    """
    if len(raw) > max_bytes:
        raise ProtocolError(f"{what}: {len(raw)} bytes, but at most {max_bytes} are allowed")
    try:
        value = json.loads(
            raw.decode("utf-8"),
            object_pairs_hook=_to_dict,
            parse_constant=_refuse_constant,
        )
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"{what}: not JSON as the protocol requires: {error}") from error
    if not isinstance(value, dict):
        raise ProtocolError(f"{what}: not a JSON object")
    return value


def format_value(value: object) -> str:
    """Format a refused value for a message: short, however long or deeply nested it is."""
    if isinstance(value, dict | list):
        return f"a {type(value).__name__} of {len(value)}"
    try:
        return f"{value!r:.80}"
    except ValueError:  # an integer with more digits than Python converts
        return "a number far too long"


def check_keys(value: dict[str, Any], keys: set[str], what: str) -> None:
    """Raise a `ProtocolError` if a key is missing or unknown."""
    missing, unknown = keys - set(value), set(value) - keys
    if missing or unknown:
        problem = f"missing {sorted(missing)}, unknown {sorted(unknown)}"
        raise ProtocolError(f"{what}: {problem:.400}")


def parse_int(value: object, *, min_value: int, max_value: int, what: str) -> int:
    """Return an integer within its range; a boolean is not one."""
    # In Python a bool is an int.
    if not isinstance(value, int) or isinstance(value, bool) or not min_value <= value <= max_value:
        raise ProtocolError(
            f"{what}: a whole number in {min_value}..{max_value}, not {format_value(value)}"
        )
    return value


def parse_float(value: object, *, min_value: float, max_value: float, what: str) -> float:
    """Return a number within its range, which must not contain negative numbers."""
    try:
        number = float(value) if isinstance(value, int | float) else -1.0
    except OverflowError:
        number = -1.0
    # A NaN fails every comparison, so it is refused too.
    if isinstance(value, bool) or not min_value <= number <= max_value:
        raise ProtocolError(
            f"{what}: a number in {min_value:g}..{max_value:g}, not {format_value(value)}"
        )
    return number


def parse_bool(value: object, *, what: str) -> bool:
    """Return a boolean; no other value counts as true or false."""
    if not isinstance(value, bool):
        raise ProtocolError(f"{what}: must be true or false, not {format_value(value)}")
    return value


def parse_text(value: object, *, max_length: int, what: str) -> str:
    """Return a string of 1 to `max_length` characters without control characters."""
    if not isinstance(value, str) or not 0 < len(value) <= max_length:
        raise ProtocolError(
            f"{what}: a string of 1..{max_length} characters, not {format_value(value)}"
        )
    if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
        raise ProtocolError(f"{what}: half of a surrogate pair is not a character")
    # A control character could change what a terminal shows.
    if match := CONTROL_CHARACTERS.search(value):
        raise ProtocolError(
            f"{what}: control character {format_code_point(match[0])} in {format_value(value)}"
        )
    return value


def parse_hex(value: object, *, size: int = 32, what: str) -> bytes:
    """Decode `size` bytes of lower-case hexadecimal."""
    digits = 2 * size
    if not isinstance(value, str) or len(value) != digits or not _HEX_PATTERN.fullmatch(value):
        raise ProtocolError(
            f"{what}: {digits} lower-case hexadecimal digits, not {format_value(value)}"
        )
    return bytes.fromhex(value)


def _to_dict(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key is repeated")
    return result


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")
