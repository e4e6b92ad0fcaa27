"""The edge of the program: errors become one line, a bare install says what is missing."""

from __future__ import annotations

import sys

import pytest

from sottovoce import cli
from sottovoce.errors import DataError, MissingExtraError


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


def without(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    """As if this package had never been installed."""
    for name in [name for name in sys.modules if name.startswith("sottovoce.")]:
        if name not in ("sottovoce.cli", "sottovoce.errors"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)


def test_a_command_without_its_extra_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "numba")
    monkeypatch.setattr(sys, "argv", ["sottovoce", "simulate"])
    with pytest.raises(MissingExtraError, match=r"numba: pip install 'sottovoce\[sim\]'"):
        cli._app()()


def test_help_works_without_any_extra_but_its_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for package in ("numba", "polars", "starlette", "cryptography", "sqlalchemy"):
        without(monkeypatch, package)
    monkeypatch.setattr(sys, "argv", ["sottovoce", "--help"])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 0
    assert "not installed: pip install" in " ".join(capsys.readouterr().out.split())
