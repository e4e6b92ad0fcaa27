"""Strict parsing of JSON, so that all programs read the same values from a file."""

import json
import re
from typing import Any

from sottovoce.characters import CONTROL_CHARACTERS, format_code_point
from sottovoce.errors import ProtocolError

# The largest integer that every program reads exactly: JavaScript stores numbers as floats.
MAX_INTEGER = 2**53 - 1
_HEX_PATTERN = re.compile(r"(?:[0-9a-f]{2})*")


def parse_object(raw: bytes, *, max_bytes: int, what: str) -> dict[str, Any]:
    """Parse a JSON object in UTF-8.

    Args:
        raw: The bytes of the object.
        max_bytes: The largest number of bytes that is allowed.
        what: Name of the object for error messages, as in all functions of this module.

    Raises:
        ProtocolError: The bytes are too many or not a JSON object, or the JSON has a repeated key,
            NaN or Infinity.
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
        raise ProtocolError(f"{what}: it is not JSON as the protocol requires: {error}") from error
    if not isinstance(value, dict):
        raise ProtocolError(f"{what}: it must be a JSON object")
    return value


def format_value(value: object) -> str:
    """Format a refused value for an error message. The text is short even if the value is long."""
    if isinstance(value, dict | list):
        return f"a {type(value).__name__} of {len(value)}"
    try:
        return f"{value!r:.80}"
    except ValueError:  # an integer with more digits than Python converts
        return "a number far too long"


def check_keys(value: dict[str, Any], keys: set[str], what: str) -> None:
    """Raise a `ProtocolError` if the keys of an object are not exactly `keys`."""
    missing, unknown = keys - set(value), set(value) - keys
    if missing or unknown:
        problem = f"missing keys {sorted(missing)}, unknown keys {sorted(unknown)}"
        raise ProtocolError(f"{what}: {problem:.400}")


def parse_int(value: object, *, min_value: int, max_value: int, what: str) -> int:
    """Return an integer; raise a `ProtocolError` if it is no integer or out of range.

    A boolean is refused.
    """
    # In Python a bool is an int, so it must be excluded.
    if not isinstance(value, int) or isinstance(value, bool) or not min_value <= value <= max_value:
        raise ProtocolError(
            f"{what}: must be a whole number in {min_value}..{max_value}, not {format_value(value)}"
        )
    return value


def parse_float(value: object, *, min_value: float, max_value: float, what: str) -> float:
    """Return a number as a float; raise a `ProtocolError` if it is no number or out of range.

    A boolean is refused. `min_value` must not be negative.
    """
    # No range includes -1, so it stands for values that are not numbers.
    try:
        number = float(value) if isinstance(value, int | float) else -1.0
    except OverflowError:
        number = -1.0
    # NaN fails every comparison, so it is refused too.
    if isinstance(value, bool) or not min_value <= number <= max_value:
        raise ProtocolError(
            f"{what}: must be a number in {min_value:g}..{max_value:g}, not {format_value(value)}"
        )
    return number


def parse_bool(value: object, *, what: str) -> bool:
    """Return a boolean; raise a `ProtocolError` for any other value, such as 1."""
    if not isinstance(value, bool):
        raise ProtocolError(f"{what}: must be true or false, not {format_value(value)}")
    return value


def parse_text(value: object, *, max_length: int, what: str) -> str:
    """Return a string; raise a `ProtocolError` if it is not valid.

    It must have 1 to `max_length` characters, and no control characters or lone surrogates.
    """
    if not isinstance(value, str) or not 0 < len(value) <= max_length:
        raise ProtocolError(
            f"{what}: must be a string of 1..{max_length} characters, not {format_value(value)}"
        )
    if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
        raise ProtocolError(f"{what}: must not contain half of a surrogate pair")
    # A terminal may obey a control character and hide or change text.
    if match := CONTROL_CHARACTERS.search(value):
        raise ProtocolError(
            f"{what}: must not contain the control character {format_code_point(match[0])}: "
            f"{format_value(value)}"
        )
    return value


def parse_hex(value: object, *, size: int = 32, what: str) -> bytes:
    """Decode exactly `size` bytes from lower-case hexadecimal digits.

    Raises:
        ProtocolError: The value has another type, length or character.
    """
    digits = 2 * size
    if not isinstance(value, str) or len(value) != digits or not _HEX_PATTERN.fullmatch(value):
        raise ProtocolError(
            f"{what}: must be {digits} lower-case hexadecimal digits, not {format_value(value)}"
        )
    return bytes.fromhex(value)


def _to_dict(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key is repeated")
    return result


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")
