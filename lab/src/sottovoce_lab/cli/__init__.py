"""The commands of the laboratory."""

from typing import Annotated

from rich.table import Table

from sottovoce.cli.options import make_option
from sottovoce.cli.output import escape_markup
from sottovoce.core import MECHANISMS
from sottovoce_lab.bench.timing import Spread

Mechanisms = Annotated[
    list[str] | None,
    make_option(
        f"Mechanism to use: {', '.join(MECHANISMS)}. May be repeated.", "all", "--mechanism"
    ),
]


def make_number_table(title: str, *headings: str) -> Table:
    """Return a table whose first column is text and whose other columns are aligned right."""
    table = Table(title=escape_markup(title), title_justify="left")
    for place, heading in enumerate(headings):
        table.add_column(
            escape_markup(heading), justify="right" if place else "left", overflow="fold"
        )
    return table


def format_spread(spread: Spread) -> str:
    """Format median and range for a table."""
    median, low, high = (_format_number(x) for x in (spread.median, spread.low, spread.high))
    return f"{median} ({low}..{high})"


def format_megabytes(count: int) -> str:
    """Format a number of bytes in MB."""
    return f"{count / 1e6:,.0f} MB"


def _format_number(value: float) -> str:
    """Format with three digits and without an exponent."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
