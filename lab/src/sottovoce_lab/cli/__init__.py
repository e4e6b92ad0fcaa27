"""The commands of the laboratory."""

from typing import Annotated, Any

from rich.table import Table

from sottovoce.cli.options import make_option
from sottovoce.cli.output import escape_markup
from sottovoce.core import MECHANISMS

Mechanisms = Annotated[
    list[str] | None,
    make_option(
        f"Mechanism to run: {', '.join(MECHANISMS)}. May be repeated.", "all", "--mechanism"
    ),
]


def number_table(title: str, *headings: str) -> Table:
    """A table of numbers: the first column is text, the others are aligned to the right."""
    made = Table(title=escape_markup(title), title_justify="left")
    for place, heading in enumerate(headings):
        made.add_column(
            escape_markup(heading), justify="right" if place else "left", overflow="fold"
        )
    return made


def median_and_range(found: Any) -> str:
    """Median and range (`low`, `median`, `high`), in a table."""
    return f"{_short(found.median)} ({_short(found.low)}..{_short(found.high)})"


def megabytes(count: int | None) -> str:
    return "unknown" if count is None else f"{count / 1e6:,.0f} MB"


def _short(value: float) -> str:
    """Three digits, but never an exponent."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
