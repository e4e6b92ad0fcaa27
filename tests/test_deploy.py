"""What `deploy/` starts exists, with the options that it is given."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer

from sottovoce.cli.app import app

DEPLOY = Path(__file__).parents[1] / "deploy"
UNITS = sorted(DEPLOY.glob("*.service"))


def check(words: list[str]) -> None:
    """A command of ours that can run with these options."""
    command: Any = typer.main.get_command(app)
    while hasattr(command, "get_command"):
        command, words = command.get_command(None, words[0]), words[1:]
        assert command is not None, words
    known = {name for parameter in command.params for name in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= known


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_units_start_commands_that_exist(unit: Path) -> None:
    (line,) = re.findall("^ExecStart=(.*)$", unit.read_text(), re.MULTILINE)
    program, *words = shlex.split(line)
    assert Path(program).name == "sottovoce"
    check(words)


def test_both_services_have_a_unit_and_an_example() -> None:
    assert [unit.stem for unit in UNITS] == ["sottovoce-proxy", "sottovoce-server"]
    for name in ("proxy", "server"):
        assert tomllib.loads((DEPLOY / f"{name}.example.toml").read_text())


def test_health_is_asked_for_where_it_is_watched() -> None:
    """On the ports of the examples, and never on one that is published."""
    text = (DEPLOY / "compose.yaml").read_text()
    asked = set(map(int, re.findall(r"http://127\.0\.0\.1:(\d+)/readyz", text)))
    published = set(map(int, re.findall(r'ports: \["127\.0\.0\.1:\d+:(\d+)"\]', text)))
    files = [DEPLOY / f"{name}.example.toml" for name in ("proxy", "server")]
    examples = [tomllib.loads(path.read_text()) for path in files]
    assert asked == {example["watch"]["port"] for example in examples}
    assert published == {examples[0]["listen"]["port"]}
    assert {example["watch"]["host"] for example in examples} == {"127.0.0.1"}


def test_the_compose_file_starts_commands_that_exist() -> None:
    text = (DEPLOY / "compose.yaml").read_text()
    commands = re.findall(r"^ +command: (\[.*\])$", text, re.MULTILINE)
    assert len(commands) == 2
    for command in commands:
        check(json.loads(command))
    for line in re.findall(r"^#   sottovoce (.*)$", text, re.MULTILINE):
        check(shlex.split(line))
