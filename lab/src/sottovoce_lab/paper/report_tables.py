"""Write the tables of the report from the raw results in the repository.

`python -m sottovoce_lab.paper.report_tables` replaces the tables between the marks of
lab/docs/report.md. `--take FOLDER` first copies the files of cells from this folder of results of
`sottovoce paper`. `--replays FILES` first takes the numbers of replays of one data set from these
files.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import tomllib
from pathlib import Path

from sottovoce_lab.paper.cell_rows import CellRow, read_csv, read_metric, select_rows
from sottovoce_lab.paper.claims import tabulate_claims
from sottovoce_lab.paper.grid import Grid
from sottovoce_lab.paper.initial_scale import Crowds, build_tables
from sottovoce_lab.paper.measured_tables import (
    build_measured_tables,
    find_measured,
    list_replay_rows,
)
from sottovoce_lab.paper.paper_numbers import BYTES_PER_REPORT, DOWNLOAD_BYTES
from sottovoce_lab.paper.poisoning.names import REPORT_EPSILONS
from sottovoce_lab.paper.store import read_about
from sottovoce_lab.paper.tables import Table

DOCS = Path(__file__).parents[3] / "docs"
REPORT = DOCS / "report.md"
CELLS = DOCS / "cells"
# File that records how the cells of each table were computed: command, commit and cost.
SOURCES = CELLS / "sources.toml"
MARK = re.compile(r"<!-- cells: (\S+) -->\n.*?<!-- end of cells -->", re.DOTALL)
# Scale of the preset's first item matrix.
PRESET_SCALE = 0.3
REPORTED_SEEDS = range(3)
# Values of (learning rate, alpha) in rows of the preset: in cells, and in curves, which lack these
# columns.
PRESET_VALUES = (("0.001", "1"), (None, None))


def build_report_tables(folder: Path = CELLS) -> dict[str, Table]:
    """Return the tables that are written from cells, by name."""
    cells = read_csv(folder / "initial-scale-cells.csv")
    curves = read_csv(folder / "initial-scale-curves.csv")
    sizes = [(users, items) for users in Grid.users for items in Grid.items]
    crowds = Crowds(
        sizes, Grid.table4_reports, Grid.initial_scales, REPORTED_SEEDS, Grid.search_seeds,
        {users: users for users in Grid.users},
    )  # fmt: skip
    tables = {table.name: table for table in build_tables([*cells, *curves], crowds)}
    claims = tabulate_claims(_select_preset(cells), _select_preset(curves))
    cost = _tabulate_cost(read_csv(folder / "cost-cells.csv"))
    false_names = _tabulate_false_names(read_csv(folder / "names-attack.csv"))
    built = (*tables.values(), claims, cost, false_names)
    return {table.name: table for table in built} | build_measured_tables(folder)


def _tabulate_false_names(rows: list[CellRow]) -> Table:
    """Build the table of false reports that lift an item into lists, by reports in an epoch."""
    lines, records = [], []
    for reports in dict.fromkeys(row["reports"] for row in rows):
        own = select_rows(rows, reports=int(reports))
        by_epsilon = [select_rows(own, epsilon=epsilon) for epsilon in REPORT_EPSILONS]
        needed = [read_metric(part, "false") for part in by_epsilon]
        exact, honest = read_metric(own, "exact"), float(own[0]["honest"])
        columns = [f"{one.mean:.0f}" for one in (*needed, exact) if one]
        lines.append((f"{honest:,.0f}", *columns, own[0]["address"]))
        records.append({"reports": reports, "needed": columns})
    headings = (
        "reports in an epoch", *(f"false reports, eps {epsilon:g}" for epsilon in REPORT_EPSILONS),
        "fake people, exact names", "one address may send",
    )  # fmt: skip
    return Table("false-names", "False names", headings, lines, records)


def _tabulate_cost(rows: list[CellRow]) -> Table:
    """Build the table of transferred bytes, for the two numbers of reports that the paper has."""
    lines, records = [], []
    for items, in_paper in DOWNLOAD_BYTES.items():
        # In the cells, the number of items of the whole catalogue is None, which is written "all".
        place = None if items == max(DOWNLOAD_BYTES) else items
        sizes = [select_rows(rows, items=place, reports=k)[0] for k in (100, 250)]
        down = int(sizes[0]["model"]) + int(sizes[0]["manifest"])
        sealed, more = (int(size["batch_sealed"]) for size in sizes)
        reports = tuple(f"~{BYTES_PER_REPORT * k:,}" for k in (100, 250))
        lines.append(
            (
                f"{items:,}", f"~{in_paper:,}", f"{down:,}", f"{int(sizes[0]['catalogue_once']):,}",
                f"{reports[0]} ({reports[1]})", f"{sealed:,} ({more:,})",
            )
        )  # fmt: skip
        records.append({"items": items, "down": down, "up": sealed})
    headings = (
        "items", "paper: down", "model and manifest, an epoch", "catalogue, once", "paper: up",
        "up, sealed",
    )  # fmt: skip
    return Table("cost", "What travels", headings, lines, records)


def _select_preset(rows: list[CellRow]) -> list[CellRow]:
    usual = [row for row in rows if (row.get("learning_rate"), row.get("alpha")) in PRESET_VALUES]
    return select_rows(usual, initial_scale=PRESET_SCALE, seed=REPORTED_SEEDS)


def format_markdown(table: Table) -> str:
    """Return a table as Markdown, without its title."""
    headings, *rows = table.visible_rows
    lines = [headings, ("---",) * len(headings), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines).replace(" ± ", "±")


def format_source(name: str, sources: dict[str, dict[str, str]]) -> str:
    """Return the line below a table: its cells, command, commit and cost."""
    source = sources[name]
    links = ", ".join(f"[{file}](cells/{file})" for file in source["files"])
    return f"*{links}: `{source['command']}`; commit {source['commit']}; {source['cost']}.*"


def write_tables(text: str, tables: dict[str, Table], sources: dict[str, dict[str, str]]) -> str:
    """Return the report with its tables written again."""

    def write(mark: re.Match[str]) -> str:
        name = mark[1]
        parts = (format_markdown(tables[name]), format_source(name, sources))
        return f"<!-- cells: {name} -->\n" + "\n\n".join(parts) + "\n<!-- end of cells -->"

    return MARK.sub(write, text)


def write_report_tables(report: Path = REPORT, folder: Path = CELLS) -> str:
    """Return the text of the report with tables made from its cells."""
    sources = tomllib.loads((folder / SOURCES.name).read_text(encoding="utf-8"))
    return write_tables(report.read_text(encoding="utf-8"), build_report_tables(folder), sources)


def main() -> None:
    """Take new cells if `--take` is given, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--take", type=Path, help="folder with results of `sottovoce paper`")
    parser.add_argument(
        "--replays", type=Path, nargs="*", help="files of `sottovoce replay --json`, all at once"
    )
    arguments = parser.parse_args()
    folder: Path | None = arguments.take
    if arguments.replays:
        contents = [json.loads(file.read_bytes()) for file in arguments.replays]
        rows = list_replay_rows(contents)
        data = Path(contents[0]["data"]["name"]).stem
        (CELLS / f"replay-{data}.csv").write_text(Table("replay", "", (), [], rows).to_csv())
    if folder is not None:
        for file in CELLS.glob("*.csv"):
            if (folder / file.name).exists():
                shutil.copy(folder / file.name, file)
        data = Path(read_about(folder).source).stem
        for name, path in find_measured(folder, data).items():
            shutil.copy(path, CELLS / name)
    REPORT.write_text(write_report_tables(), encoding="utf-8")


if __name__ == "__main__":
    main()
