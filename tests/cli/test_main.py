"""The edge of the program: errors become one line, a bare install says what is missing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from sottovoce import cli
from sottovoce.cli.app import app
from sottovoce.errors import DataError, MissingExtraError
from tests.processes import calling


def test_our_errors_become_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise DataError("not a number", path="ratings.csv", line=3)

    monkeypatch.setattr(cli, "_app", lambda: fail)
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 2
    assert capsys.readouterr().err == "sottovoce: ratings.csv, line 3: not a number\n"


def test_other_errors_are_bugs_and_stay_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(cli, "_app", lambda: fail)
    with pytest.raises(ZeroDivisionError):
        cli.main()


def test_a_bare_install_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("sottovoce.cli.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "typer", None)
    with pytest.raises(MissingExtraError, match=r"typer: pip install 'sottovoce\[cli\]'"):
        cli._app()


def test_help_runs_through_main(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["sottovoce", "--help"])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 0
    assert "simulate" in capsys.readouterr().out


def described(command: Any, *path: str) -> Iterator[tuple[tuple[str, ...], str, Any]]:
    """Every command, all the way down: its names, its help text and itself."""
    yield path, command.help or "", command
    if isinstance(command, typer.core.TyperGroup):
        context = typer.Context(command)
        for name in command.list_commands(context):
            yield from described(command.get_command(context, name), *path, name)


def test_the_help_of_every_command_has_an_example() -> None:
    found = {
        path: " ".join(told.split())
        for path, told, command in described(typer.main.get_command(app))
        if not isinstance(command, typer.core.TyperGroup)
    }
    assert len(found) > 30
    for path, told in found.items():
        assert f"sottovoce {' '.join(path)}" in told, path
    assert "--json" in calling(app)("simulate", "--help")


def test_help_is_shown_as_it_is_written() -> None:
    """rich takes what stands in brackets for markup; nothing of ours is meant as that."""
    shown = 0
    for path, text, command in described(typer.main.get_command(app)):
        printed = "".join(calling(app)(*path, "--help").replace("│", "").split())
        for part in (text, *(each.help or "" for each in command.params)):
            for words in re.findall(r"\\?\[[^\[\]]*\]", part):
                plain = words.removeprefix("\\")
                assert "".join(plain.split()) in printed, (path, plain)
                shown += 1
    assert shown >= 2
    assert "what [training] and [terms] say now" in calling(app)(
        "server", "training", "begin", "--help"
    )


def run_without(packages: tuple[str, ...], *command: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own, as if these packages had never been installed."""
    program = (
        "import sys\n"
        f"sys.modules.update(dict.fromkeys({packages!r}))\n"
        f"sys.argv = ['sottovoce', *{command!r}]\n"
        "from sottovoce import cli\n"
        "cli.main()\n"
    )
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "200"},
    )


@pytest.mark.parametrize(
    ("command", "package", "extra"),
    [
        ("simulate", "numba", "sim"),
        ("demo", "httpx", "sim,server"),
        ("up x --epoch-seconds 60", "httpx", "sim,server"),
        ("client init", "httpx", "client,cli"),
        ("server catalogue add --config x.toml new.csv", "sqlalchemy", "server"),
    ],
)
def test_a_command_without_its_extra_names_it(command: str, package: str, extra: str) -> None:
    ended = run_without((package,), *command.split())
    assert (ended.returncode, ended.stdout) == (2, "")
    install = f"pip install 'sottovoce[{extra}]'"
    assert ended.stderr == f"sottovoce: this command needs {package}: {install}\n"


def test_help_works_without_any_extra_but_its_own() -> None:
    ended = run_without(("numba", "polars", "starlette", "cryptography", "sqlalchemy"), "--help")
    assert ended.returncode == 0
    assert re.search(r" up +\(not installed: pip install 'sottovoce\[sim,server\]'\)", ended.stdout)
