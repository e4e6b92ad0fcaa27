"""Output of all commands: lines, tables, progress bars, questions, statuses and JSON files."""

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
from sottovoce.service.logs import OwnCommands
from sottovoce.storage.files import write_atomically
from sottovoce.training.start import Provenance

# Seconds between two lines about progress if the output is not a terminal.
SECONDS_PER_LINE = 60.0

messages = Console(stderr=True, highlight=False)
results = Console(highlight=False)


class CountBar(Progress):
    """Progress bars for tasks that count steps, each followed by the field `state` of its task.

    If the output is not a terminal, a line is written every minute instead.
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
        """Stop updating the bars or writing lines."""
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
    """Escape untrusted text, so that it affects neither rich nor the terminal."""
    return escape(escape_control_characters(text))


def print_line(line: str) -> None:
    """Print a line of the results without inserting line breaks."""
    results.print(escape_markup(line), soft_wrap=True)


def print_note(line: str) -> None:
    """Print a line to stderr without inserting line breaks."""
    messages.print(escape_markup(line), soft_wrap=True)


def align_right(*headings: str) -> list[Column]:
    """Return right-aligned columns with these headings."""
    return [Column(heading, justify="right") for heading in headings]


def make_table(rows: Iterable[tuple[str, str]], title: str | None = None) -> Table:
    """Return a table with a column of labels and a column of values."""
    title = None if title is None else escape_markup(title)
    table = Table("", "", show_header=False, title=title, title_justify="left")
    for label, value in rows:
        table.add_row(label, escape_markup(value))
    return table


def describe_start(start: Provenance) -> str:
    """Return in words where first lists come from."""
    until = "" if start.last_date is None else f", until {start.last_date}"
    people = count_people(start.people)
    return f"First lists come from public data: {start.name} ({people}{until}; {start.licence})."


def count_people(number: int) -> str:
    """Return a number of people with its noun, such as "1 person" or "2,000 people"."""
    return "1 person" if number == 1 else f"{number:,} people"


def describe_candidates(negatives: int, untouched: NDArray[np.integer]) -> str:
    """Describe the items against which a left-out item is ranked.

    Args:
        negatives: Number of untouched items to rank against; 0 for the whole catalogue.
        untouched: For each person, the number of items that they never touched.
    """
    if not negatives:
        return "the whole catalogue"
    return f"{'at most ' * bool((untouched < negatives).any())}{negatives} negatives"


def warn_about_few_candidates(negatives: int, untouched: NDArray[np.integer]) -> None:
    """Warn if items are ranked among so few candidates that HR@10 is always 1.

    See `describe_candidates` for the arguments.
    """
    max_untouched = int(untouched.max(initial=0))
    candidates = 1 + (min(max_untouched, negatives) if negatives else max_untouched)
    if candidates <= 10:
        print_note(
            f"Note: HR@10 is always 1 here and says nothing, because an item is ranked among at "
            f"most {candidates} items."
        )


def print_status(
    lines: Iterable[str], content: dict[str, Any], json_file: Path | None, commands: OwnCommands
) -> None:
    """Print the status of a service, write it as JSON, and exit with code 1 if there are problems.

    Args:
        lines: Lines of the status, without the problems.
        content: Content of the JSON file, with a list of `problems`.
        json_file: The JSON file, if one is named.
        commands: Completes the commands in texts.
    """
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
    """Return a text about a running service: when it started, and its last warning.

    Args:
        name: The service, at the beginning of a sentence.
        since: Start of the process, in Unix seconds.
        last_problem: The last warning or error in its log.
        now: Unix seconds.
    """
    complaint = (
        "Its log has no warnings"
        if last_problem is None
        else f"The last warning in its log: {last_problem}"
    )
    return f"{name} was started at {format_moment(since, now)}. {ensure_full_stop(complaint)}"


def format_moment(seconds: float, now: float) -> str:
    """Return a time in UTC, with its distance from `now`; both are in Unix seconds."""
    distance = format_duration(abs(now - seconds))
    distance = f"{distance} ago" if seconds <= now else f"in {distance}"
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%SZ} ({distance})"


def format_duration(seconds: float) -> str:
    """Return a duration in words, with its two largest units.

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
    """Ask the user to confirm, unless `yes` is true.

    Args:
        question: The question.
        command: The command line, to which the error adds `--yes`.
        yes: Whether the user has given `--yes`.

    Raises:
        SettingsError: The answer is no, or there is no terminal to ask at.
    """
    if yes:
        return
    if not sys.stdin.isatty() or not typer.confirm(question, err=True):
        raise SettingsError(f"not confirmed; nothing was done. To confirm, run: {command} --yes")


def write_json(path: Path | None, content: dict[str, Any], *, private: bool = False) -> None:
    """Write a JSON file, unless the path is None.

    Args:
        path: The file.
        content: Its content.
        private: Whether only the owner may read the file.
    """
    if path is None:
        return
    try:
        write_atomically(path, f"{json.dumps(content, indent=2)}\n".encode(), private=private)
    except OSError as error:
        raise SettingsError(f"--json {path}: cannot be written: {get_reason(error)}") from error
