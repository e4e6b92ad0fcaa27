"""Prices in text, such as "4.50 EUR", "1.234,50 €" or "$1,234.50"."""

import re
from collections.abc import Iterable
from typing import NamedTuple

# A number, and what stands before and after it. Groups of digits may be separated by spaces (also
# those that do not break a line) and apostrophes.
_PRICE = re.compile(
    r"(?P<before>[^0-9.,+-]*)(?P<digits>[0-9][0-9.,'’ \u00a0\u202f]*|[.,][0-9]+)(?P<after>[^0-9]*)"
)
_GROUP_SPACES = re.compile(r"['’ \u00a0\u202f]")
_CURRENCY_CODE = re.compile(r"[A-Za-z]{3}")
# Symbols that stand for one currency. "$", "¥" and "kr" are symbols of several.
_CODES_BY_SYMBOL = {"€": "EUR", "£": "GBP", "₹": "INR", "zł": "PLN", "Kč": "CZK", "Fr.": "CHF"}
_SHARED_SYMBOLS = ("$", "¥", "kr")
# A price of more characters is refused, and so is one that tags cannot hold.
_MAX_PRICE_CHARACTERS = 64
_MAX_PRICE = 2.0**53


class Price(NamedTuple):
    """A price as a file writes it."""

    digits: str
    """The number, with its marks but without spaces."""
    currency: str
    """The code of the currency, or a symbol that several currencies share; empty if not named."""


def split_price(text: str) -> Price | None:
    """Split a price into its number and its currency; return None if it is no price.

    >>> split_price("1.234,50 €")
    Price(digits='1.234,50', currency='EUR')
    """
    match = _PRICE.fullmatch(text.strip()[: _MAX_PRICE_CHARACTERS + 1])
    if match is None or len(match[0]) > _MAX_PRICE_CHARACTERS:
        return None
    digits = _GROUP_SPACES.sub("", match["digits"]).rstrip(".,")
    # Swiss and German prices may end in a dash: "4.-".
    symbol = (match["before"] + match["after"].strip().lstrip("-–")).strip()
    if _CURRENCY_CODE.fullmatch(symbol):
        return Price(digits, symbol.upper())
    if symbol in _CODES_BY_SYMBOL:
        return Price(digits, _CODES_BY_SYMBOL[symbol])
    return Price(digits, symbol) if symbol in ("", *_SHARED_SYMBOLS) else None


def find_decimal_marks(prices: Iterable[str]) -> set[str]:
    """Return the decimal marks of those numbers that can be read in one way only."""
    return {mark for digits in prices if (mark := _find_decimal_mark(digits))}


def _find_decimal_mark(digits: str) -> str | None:
    """Return the decimal mark of a number, "" if it has none, or None if that cannot be told."""
    marks = re.findall("[.,]", digits)
    if len(set(marks)) == 2:
        return str(marks[-1])
    if len(marks) != 1:
        return ""  # several marks of one kind separate thousands
    whole, fraction = re.split("[.,]", digits)
    # "1.234" may be 1.234 or 1,234, but "0.234" and "1234.567" may not.
    is_open = len(fraction) == 3 and 1 <= len(whole) <= 3 and whole[0] != "0"
    return None if is_open else str(marks[0])


def parse_number(digits: str, decimal_marks: set[str]) -> float | None:
    """Return the value of a number; None if it cannot be read, or in two ways.

    Args:
        digits: The number.
        decimal_marks: The decimal marks of the other prices of the file.

    >>> parse_number("1.234", {","}), parse_number("1.234", {"."}), parse_number("1.234", set())
    (1234.0, 1.234, None)
    """
    mark = _find_decimal_mark(digits)
    if mark is None:
        if len(decimal_marks) != 1:
            return None
        (decimal_mark,) = decimal_marks
        mark = decimal_mark if decimal_mark in digits else ""
    whole, _, fraction = digits.partition(mark) if mark else (digits, "", "")
    first, *groups = re.split("[.,]", whole)
    if groups and not (1 <= len(first) <= 3 and all(len(group) == 3 for group in groups)):
        return None
    if "." in fraction or "," in fraction:
        return None
    value = float(f"{first or 0}{''.join(groups)}.{fraction or 0}")
    return value if value < _MAX_PRICE else None
