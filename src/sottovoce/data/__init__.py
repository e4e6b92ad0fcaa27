"""Data sets, filters, splits and synthetic people."""

from __future__ import annotations

from sottovoce.data.catalogue import CATALOGUE
from sottovoce.data.formats.columns import parse_columns
from sottovoce.data.interactions import Interactions, Loaded
from sottovoce.data.late import Late, hold_people
from sottovoce.data.loading import load
from sottovoce.data.shards import Shards
from sottovoce.data.split import Split, leave_one_out
from sottovoce.data.synthetic import synthetic_people

__all__ = [
    "CATALOGUE",
    "Interactions",
    "Late",
    "Loaded",
    "Shards",
    "Split",
    "hold_people",
    "leave_one_out",
    "load",
    "parse_columns",
    "synthetic_people",
]
