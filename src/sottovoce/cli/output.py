"""What the commands share to say something: tables, progress, a question, a status, a JSON file."""

import json
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column, Table

from sottovoce.characters import ensure_full_stop, escape_control_characters
from sottovoce.characters import pluralize as pluralize
from sottovoce.errors import SettingsError, get_reason
from sottovoce.privacy.statement import format_epsilon
from sottovoce.service.logs import OwnCommands
from sottovoce.storage.files import write_atomically
from sottovoce.training import Settings

messages = Console(stderr=True, highlight=False)
results = Console(highlight=False)


class CountBar(Progress):
    """Live bars over things that are counted; the field `state` of a task is shown next to it."""

    def __init__(self) -> None:
        super().__init__(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[state]}"),
            console=messages,
        )


def escape_markup(text: str) -> str:
    """Text from outside, for rich: neither its markup nor a command to the terminal."""
    return escape(escape_control_characters(text))


def print_line(line: str) -> None:
    """One sentence, wrapped where the terminal ends and nowhere else."""
    results.print(escape_markup(line), soft_wrap=True)


def print_note(line: str) -> None:
    """The same next to the results."""
    messages.print(escape_markup(line), soft_wrap=True)


def align_right(*headings: str) -> list[Column]:
    return [Column(heading, justify="right") for heading in headings]


def make_table(lines: Iterable[tuple[str, str]], title: str | None = None) -> Table:
    """Labels and values."""
    made = Table(
        "", "", show_header=False, title=title and escape_markup(title), title_justify="left"
    )
    for label, value in lines:
        made.add_row(label, escape_markup(value))
    return made


def describe_settings(training: Settings) -> str:
    """What is trained, given or planned."""
    options = "".join(f", {name} {value}" for name, value in training.options.items() if value)
    every = training.turns == training.epochs
    epochs = ("" if every else f"{training.turns} of ") + pluralize(training.epochs, "epoch")
    return (
        f"{training.mechanism}: epsilon {format_epsilon(training.epsilon)}, reports "
        f"{training.reports} in each of {epochs}, factors {training.factors}, alpha "
        f"{training.alpha:.3g}, ridge {training.ridge:.3g}{options}"
        + (f"; the proxy adds {training.dummies:,} dummies an epoch" if training.dummies else "")
    )


def count_people(number: int) -> str:
    return "1 person" if number == 1 else f"{number:,} people"


def describe_candidates(negatives: int, untouched: NDArray[np.integer]) -> str:
    """What a left-out item is ranked against; `untouched` are the items that each person lacks."""
    if not negatives:
        return "the whole catalogue"
    return f"{'at most ' * bool((untouched < negatives).any())}{negatives} negatives"


def warn_about_few_candidates(negatives: int, untouched: NDArray[np.integer]) -> None:
    """Where nobody's left-out item can miss the list."""
    most = int(untouched.max(initial=0))
    candidates = 1 + (min(most, negatives) if negatives else most)
    if candidates <= 10:
        print_note(
            f"Note: HR@10 says nothing here: an item is ranked among {candidates} at most, so it "
            "is always among the first 10."
        )


def print_status(
    lines: Iterable[str], content: dict[str, Any], json_file: Path | None, commands: OwnCommands
) -> None:
    """Print a status, write it as JSON, and exit with code 1 if something needs attention."""
    for line in lines:
        print_line(commands.complete(line))
    problems = [commands.complete(problem) for problem in content["problems"]]
    write_json(json_file, content | {"problems": problems})
    for problem in problems:
        print_line(f"Needs attention: {ensure_full_stop(problem)}")
    if problems:
        raise typer.Exit(1)
    print_line("All is well.")


def describe_process(what: str, since: float, last: str | None, now: float) -> str:
    """Of a service: since when it runs, and what it complained of last."""
    said = "It has complained of nothing" if last is None else f"Its last complaint: {last}"
    return f"{what} runs since {format_moment(since, now)}. {ensure_full_stop(said)}"


def format_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def format_moment(seconds: float, now: float) -> str:
    """When it was or will be, also as seen from now."""
    away = format_duration(abs(now - seconds))
    distance = f"{away} ago" if seconds <= now else f"in {away}"
    return f"{format_time(seconds)} ({distance})"


def format_duration(seconds: float) -> str:
    """In its two largest units.

    >>> format_duration(59), format_duration(60), format_duration(3_661)
    ('59 s', '1 min', '1 h 1 min')
    """
    units = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
    left = int(seconds)
    parts: list[str] = []
    for name, size in units:
        if left >= size or (name == "s" and not parts):
            parts.append(f"{left // size} {name}")
            left %= size
    return " ".join(parts[:2])


def confirm(question: str, command: str, *, yes: bool) -> None:
    """Ask before anything is done; where nobody can answer, `--yes` must be given."""
    if yes:
        return
    if not sys.stdin.isatty() or not typer.confirm(question, err=True):
        raise SettingsError(f"not confirmed; nothing was done. To confirm, run: {command} --yes")


def write_json(path: Path | None, content: dict[str, Any], *, private: bool = False) -> None:
    """If a file is named; private is what only the owner of a device may read."""
    if path is None:
        return
    written = (json.dumps(content, indent=2) + "\n").encode()
    try:
        write_atomically(path, written, private=private)
    except OSError as error:
        raise SettingsError(f"--json {path}: cannot be written: {get_reason(error)}") from error
