"""The edge of the program: errors become one line, a bare install says what is missing."""

from __future__ import annotations

import inspect
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.exceptions import TyperException

from sottovoce import cli
from sottovoce.cli.app import COMMANDS, app
from sottovoce.cli.plain import plainly
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


EVERY_COMMAND = list(described(typer.main.get_command(app)))


def examples(text: str) -> list[str]:
    """The command lines of a help text; one that is too long goes on below."""
    lines = text.replace("\\\n", " ").splitlines()
    return [line.strip() for line in lines if line.startswith("  sottovoce ")]


@pytest.mark.parametrize(("path", "text"), [(path, text) for path, text, _ in EVERY_COMMAND])
def test_every_help_text_has_examples_that_parse(path: tuple[str, ...], text: str) -> None:
    lines = examples(inspect.cleandoc(text))
    assert any(line.startswith(f"sottovoce {' '.join(path)}".rstrip()) for line in lines)
    for line in lines:
        parse(typer.main.get_command(app), shlex.split(line)[1:])


def parse(command: Any, arguments: list[str]) -> None:
    """As it is before a command runs; what is wrong is raised."""
    context = typer.Context(command)
    while isinstance(command, typer.core.TyperGroup) and not arguments[0].startswith("-"):
        command = command.get_command(context, arguments[0])
        assert command is not None, arguments
        arguments = arguments[1:]
    command.make_context(command.name, arguments)


def test_an_example_with_a_typing_error_does_not_parse() -> None:
    with pytest.raises(TyperException, match="--epsilom"):
        parse(typer.main.get_command(app), ["simulate", "--epsilom", "3"])


def test_there_are_many_commands() -> None:
    assert len(EVERY_COMMAND) > 40
    assert "--json FILE" in calling(app)("simulate", "--help")


@pytest.mark.parametrize("path", [path for path, *_ in EVERY_COMMAND])
def test_help_is_plain(path: tuple[str, ...]) -> None:
    """No types of Python, and bounds and defaults in words."""
    shown = calling(app)(*path, "--help")
    for word in ("<", "x>=", "[default: (", "╭"):
        assert word not in shown


def test_help_says_units_bounds_and_defaults() -> None:
    shown = " ".join(calling(app)("up", "--help").split())
    assert "--epoch-seconds SECONDS Shortest length of an epoch, in seconds. " in shown
    assert "[default: 60; at least 1]" in shown
    assert "--budget EPSILON" in shown
    assert "[FOLDER]" in shown
    assert "1 to 65535]" in shown


def test_help_is_shown_as_it_is_written() -> None:
    """rich takes what stands in brackets for markup; nothing of ours is meant as that."""
    assert "as [training] and [terms] now say" in " ".join(
        calling(app)("server", "training", "begin", "--help").split()
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("simulat", "no such command: simulat; did you mean simulate?\nHelp: sottovoce --help"),
        ("frobnicate", "no such command: frobnicate\nHelp: sottovoce --help"),
        ("server runn", "no such command: runn; did you mean run?\nHelp: sottovoce server --help"),
        (
            "simulate --epsilom 3",
            "no such option: --epsilom; did you mean --epsilon?\nHelp: sottovoce simulate --help",
        ),
        (
            "simulate --epsilon much",
            "--epsilon: must be a number\nHelp: sottovoce simulate --help",
        ),
        (
            "simulate --seeds 1.5",
            "--seeds: must be a whole number\nHelp: sottovoce simulate --help",
        ),
        ("simulate --seeds 0", "--seeds: must be at least 1\nHelp: sottovoce simulate --help"),
        ("audit --clients 1", "--clients: must be at least 2\nHelp: sottovoce audit --help"),
        ("up x --port 70000", "--port: must be at most 65535\nHelp: sottovoce up --help"),
        (
            "simulate --split middle",
            (
                "--split: 'middle' is not one of 'random', 'latest', 'date'\n"
                "Help: sottovoce simulate --help"
            ),
        ),
        ("simulate more", "too many arguments: (more)\nHelp: sottovoce simulate --help"),
        ("simulate --data", "option '--data' requires an argument"),
        ("server run", "missing option '--config'\nHelp: sottovoce server run --help"),
        ("server init", "missing argument 'FOLDER'\nHelp: sottovoce server init --help"),
        ("client limit much", "EPSILON: must be a number\nHelp: sottovoce client limit --help"),
        (
            "privacy --plot p.gif",
            "--plot: p.gif must end in .png or .svg\nHelp: sottovoce privacy --help",
        ),
        ("privacy --preset=", "--preset: must not be empty\nHelp: sottovoce privacy --help"),
        ("data info ''", "SOURCE: must not be empty\nHelp: sottovoce data info --help"),
        ("client remove a ''", "ITEMS: must not be empty\nHelp: sottovoce client remove --help"),
        ("privacy --json /", "--json: / cannot be written\nHelp: sottovoce privacy --help"),
        ("privacy --colluding 5", "these options need a crowd: give --clients PEOPLE"),
        ("swarm --clients 5", "give either --up FOLDER, or --proxy URL and --key KEY"),
        (
            "simulate --data nowhere.csv",
            (
                "nowhere.csv: there is no such file or folder, and no data set of this name. "
                "Names: sottovoce data list. Files: sottovoce data info --help"
            ),
        ),
    ],
)
def test_wrong_usage_is_a_line_or_two(
    arguments: str,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["sottovoce", *shlex.split(arguments)])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 2
    assert capsys.readouterr() == ("", f"sottovoce: {said}\n")


def test_a_group_without_a_command_shows_its_help(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["sottovoce", "server"])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 2
    assert capsys.readouterr().err.startswith("Usage: sottovoce server [OPTIONS] COMMAND")


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
        ("bench --quick", "numba", "bench"),
        ("demo", "httpx", "sim,server"),
        ("swarm --clients 5", "cryptography", "sim,server"),
        ("client init", "httpx", "client,cli"),
        ("proxy run --config x.toml", "starlette", "proxy"),
        ("server catalogue add --config x.toml new.csv", "sqlalchemy", "server"),
    ],
)
def test_a_command_without_its_extra_names_it(command: str, package: str, extra: str) -> None:
    ended = run_without((package,), *command.split())
    assert (ended.returncode, ended.stdout) == (2, "")
    install = f"pip install 'sottovoce[{extra}]'"
    assert ended.stderr == f"sottovoce: this command needs {package}: {install}\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_knows_its_extra(name: str) -> None:
    """Also where rich would take brackets for markup: in its help."""
    missing = plainly(COMMANDS[name]._missing(name, "package"))
    install = f"pip install 'sottovoce[{COMMANDS[name].extra}]'"
    with pytest.raises(
        MissingExtraError, match=re.escape(f"this command needs package: {install}")
    ):
        calling(missing)("--any", "thing")
    assert f"(not installed: {install})" in calling(missing)("--help")


@pytest.mark.parametrize(
    ("command", "package", "extra"),
    [
        ("simulate --plot x.png", "matplotlib", "plot"),
        ("simulate --engine ray", "ray", "ray"),
        ("simulate --engine cuda", "cupy", "cuda"),
        ("bench --quick --no-growth", "implicit", "bench"),
    ],
)
def test_an_option_without_its_extra_names_it(command: str, package: str, extra: str) -> None:
    ended = run_without((package,), *command.split())
    assert ended.returncode == 2
    assert ended.stderr.splitlines()[-1].count(f"pip install 'sottovoce[{extra}]'") == 1
    assert "Traceback" not in ended.stderr


def test_help_works_without_any_extra_but_its_own() -> None:
    ended = run_without(("numba", "polars", "starlette", "cryptography", "sqlalchemy"), "--help")
    assert ended.returncode == 0
    assert re.search(r" up +\(not installed: pip install 'sottovoce\[sim,server\]'\)", ended.stdout)
