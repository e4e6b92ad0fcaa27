"""Data sets, filters, splits and synthetic people."""

from sottovoce.data.columns import parse_columns
from sottovoce.data.fetching import DATA_SETS
from sottovoce.data.interactions import Interactions
from sottovoce.data.loading import load
from sottovoce.data.shards import Shards
from sottovoce.data.split import Split, leave_one_out, leave_out, split_by_time
from sottovoce.data.synthetic import synthetic_people

__all__ = [
    "DATA_SETS",
    "Interactions",
    "Shards",
    "Split",
    "leave_one_out",
    "leave_out",
    "load",
    "parse_columns",
    "split_by_time",
    "synthetic_people",
]
