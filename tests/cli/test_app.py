"""The program as a whole: fast help, short errors, and the names of missing packages."""

import inspect
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from sottovoce import cli
from sottovoce.cli import app as door
from sottovoce.cli.app import SHIPPED_COMMANDS, LazyCommand, app, collect_commands
from sottovoce.errors import DataError, MissingExtraError
from tests.processes import make_caller
from tests.sampling import choose_cases

call = make_caller(app)


def run_main(
    arguments: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[object, str, str]:
    """Run the whole program; return its exit code, output and errors."""
    monkeypatch.setattr(sys, "argv", ["sottovoce", *shlex.split(arguments)])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    return stopped.value.code, *capsys.readouterr()


def test_errors_are_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise DataError("not a number", path="ratings.csv", line=3)

    monkeypatch.setattr(cli, "_import_app", lambda: fail)
    result = run_main("", monkeypatch, capsys)
    assert result == (2, "", "sottovoce: ratings.csv, line 3: not a number\n")


def test_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("sottovoce.cli.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "typer", None)
    with pytest.raises(MissingExtraError, match=r"sottovoce\[cli\]"):
        cli._import_app()


def time_process(*command: str) -> float:
    begun = time.perf_counter()
    subprocess.run([sys.executable, *command], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begun


def test_help_takes_at_most_three_times_as_long_as_importing_numpy() -> None:
    """Compare the best of five, one after the other: so it holds on a busy machine."""
    turns = [
        (time_process("-c", "import numpy"), time_process("-m", "sottovoce", "--help"))
        for _ in range(5)
    ]
    import_seconds, help_seconds = (min(times) for times in zip(*turns, strict=True))
    assert help_seconds <= 3 * import_seconds


LEFT_OUT = {"scipy.stats", "numba", "polars", "matplotlib", "safetensors", "dp_accounting"}


@pytest.mark.parametrize(
    ("arguments", "never"),
    [
        ((), LEFT_OUT | {"numpy", "rich", "httpx", "cryptography"}),
        (("client",), LEFT_OUT | {"sottovoce.server", "starlette", "httpx", "cryptography"}),
        (("server",), LEFT_OUT | {"sottovoce.proxy", "sottovoce.client"}),
        (("proxy",), LEFT_OUT | {"sottovoce.server", "sqlalchemy"}),
    ],
)
def test_help_imports_only_what_its_command_needs(
    arguments: tuple[str, ...], never: set[str]
) -> None:
    program = (
        "import sys\n"
        f"sys.argv = ['sottovoce', *{arguments!r}, '--help']\n"
        "from sottovoce import cli\n"
        "try: cli.main()\n"
        "except SystemExit: print(*sys.modules, file=sys.stderr)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.returncode == 0
    assert never & set(ended.stderr.split()) == set()


def walk_commands(command: Any, *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield a command and all below it, each with its path."""
    yield path, command
    if isinstance(command, typer.core.TyperGroup):
        context = typer.Context(command)
        for name in command.list_commands(context):
            yield from walk_commands(command.get_command(context, name), *path, name)


@cache
def list_commands() -> dict[tuple[str, ...], Any]:
    """Return every command by its path, which imports all of them."""
    return dict(walk_commands(typer.main.get_command(app)))


def find_examples(text: str) -> list[str]:
    """Return the command lines of a help text; one that is too long goes on below."""
    lines = inspect.cleandoc(text).replace("\\\n", " ").splitlines()
    return [line.strip() for line in lines if line.startswith("  sottovoce ")]


def test_help_is_plain_and_its_examples_parse() -> None:
    for path, command in list_commands().items():
        assert "╭" not in call(*path, "--help"), path
        lines = find_examples(command.help or "")
        assert any(line.startswith(f"sottovoce {' '.join(path)}".rstrip()) for line in lines), path
        for line in lines:
            parse(typer.main.get_command(app), shlex.split(line)[1:])


def parse(command: Any, arguments: list[str]) -> None:
    """Parse arguments without running the command; raise what is wrong."""
    context = typer.Context(command)
    while isinstance(command, typer.core.TyperGroup) and not arguments[0].startswith("-"):
        command = command.get_command(context, arguments[0])
        assert command is not None, arguments
        arguments = arguments[1:]
    command.make_context(command.name, arguments)


@pytest.mark.parametrize("name", SHIPPED_COMMANDS)
def test_overview_has_the_help_line_of_every_command(name: str) -> None:
    summary = inspect.cleandoc(list_commands()[name,].help).partition("\n\n")[0]
    assert SHIPPED_COMMANDS[name].help == " ".join(summary.split())


def test_help_hides_rare_options_until_help_all() -> None:
    few, all_ = (call("simulate", how) for how in ("--help", "--help-all"))
    assert few.count("\n  --") <= 17
    for option in ("--evaluate-every", "--loud <int>", "--ray-address", "--checkpoint <path>"):
        assert option not in few
        assert option in all_
    assert "--json <path>" in few
    assert "--help-all" not in call("client", "sync", "--help")


def run_without(packages: tuple[str, ...], *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own, as if these packages were not installed."""
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
    choose_cases([
        ("simulate", "polars", "sim"), ("demo", "httpx", "sim,server"),
        ("client init", "httpx", "client,cli"),
        ("plan --people 99 --items 30", "cryptography", "sim,client"),
        ("proxy run --config x.toml", "starlette", "proxy"),
        ("server catalogue update --config x.toml new.csv", "sqlalchemy", "server"),
        ("simulate --plot x.png", "matplotlib", "plot"), ("simulate --engine ray", "ray", "ray"),
        ("simulate --preset paper --engine cuda", "cupy", "cuda"),
    ], 4),
)  # fmt: skip
def test_error_of_a_missing_package_names_its_extra(command: str, package: str, extra: str) -> None:
    ended = run_without((package,), *command.split())
    assert (ended.returncode, ended.stdout) == (2, "")
    last = ended.stderr.splitlines()[-1]
    assert package in last.lower()
    assert last.count(f"pip install 'sottovoce[{extra}]'") == 1
    assert "Traceback" not in ended.stderr


class EntryPoint:
    """As a package that adds commands brings it."""

    @staticmethod
    def load() -> dict[str, tuple[str, str, str]]:
        return {"paper": ("tests.cli.test_app", "Another paper.", "sottovoce-lab")}


def paper(number: int) -> None:
    """Print another paper."""
    typer.echo(f"{number} pages")


@pytest.fixture
def no_laboratory(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(door, "entry_points", lambda **_: ())
    monkeypatch.setitem(sys.modules, "sottovoce_lab", None)
    collect_commands.cache_clear()
    yield
    collect_commands.cache_clear()


@pytest.mark.usefixtures("no_laboratory")
@pytest.mark.parametrize("name", ["paper", "audit", "bench", "replay"])
def test_commands_of_a_missing_laboratory_say_how_to_install_it(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, errors = run_main(f"{name} --any thing", monkeypatch, capsys)
    assert (code, "pip install sottovoce-lab" in errors) == (2, True)
    assert "pip install sottovoce-lab" in call("--help")


@pytest.mark.usefixtures("no_laboratory")
def test_an_installed_package_adds_its_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        door, "entry_points", lambda group: [EntryPoint] * (group == "sottovoce.commands")
    )
    assert collect_commands()["paper"] == LazyCommand(*EntryPoint.load()["paper"])
    assert "Another paper." in call("--help")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ("simulat", "simulate"), ("frobnicate", "frobnicate"),
        ("server runn", "run"), ("server", "sottovoce server"),
        ("simulate --epsilom 3", "--epsilon"),
        ("simulate --epsilon much", "--epsilon"), ("simulate --seeds 1.5", "--seeds"),
        ("simulate --seeds 0", "--seeds"), ("up x --port 70000", "65535"),
        ("up x --epoch-seconds 0", "epoch_seconds"), ("simulate more", "more"),
        ("simulate --data", "--data"), ("server run", "--config"), ("server init", "folder"),
        ("simulate --plot p.gif", "p.gif"), ("privacy --json /", "--json"),
    ],
)  # fmt: skip
def test_wrong_usage_has_exit_code_2(
    arguments: str, named: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, errors = run_main(arguments, monkeypatch, capsys)
    assert (code, out) == (2, "")
    assert re.search(rf"(?<!\w){re.escape(named)}(?!\w)", errors)
    assert arguments == "server" or len(errors.splitlines()) <= 4


class HalfInstalled:
    @staticmethod
    def load() -> None:
        raise ImportError("gone", name="sottovoce_lab")


@pytest.mark.usefixtures("no_laboratory")
def test_broken_package_does_not_break_help(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(door, "entry_points", lambda **_: [HalfInstalled])
    assert "(not installed: pip install sottovoce-lab)" in call("--help")


@pytest.mark.parametrize("empty", ["--folder ''", "--folder="])
def test_empty_path_is_refused(
    empty: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    about = f"--proxy http://127.0.0.1:1 --key {'00' * 32} --limit 5"
    assert run_main(f"client init {about} {empty}", monkeypatch, capsys)[0] == 2
    assert list(tmp_path.iterdir()) == []
