"""Odd tables and matrices: what is read, what is warned about, and what is refused by its row."""

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from sottovoce.core import Histories
from sottovoce.data import Interactions, leave_out, load
from sottovoce.errors import DataError, DataWarning
from sottovoce.simulation import FederatedMF

NAT = pd.NaT
DAY = pd.Timestamp("1970-01-02")


class ArrowTable:
    """A table of an unknown library, with nothing but Arrow's protocol."""

    def __init__(self, **columns: Any):
        self._frame = pl.DataFrame(columns)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._frame.__arrow_c_stream__(requested_schema)


def table(users: Any, items: Any = ("a", "b"), **others: Any) -> dict[str, Any]:
    return {"user": users, "item": list(items), **others}


def frame(users: Any, items: Any = ("a", "b"), **others: Any) -> pd.DataFrame:
    return pd.DataFrame(table(users, items, **others))


# What is read: the pairs (user, item), in ascending order of ids.
TWO = [("x", "a"), ("y", "b")]
READ: dict[str, tuple[Callable[[], Any], list[tuple[Any, Any]]]] = {
    "lazy query": (lambda: pl.LazyFrame(table(["x", "y"])), TWO),
    "Arrow": (lambda: ArrowTable(**table(["x", "y"])), TWO),
    "pandas": (lambda: frame(["x", "y"]), TWO),
    "pandas with an index": (lambda: frame(["x", "y"]).set_axis(["q", "r"]), TWO),
    "tuple of columns": (lambda: (["x", "y"], ["a", "b"]), TWO),
    "tuple of arrays": (lambda: (np.array(["x", "y"]), np.array(["a", "b"])), TWO),
    "category": (lambda: frame(pd.Categorical(["x", "y"])), TWO),
    "enum": (lambda: table(pl.Series(["x", "y"], dtype=pl.Enum(["y", "x"]))), TWO),
    "nullable integers": (lambda: frame(pd.array([1, 2], "Int64")), [(1, "a"), (2, "b")]),
    "whole floats": (lambda: frame([1.0, 2.0]), [(1, "a"), (2, "b")]),
    "one row": (lambda: table(["x"], ["a"]), [("x", "a")]),
    "duplicate rows": (lambda: frame(["x", "x"], ["a", "a"]), [("x", "a")]),
    "ids beyond 2^63": (
        lambda: table(pl.Series([2**64 - 1, 2**63], dtype=pl.UInt64)),
        [(2**63, "b"), (2**64 - 1, "a")],
    ),
    "negative ids": (lambda: table([-1, -2]), [(-2, "b"), (-1, "a")]),
    "numbers as text": (lambda: table(["10", "9"]), [("10", "a"), ("9", "b")]),
    "leading zeros": (lambda: table(["007", "7"]), [("007", "a"), ("7", "b")]),
    "letters of two scripts": (lambda: table(["ä", "я"]), [("ä", "a"), ("я", "b")]),
    "bytes": (lambda: table([b"x", b"y"]), [(b"x", "a"), (b"y", "b")]),
    "odd names of columns": (
        lambda: pl.DataFrame({"User ID": ["x", "y"], "product-id": ["a", "b"]}),
        TWO,
    ),
    "another column with gaps": (lambda: frame(["x", "y"], note=[None, np.nan]), TWO),
    "negative quantities": (lambda: frame(["x", "y"], quantity=[3, -1]), [("x", "a")]),
    "ratings of 0": (lambda: frame(["x", "y"], rating=[0.0, 0.5]), [("y", "b")]),
    "ratings that are true": (lambda: frame(["x", "y"], rating=[True, False]), [("x", "a")]),
    "dates": (lambda: frame(["x", "y"], date=[DAY, DAY]), TWO),
    "dates with a zone": (lambda: frame(["x", "y"], date=[DAY.tz_localize("UTC")] * 2), TWO),
    "days": (lambda: table(["x", "y"], date=[dt.date(1970, 1, 2)] * 2), TWO),
    "datetime64 in days": (
        lambda: table(["x", "y"], date=np.array(["1970-01-02"] * 2, "datetime64[D]")),
        TWO,
    ),
    "boolean matrix": (lambda: np.eye(2, dtype=bool), [(0, 0), (1, 1)]),
    "negative matrix": (lambda: np.array([[1, -1], [0, 2.5]]), [(0, 0), (1, 1)]),
    "sparse array": (lambda: sparse.coo_array(np.eye(2)), [(0, 0), (1, 1)]),
    "list of lists": (lambda: [[1, 0], [0, 1]], [(0, 0), (1, 1)]),
}
# What is refused, and what the message names: rows are counted from 1.
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "NaN as user": (lambda: frame([1.0, np.nan]), r"row 2: user .*None|row 2: user .*nan"),
    "None as user": (lambda: frame(["x", None]), "row 2: user"),
    "NA as user": (lambda: frame(pd.array([1, pd.NA], "Int64")), "row 2: user"),
    "None as item": (lambda: pl.DataFrame(table(["x", "y"], ["a", None])), "row 2: item"),
    "empty text": (lambda: table(["", "y"]), "row 1: user must not be ''"),
    "blanks alone": (lambda: table(["x", "  "]), "row 2: user must not be '  '"),
    "NaT": (lambda: frame(["x", "y"], time=[DAY, NAT]), "row 2: timestamp"),
    "NaT with a zone": (
        lambda: frame(["x", "y"], time=[DAY.tz_localize("UTC"), NAT]),
        "row 2: timestamp",
    ),
    "NaT of numpy": (
        lambda: table(["x", "y"], time=np.array(["1970-01-02", "NaT"], "datetime64[s]")),
        "row 2: timestamp",
    ),
    "a time in words": (lambda: table(["x", "y"], time=["5", "soon"]), "row 2: timestamp .*'soon'"),
    "NaN as rating": (lambda: frame(["x", "y"], rating=[1, np.nan]), "row 2: rating"),
    "infinite rating": (lambda: table(["x", "y"], rating=[1.0, np.inf]), "row 2: rating .*inf"),
    "fraction as id": (lambda: table([1.0, 1.5]), "row 2: user must not be 1.5"),
    "float of 2^53": (lambda: table([1.0, 2.0**53]), "row 2: user"),
    "boolean as id": (lambda: table([True, False]), "row 1: the user True is Boolean"),
    "decimal as id": (lambda: table([Decimal(1), Decimal(2)]), "row 1: the user .*Decimal"),
    "list as id": (lambda: table([["x"], ["y"]]), "row 1: the user"),
    "mixed ids": (lambda: table(["x", 1]), "each of one type"),
    "no rows": (lambda: frame([], []), "no rows"),
    "only returned goods": (lambda: frame(["x", "y"], quantity=[-1, 0]), "all 2 ratings"),
    "no column of users": (lambda: pd.DataFrame({"who": [1], "item": [2]}), "'who', 'item'"),
    "two columns of items": (lambda: table(["x", "y"], movie=[1, 2]), "'item', 'movie'"),
    "columns of two lengths": (lambda: table(["x"]), "equal length"),
    "three columns in a tuple": (lambda: ([1], [2], [3]), "not 3"),
    "matrix with NaN": (lambda: np.array([[1, np.nan]]), "finite"),
    "matrix of text": (lambda: np.array([["x", "y"]]), "matrix"),
    "matrix of zeros": (lambda: sparse.csr_matrix((3, 4)), "above 0"),
}


def list_pairs(data: Interactions) -> list[tuple[Any, Any]]:
    users = data.user_ids[data.histories.users_of_entries()].tolist()
    return list(zip(users, data.item_ids[data.histories.indices].tolist(), strict=True))


@pytest.mark.parametrize("name", READ)
def test_odd_input_is_read(name: str) -> None:
    make, pairs = READ[name]
    data = load(make())
    assert list_pairs(data) == pairs
    if "da" in name:
        assert data.timestamps is None or set(data.timestamps.tolist()) == {86_400}


@pytest.mark.parametrize("name", REFUSED)
def test_odd_input_is_refused_by_its_row(name: str) -> None:
    make, words = REFUSED[name]
    with pytest.raises(DataError, match=words):
        load(make())


def test_ids_that_differ_by_blanks_stay_different_with_a_warning() -> None:
    with pytest.warns(DataWarning, match="'x '"):
        assert load(table(["x", "x "])).user_ids.tolist() == ["x", "x "]


def test_rows_that_do_not_count_are_warned_about_once() -> None:
    model = FederatedMF(factors=1, epochs=1, reports=1, verbose=False)
    rows = READ["negative quantities"][0]()
    with pytest.warns(DataWarning, match="1 of 2 ratings"):
        model.fit(rows)
    with pytest.warns(DataWarning, match="1 of 2 ratings"):
        train, _ = leave_out(load(rows))
    # Parts of the data do not warn about all of it.
    model.fit(train)
    with pytest.raises(DataError):
        model.fit(Histories.from_lists([], 3))
