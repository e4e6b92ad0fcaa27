"""Output that the commands share: lines, tables, progress, a question, a status, a JSON file."""

import json
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread
from time import monotonic
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

# Seconds between two lines about progress where the output is a file.
SECONDS_PER_LINE = 60.0

messages = Console(stderr=True, highlight=False)
results = Console(highlight=False)


class CountBar(Progress):
    """Live bars over things that are counted; the field `state` of a task is shown next to it.

    Where the output is a file there are lines instead, one a minute.
    """

    def __init__(self) -> None:
        super().__init__(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[state]}"),
            console=messages,
        )
        self._stops = Event()

    def start(self) -> None:
        """Show the bars, or begin to write lines."""
        if self.console.is_terminal:
            super().start()
        else:
            self._stops.clear()
            Thread(target=self._write_lines, daemon=True).start()

    def stop(self) -> None:
        """Leave the bars as they are; write no more lines."""
        self._stops.set()
        if self.console.is_terminal:
            super().stop()

    def _write_lines(self) -> None:
        started = monotonic()
        while not self._stops.wait(SECONDS_PER_LINE):
            duration = format_duration(monotonic() - started)
            for task in self.tasks[-1:]:
                done = f"{task.completed:,.0f} of {task.total or 0:,.0f}"
                print_note(f"{task.description}: {done}, {task.fields['state']} ({duration})")


def escape_markup(text: str) -> str:
    """Return text from outside without effect on rich or on the terminal."""
    return escape(escape_control_characters(text))


def print_line(line: str) -> None:
    """Print one line of the results, wrapped only where the terminal ends."""
    results.print(escape_markup(line), soft_wrap=True)


def print_note(line: str) -> None:
    """Print one line to stderr."""
    messages.print(escape_markup(line), soft_wrap=True)


def align_right(*headings: str) -> list[Column]:
    """Return columns of numbers."""
    return [Column(heading, justify="right") for heading in headings]


def make_table(rows: Iterable[tuple[str, str]], title: str | None = None) -> Table:
    """Return a table of labels and values."""
    title = None if title is None else escape_markup(title)
    table = Table("", "", show_header=False, title=title, title_justify="left")
    for label, value in rows:
        table.add_row(label, escape_markup(value))
    return table


def describe_settings(training: Settings) -> str:
    """Return the settings of a training in words."""
    options = "".join(f", {name} {value}" for name, value in training.options.items() if value)
    turns = "" if training.turns == training.epochs else f"{training.turns} of "
    dummies = f"; the proxy adds {training.dummies:,} dummies an epoch" if training.dummies else ""
    return (
        f"{training.mechanism}: epsilon {format_epsilon(training.epsilon)}, reports "
        f"{training.reports} in each of {turns}{pluralize(training.epochs, 'epoch')}, factors "
        f"{training.factors}, alpha {training.alpha:.3g}, ridge {training.ridge:.3g}{options}"
        f"{dummies}"
    )


def count_people(number: int) -> str:
    """Return the number with the noun."""
    return "1 person" if number == 1 else f"{number:,} people"


def describe_candidates(negatives: int, untouched: NDArray[np.integer]) -> str:
    """Return against what a left-out item is ranked.

    Args:
        negatives: Number of other items, or 0 for the whole catalogue.
        untouched: Number of items that each person never touched.
    """
    if not negatives:
        return "the whole catalogue"
    return f"{'at most ' * bool((untouched < negatives).any())}{negatives} negatives"


def warn_about_few_candidates(negatives: int, untouched: NDArray[np.integer]) -> None:
    """Warn if a list of ten contains every candidate."""
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


def describe_process(name: str, since: float, last_problem: str | None, now: float) -> str:
    """Return since when a service runs and what it complained of last."""
    complaint = (
        "It has complained of nothing"
        if last_problem is None
        else f"Its last complaint: {last_problem}"
    )
    return f"{name} runs since {format_moment(since, now)}. {ensure_full_stop(complaint)}"


def format_moment(seconds: float, now: float) -> str:
    """Return a moment as UTC and as its distance from now."""
    distance = format_duration(abs(now - seconds))
    distance = f"{distance} ago" if seconds <= now else f"in {distance}"
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%SZ} ({distance})"


def format_duration(seconds: float) -> str:
    """Return a duration in its two largest units.

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
    """Ask a question; without a terminal to answer at, `--yes` must be given.

    Raises:
        SettingsError: The answer is no; the message says how to confirm with `command`.
    """
    if yes:
        return
    if not sys.stdin.isatty() or not typer.confirm(question, err=True):
        raise SettingsError(f"not confirmed; nothing was done. To confirm, run: {command} --yes")


def write_json(path: Path | None, content: dict[str, Any], *, private: bool = False) -> None:
    """Write a JSON file, if one is named; only its owner can read a private one."""
    if path is None:
        return
    try:
        write_atomically(path, f"{json.dumps(content, indent=2)}\n".encode(), private=private)
    except OSError as error:
        raise SettingsError(f"--json {path}: cannot be written: {get_reason(error)}") from error
