"""Blocks of lines, and naming the line that is wrong."""

from __future__ import annotations

import io

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.data.formats.text import Block, Layout, blocks, parse, seconds
from sottovoce.errors import DataError

ROLES = ("user", "item", "rating", "timestamp")
PLAIN = Layout("::", ROLES)
QUOTED = Layout(",", ROLES, integers=False, quoted=True)


def cut(data: bytes, size: int, *, quoted: bool = False) -> list[Block]:
    return list(blocks(io.BytesIO(data), "x", quoted=quoted, size=size))


@given(st.lists(st.text("ab,", min_size=1, max_size=9), min_size=1), st.integers(4, 40))
def test_blocks_are_whole_lines_with_their_numbers(lines: list[str], size: int) -> None:
    data = "\n".join(lines).encode()
    found = cut(data, size)
    assert b"".join(block.data for block in found) == data
    for block in found:
        head = block.data.split(b"\n")[0].decode()
        assert lines[block.first_line - 1] == head


@given(st.lists(st.text('ab,\n"', max_size=6), min_size=1), st.integers(30, 60))
def test_a_quoted_field_is_never_cut(fields: list[str], size: int) -> None:
    records = ['"' + text.replace('"', '""') + '",x\n' for text in fields]
    found = cut("".join(records).encode(), size, quoted=True)
    assert "".join(block.data.decode() for block in found) == "".join(records)
    assert all(block.data.count(b'"') % 2 == 0 for block in found)


def test_empty_lines_at_the_end_do_not_count() -> None:
    assert [block.data for block in cut(b"a\n\n\r\n\n", 100)] == [b"a\n"]
    assert cut(b"\n\n", 1) == []


def test_a_quotation_mark_without_end() -> None:
    with pytest.raises(DataError, match=r"x, line 2: .*has no end"):
        cut(b"a,b\n" + b'"' + b"c,d\n" * 100, 16, quoted=True)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"1::2::3", "expected 4 fields, found 3"),
        (b"1::2::3::4::5", "expected 4 fields, found 5"),
        (b"", "expected 4 fields, found 1"),
        (b"1\t2::3::4", "expected 4 fields, found 3"),
        (b"x::2::3::4", "the user must be an integer, found 'x'"),
        (b"1::2.5::3::4", "the item must be an integer, found '2.5'"),
        (b"1::99999999999999999999::3::4", "the item must be an integer"),
        (b"::2::3::4", "the user is empty"),
        (b"1::2::good::4", "the rating must be a finite number, found 'good'"),
        (b"1::2::nan::4", "the rating must be a finite number, found 'nan'"),
        (b"1::2::-inf::4", "the rating must be a finite number, found '-inf'"),
        (b"1::2::3::soon", "the timestamp must be an integer, found 'soon'"),
        (b"1::2\xff::3::4", "not UTF-8"),
    ],
)
@pytest.mark.parametrize("before", [0, 3])
def test_the_line_at_fault_is_named(line: bytes, reason: str, before: int) -> None:
    data = b"7::8::3.5::9\n" * before + line + b"\n7::8::3.5::9\n"
    with pytest.raises(DataError) as caught:
        parse(Block("ratings.dat", 11, data), PLAIN)
    assert caught.value.line == 11 + before
    assert reason in str(caught.value)


def test_a_line_after_a_field_with_line_ends() -> None:
    data = b'"a\n\nb",i,1,1\n"c",i,one,1\n'
    with pytest.raises(DataError) as caught:
        parse(Block("x.csv", 2, data), QUOTED)
    assert caught.value.line == 5


def test_times_of_two_kinds_are_refused_even_though_each_is_one() -> None:
    with pytest.raises(DataError, match=r"somewhere in lines 1\.\.2"):
        parse(Block("x.csv", 1, b"a,i,1,2020-01-01\na,j,1,5\n"), QUOTED)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["5", "-7"], [5, -7]),
        (["1112486027.0", "2"], [1112486027, 2]),
        (["1970-01-02", "1970-01-01"], [86400, 0]),
        (["1970-01-01 00:01:00"], [60]),
        (["1970-01-01T01:00:00"], [3600]),
        (["5", "soon"], [5, None]),
        (["nan", "1.5"], [None, None]),
    ],
)
def test_seconds(texts: list[str], expected: list[int | None]) -> None:
    assert seconds(pl.Series(texts)).to_list() == expected
