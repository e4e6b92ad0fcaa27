"""The examples, and the commands of the guides to a running system, line by line."""

import csv
import re
import runpy
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sottovoce.cli.app import app
from sottovoce.protocol import Catalogue
from tests.nightly.test_sandbox import running
from tests.processes import free_port
from tests.test_docs import ROOT, commands


def test_the_example_runs() -> None:
    titles = runpy.run_path(str(ROOT / "examples" / "recommend.py"))["main"]()
    assert len(titles) == 5


def test_the_grid_of_the_example_finds_that_privacy_costs() -> None:
    pytest.importorskip("sklearn")
    found = runpy.run_path(str(ROOT / "examples" / "grid.py"))["main"]()
    assert list(found) == [10, 40, 80, 200, 800, 1600]
    assert found[1600] > 2 * found[10] > 0


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
            if words == ["client", "terms"]:
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
