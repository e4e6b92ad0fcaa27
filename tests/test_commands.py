"""The pages' commands are run: with small data under the names they use, with short epochs."""

from __future__ import annotations

import csv
import re
import shlex
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from sottovoce.cli.app import app
from sottovoce.protocol import Catalogue
from tests.cli.test_sandbox import running
from tests.processes import calling, free_port
from tests.simulation.living import living_people
from tests.test_docs import commands

call = calling(app)

RESEARCH = ("data", "simulate", "replay", "privacy", "paper")
"""`audit` and `bench` take minutes: `lab/tests` runs them with few people."""
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


FOLLOWED = ("server init", "server run", "proxy init", "proxy run")
"""By the operator's tutorial, and `up` and `swarm` by `tests/cli/test_sandbox.py`."""
LAST = "server go-beyond"
"""Of a server that stands still."""


def of_services(page: str) -> list[list[str]]:
    """Commands of a running system, those for a stopped server last."""
    lines = [line for name, line in commands() if name == page]
    words = [
        shlex.split(line.replace("\\\n", " "), comments=True)
        for line in lines
        if line.startswith(("server", "proxy", "client")) and not line.startswith(FOLLOWED)
    ]
    return sorted(words, key=lambda each: " ".join(each).startswith(LAST))


@pytest.mark.slow
@pytest.mark.parametrize("page", ["operations.md", "lifecycle.md"])
def test_the_commands_of_a_service_run(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    port = free_port()
    options = ("--port", port, "--epoch-seconds", 1, "--least-clients", 1)
    put = {
        "my-server/server.toml": "my-system/server/server.toml",
        "my-proxy/proxy.toml": "my-system/proxy/proxy.toml",
        "/backup/monday.sqlite": "monday.sqlite",
        "https://proxy.example": f"http://127.0.0.1:{port}",
    }
    shown = of_services(page)
    stopped = [words for words in shown if words[:2] == LAST.split()]
    with running("my-system", "--data", "ml-latest-small", *options) as (_, said):
        (put["VERIFICATION_KEY"],) = set(re.findall("--key ([0-9a-f]{64})", said))
        export("my-system/server/server.toml")
        for words in shown[: len(shown) - len(stopped)]:
            output = say([put.get(word, word) for word in words])
            if words[:2] == ["client", "terms"]:
                (put["NAME"],) = set(re.findall("terms --accept ([0-9a-f]{64})", output))
    for words in stopped:
        say([put.get(word, word) for word in words])


def say(words: list[str]) -> str:
    if words[:2] == ["client", "sync"]:
        words = [*words, "--jitter", "0"]
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, words, input="y\n")
    waits = words[1] == "status"  # its code 1 says that something waits
    assert result.exit_code in (0, waits), (words, result.output, result.exception)
    assert result.output.strip(), words
    return result.output


def export(config: str) -> None:
    """The table of a shop that sells what the catalogue has, and one thing more."""
    say(["server", "status", "--config", config, "--catalogue", "kept.json"])
    catalogue = Catalogue.decode(Path("kept.json").read_bytes())
    sold = [[item.id, item.title, "film"] for item in catalogue.items]
    with Path("shop.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["sku", "name", "kind"], *sold, ["S-01", "Soap", "bath"]])
