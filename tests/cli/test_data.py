"""`sottovoce data`."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from sottovoce.cli.data import app
from sottovoce.errors import DataError, FetchError, SettingsError
from tests.loopback import LoopbackServer, reply

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from typer.testing import Result


def run(*arguments: str) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, list(arguments), catch_exceptions=False)


@pytest.fixture
def mirror() -> Iterator[str]:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as out:
        out.writestr("ml-20m/ratings.csv", "userId,movieId,rating,timestamp\n1,2,3,4\n")
    found, missing = reply(200, archive.getvalue()), reply(404)
    with LoopbackServer() as server:
        server.answer = lambda handler, body: (found if handler.path == "/ml-20m.zip" else missing)(
            handler, body
        )
        yield server.url


def test_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOTTOVOCE_CACHE", str(tmp_path))
    (tmp_path / "ml-1m.zip").touch()
    lines = {line.split()[1]: line for line in run("info").stdout.splitlines() if " ml-" in line}
    assert "bundled" in lines["ml-latest-small"]
    assert "fetched" in lines["ml-1m"]
    assert "to fetch, 190 MB" in lines["ml-20m"]
    assert "synthetic" in run("info").stdout


def test_fetch_then_info(tmp_path: Path, mirror: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOTTOVOCE_CACHE", str(tmp_path / "cache"))
    result = run("fetch", "ml-20m", "--yes", "--mirror", mirror)
    assert result.stdout.strip() == str(tmp_path / "cache" / "ml-20m.zip")
    assert "Terms: For research" in result.stderr
    assert "no checksum" in result.stderr
    assert "ml-20m" in run("info", "ml-20m").stdout


def test_fetch_into_another_folder(tmp_path: Path, mirror: str) -> None:
    run("fetch", "ml-20m", "-y", "--mirror", mirror, "--cache", str(tmp_path))
    assert (tmp_path / "ml-20m.zip").exists()
    assert "was fetched before" in run("fetch", "ml-20m", "--cache", str(tmp_path)).stderr


def test_fetch_of_what_is_bundled_asks_nothing() -> None:
    assert "comes with this package" in run("fetch", "ml-latest-small").stderr


def test_terms_must_be_accepted(tmp_path: Path, mirror: str) -> None:
    with pytest.raises(SettingsError, match="sottovoce data fetch ml-20m --yes"):
        run("fetch", "ml-20m", "--mirror", mirror, "--cache", str(tmp_path / "cache"))
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("answer", ["y", "n"])
def test_the_question_at_a_terminal(tmp_path: Path, mirror: str, answer: str) -> None:
    """A real terminal, since only one can be asked."""
    ours, theirs = pty.openpty()
    os.write(ours, f"{answer}\n".encode())
    code = "from sottovoce.cli.data import app; app()"
    arguments = ["fetch", "ml-20m", "--mirror", mirror, "--cache", str(tmp_path)]
    command = [sys.executable, "-c", code, *arguments]
    result = subprocess.run(command, stdin=theirs, capture_output=True, text=True, check=False)
    os.close(ours)
    os.close(theirs)
    assert "Do you accept these terms?" in result.stderr
    assert (tmp_path / "ml-20m.zip").exists() == (answer == "y")
    assert (result.returncode == 0) == (answer == "y")


def test_netflix_cannot_be_fetched() -> None:
    with pytest.raises(FetchError, match="give the path of its folder"):
        run("fetch", "netflix", "--yes")


def test_info(tmp_path: Path) -> None:
    file = tmp_path / "info.json"
    result = run("info", "ml-latest-small", "--json", str(file))
    assert re.search(r"interactions\W+100,836\b", result.stdout)
    assert re.search(r"timestamps\W+yes", result.stdout)
    numbers = json.loads(file.read_text())
    assert (numbers["name"], numbers["users"]) == ("ml-latest-small", 610)
    assert [path.name for path in tmp_path.iterdir()] == ["info.json"]


@pytest.mark.parametrize("rule", ["stable", "once"])
def test_info_after_a_filter(tmp_path: Path, rule: str) -> None:
    file = tmp_path / "info.json"
    run("info", "ml-latest-small", "--min-interactions", "20", "--rule", rule, "--json", str(file))
    numbers = json.loads(file.read_text())
    assert numbers["items"] < 9724
    assert (numbers["per_user"]["min"] >= 20) == (rule == "stable")


def test_info_with_columns(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("who,what\nann,film\n")
    assert re.search(
        r"users\W+1\b", run("info", str(path), "--columns", "user=who,item=what").stdout
    )
    with pytest.raises(DataError, match="no column for the user"):
        run("info", str(path))


def test_shards_and_what_is_in_them(tmp_path: Path) -> None:
    options = ("--min-interactions", "20", "--rows", "20000")
    said = run("shard", "ml-latest-small", str(tmp_path / "small"), *options)
    assert said.exit_code == 0
    assert re.search(r"shards +│ 4 ", said.stdout)
    info = run("info", str(tmp_path / "small"), "--json", str(tmp_path / "info.json"))
    assert info.exit_code == 0
    expected = run("info", "ml-latest-small", *options[:2], "--json", str(tmp_path / "data.json"))
    assert expected.exit_code == 0
    found, same = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("info", "data"))
    assert found["users"] == same["users"]
    assert found["per_item"] == same["per_item"]
    with pytest.raises(DataError, match="something in this folder already"):
        run("shard", "ml-latest-small", str(tmp_path / "small"))
