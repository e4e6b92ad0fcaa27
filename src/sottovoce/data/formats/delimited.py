"""Any CSV or TSV file with a header: one line for each interaction."""

from __future__ import annotations

from itertools import chain
from typing import IO, TYPE_CHECKING

from sottovoce.data.formats.collecting import Collector
from sottovoce.data.formats.columns import roles_of
from sottovoce.data.formats.sources import open_file
from sottovoce.data.formats.text import Block, Layout, blocks, parse, quoted_fields
from sottovoce.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sottovoce.data.interactions import Interactions

SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
_BOM = b"\xef\xbb\xbf"
_SEPARATORS = (",", "\t", ";", "|")


def read(path: Path, columns: Mapping[str, str] | None = None) -> Interactions:
    collector = Collector()
    with open_file(path) as file:
        read_into(collector, file, str(path), columns)
    return collector.finish(path, "table of text")


def read_into(
    collector: Collector,
    file: IO[bytes],
    label: str,
    columns: Mapping[str, str] | None = None,
    *,
    integers: bool = False,
) -> None:
    """Every interaction of a text file with a header line."""
    several = blocks(file, label, quoted=True)
    first = next(several, None)
    if first is None:
        raise DataError("the file is empty", path=label)
    header, body = _split_header(first)
    separator = max(_SEPARATORS, key=header.count)
    names = quoted_fields(header, separator)
    layout = Layout(separator, roles_of(names, columns, label), integers=integers, quoted=True)
    for block in chain([body] if body.data else [], several):
        collector.add(parse(block, layout))


def _split_header(block: Block) -> tuple[str, Block]:
    """The first line without its byte-order mark, and the lines below it."""
    head, _, body = block.data.removeprefix(_BOM).partition(b"\n")
    try:
        header = head.decode().removesuffix("\r")
    except UnicodeDecodeError as error:
        raise DataError("the header is not UTF-8 text", path=block.label, line=1) from error
    return header, Block(block.label, block.first_line + 1, body)
