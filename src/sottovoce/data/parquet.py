"""Parquet files of interactions, and folders of them."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import polars as pl
from polars.exceptions import PolarsError

from sottovoce.data.collecting import Collector
from sottovoce.data.columns import REQUIRED_ROLES, Columns, check_frame, find_roles
from sottovoce.data.files import PARQUET_SUFFIXES, get_first_line
from sottovoce.data.interactions import Interactions
from sottovoce.errors import DataError

# Rows of Parquet that are read at once.
_PARQUET_BLOCK_ROWS = 1 << 20


def read_parquet(path: Path, columns: Columns = None) -> Interactions:
    """Read the interactions of a Parquet file, or of all such files in a folder."""
    collector = Collector()
    for frame in read_parquet_blocks(path, columns):
        collector.add(frame)
    return collector.finish(path, "Parquet")


def read_parquet_blocks(path: Path, columns: Columns = None) -> Iterator[pl.DataFrame]:
    """Yield the interactions of Parquet files in blocks of limited size.

    A block has the columns `user`, `item`, and perhaps `rating` and `timestamp`.
    """
    first_types: dict[str, str] | None = None
    for file in find_parquet_files(path) if path.is_dir() else [path]:
        try:
            # The scan is lazy, so only columns with a role are read from the file.
            table = _scan_partition(file, path)
            schema = table.collect_schema()
            roles = zip(schema, find_roles(schema.names(), columns, str(file)), strict=True)
            table = table.select([pl.col(name).alias(role) for name, role in roles if role])
            types = _classify_columns(table)
            first_types = first_types or types
            if types != first_types:
                raise DataError(
                    "the files of a folder must have the same columns: "
                    f"this one has {types}, the ones before it have {first_types}",
                    path=file,
                )
            n_rows = int(table.select(pl.len()).collect().item())
            for start in range(0, n_rows, _PARQUET_BLOCK_ROWS):
                block = table.slice(start, _PARQUET_BLOCK_ROWS).collect()
                yield check_frame(block, start, file)
        except (PolarsError, OSError) as error:
            raise DataError(
                f"cannot be read as Parquet: {get_first_line(error)}", path=file
            ) from error


def find_parquet_files(folder: Path) -> list[Path]:
    """Return the Parquet files in a folder and in all folders below it, sorted by name."""
    return sorted(file for file in folder.rglob("*") if file.suffix.lower() in PARQUET_SUFFIXES)


def _scan_partition(file: Path, folder: Path) -> pl.LazyFrame:
    """Scan a file of a partitioned table lazily.

    In such a table, a folder `name=value` stands for a column `name` that has this value in all
    files below the folder. The result has these columns, too.
    """
    above = file.relative_to(folder).parts[:-1] if file != folder else ()
    partitions = [part.partition("=")[::2] for part in above if "=" in part]
    table = pl.scan_parquet(file, glob=False, hive_partitioning=False)
    return table.with_columns([pl.lit(unquote(value)).alias(name) for name, value in partitions])


def _classify_columns(table: pl.LazyFrame) -> dict[str, str]:
    """Return the type of the column of each role: "numbers" or "text" for ids, "any" for others."""
    return {
        role: ("numbers" if dtype.is_integer() else "text") if role in REQUIRED_ROLES else "any"
        for role, dtype in sorted(table.collect_schema().items())
    }
