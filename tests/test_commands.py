"""The pages' commands for research are run, in order, with small data under the names they use.

Those of services are followed in `tests/test_tutorials.py`; that options exist is in
`tests/test_docs.py`.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import polars as pl
import pytest

from sottovoce.cli.app import app
from tests.processes import calling
from tests.simulation.living import living_people
from tests.test_docs import commands

call = calling(app)

RESEARCH = ("data", "simulate", "privacy", "paper")
"""`audit` and `bench` take minutes: `tests/experiments` runs them with few people."""
TUTORIALS = ("researcher.md", "product.md", "operator.md", "data.md")
ELSEWHERE = "paper all"
"""Run by `tests/cli/test_paper.py`: a minute."""
SMALLER = (
    (r"--(seeds|repeats) \d+", r"--\1 1"),
    (r"--(resample|most-people) \d+", r"--\1 2000"),
    (r"--engine (cuda|ray --ray-address FIRST:6379)", ""),
    (r"/shared/big.shards", "netflix-75k.parquet"),
    (r"--data ml-1m(?: --min-interactions \d+)?", "--data ml-latest-small --min-interactions 20"),
    (r"docs/(\S+\.png)", r"\1"),
)


def research() -> dict[str, list[str]]:
    """By page: each command once on all pages together."""
    found: dict[str, list[str]] = {}
    seen: set[str] = set()
    for page, line in commands():
        smaller = _smaller(line)
        if page in TUTORIALS or line.split()[0] not in RESEARCH or smaller in seen:
            continue
        seen.add(smaller)
        if not line.startswith(ELSEWHERE):
            found.setdefault(page, []).append(smaller)
    return found


def _smaller(line: str) -> str:
    words = " ".join(shlex.split(line.replace("\\\n", " "), comments=True))
    for shown, small in SMALLER:
        words = re.sub(shown, small, words)
    quick = words.startswith("paper") and "--quick" not in words
    return " ".join([*words.split(), *["--quick"] * quick])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Has files of the names that stand in the pages."""
    people = living_people(n_items=300)
    histories = people.histories
    pl.DataFrame(
        {
            "user": histories.users_of_entries(),
            "item": histories.indices,
            "timestamp": people.timestamps,
        }
    ).write_parquet(tmp_path / "netflix-75k.parquet")
    items = range(histories.n_items)
    pl.DataFrame(
        {"item": items, "genres": [("Horror", "Comedy|Crime")[item % 2] for item in items]}
    ).write_parquet(tmp_path / "netflix-75k-items.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("page", research())
def test_the_research_commands_of_a_page_run(page: str, folder: Path) -> None:
    for line in research()[page]:
        shown = call(*shlex.split(line))
        assert shown.strip(), line
