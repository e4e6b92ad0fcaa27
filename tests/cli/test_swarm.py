"""`sottovoce swarm`: the options that it refuses, and how a result is shown."""

from pathlib import Path

import pytest

from sottovoce.cli.app import app
from sottovoce.errors import SettingsError, UnavailableError
from tests.processes import make_caller

call = make_caller(app, "swarm")
KEY = "ab" * 32


@pytest.mark.parametrize(
    "arguments",
    [
        (), ("--proxy", "http://127.0.0.1:1"), ("--up", ".", "--key", KEY),
        ("--proxy", "http://127.0.0.1:1", "--key", KEY),
        ("--proxy", "http://127.0.0.1:1", "--key", "12"), ("--up", "nowhere"),
        ("--proxy", "http://proxy.example", "--key", KEY, "--data", "synthetic:N=30,M=20"),
        ("--proxy", "http://127.0.0.1:1", "--key", KEY, "--data", "synthetic:N=30,M=20"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises((SettingsError, UnavailableError)):
        call("--clients", 3, *arguments)
