"""`sottovoce data`."""

import io
import json
import os
import pty
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from sottovoce.cli.data import app
from sottovoce.errors import DataError, SettingsError
from tests.loopback import LoopbackServer, reply


def run(*arguments: str) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, list(arguments), catch_exceptions=False)


@pytest.fixture
def mirror() -> Iterator[str]:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as out:
        out.writestr("ml-20m/ratings.csv", "userId,movieId,rating,timestamp\n1,2,3,4\n")
    archive_reply, missing_reply = reply(200, archive.getvalue()), reply(404)
    with LoopbackServer() as server:
        server.answer = lambda handler, body: (
            archive_reply if handler.path == "/ml-20m.zip" else missing_reply
        )(handler, body)
        yield server.url


def test_fetch_then_info(tmp_path: Path, mirror: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOTTOVOCE_CACHE", str(tmp_path / "cache"))
    result = run("fetch", "ml-20m", "--yes", "--mirror", mirror)
    assert result.stdout.strip() == str(tmp_path / "cache" / "ml-20m.zip")
    assert "Terms: For research" in result.stderr
    assert "no checksum" in result.stderr
    assert "ml-20m" in run("info", "ml-20m").stdout
    assert "before" in run("fetch", "ml-20m").stderr
    assert "comes with this package" in run("fetch", "ml-latest-small").stderr


def test_terms_must_be_accepted(
    tmp_path: Path, mirror: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOTTOVOCE_CACHE", str(tmp_path / "cache"))
    with pytest.raises(SettingsError):
        run("fetch", "ml-20m", "--mirror", mirror)
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("answer", ["y", "n"])
def test_terms_are_accepted_at_a_terminal(tmp_path: Path, mirror: str, answer: str) -> None:
    """Use a real terminal, because only there the command asks."""
    ours, theirs = pty.openpty()
    os.write(ours, f"{answer}\n".encode())
    code = "from sottovoce.cli.data import app; app()"
    command = [sys.executable, "-c", code, "fetch", "ml-20m", "--mirror", mirror]
    here = {**os.environ, "SOTTOVOCE_CACHE": str(tmp_path)}
    result = subprocess.run(command, stdin=theirs, capture_output=True, text=True, env=here)
    os.close(ours)
    os.close(theirs)
    assert "Do you accept these terms?" in result.stderr
    assert (tmp_path / "ml-20m.zip").exists() == (answer == "y")
    assert (result.returncode == 0) == (answer == "y")


def test_shards_have_the_interactions_of_their_source(tmp_path: Path) -> None:
    options = ("--min-interactions", "20", "--rows", "20000")
    sharded = run("shard", "ml-latest-small", str(tmp_path / "small"), *options)
    assert sharded.exit_code == 0
    assert re.search(r"shards +│ 4 ", sharded.stdout)
    info = run("info", str(tmp_path / "small"), "--json", str(tmp_path / "info.json"))
    assert info.exit_code == 0
    expected = run("info", "ml-latest-small", *options[:2], "--json", str(tmp_path / "data.json"))
    assert expected.exit_code == 0
    shard_info, file_info = (
        json.loads((tmp_path / f"{name}.json").read_text()) for name in ("info", "data")
    )
    assert shard_info["users"] == file_info["users"]
    assert shard_info["per_item"] == file_info["per_item"]
    with pytest.raises(DataError):
        run("shard", "ml-latest-small", str(tmp_path / "small"))


def test_info(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOTTOVOCE_CACHE", str(tmp_path))
    (tmp_path / "ml-1m.zip").touch()
    lines = {line.split()[1]: line for line in run("info").stdout.splitlines() if " ml-" in line}
    for name, state in (("ml-latest-small", "bundled"), ("ml-1m", "fetched"), ("ml-20m", "190 MB")):
        assert state in lines[name]
    file = tmp_path / "info.json"
    assert "100,836" in run("info", "ml-latest-small", "--json", str(file)).stdout
    assert json.loads(file.read_text())["users"] == 610
    run("info", "ml-latest-small", "--min-interactions", "20", "--json", str(file))
    assert json.loads(file.read_text())["per_user"]["min"] >= 20
    path = tmp_path / "log.csv"
    path.write_text("who,what\nann,film\n")
    assert re.search(
        r"users\W+1\b", run("info", str(path), "--columns", "user=who,item=what").stdout
    )
    with pytest.raises(DataError):
        run("info", str(path))
