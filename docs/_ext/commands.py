"""Directives that list what the code states: every command with its options, and every setting."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import typer
from sphinx.util.docutils import SphinxDirective

from sottovoce.cli.app import app as cli
from sottovoce.training import list_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from docutils.nodes import Node
    from sphinx.application import Sphinx


class Commands(SphinxDirective):
    """A section for each command, those of groups included."""

    def run(self) -> list[Node]:
        command: Any = typer.main.get_command(cli)
        text = "\n".join(_sections(command, ["sottovoce"]))
        return self.parse_text_to_nodes(text, allow_section_headings=True)


class SettingsTable(SphinxDirective):
    """The settings of a training: name, default, meaning."""

    def run(self) -> list[Node]:
        stated = list_settings().values()
        listed = [(f"`{each.name}`", f"`{each.default}`", each.help) for each in stated]
        return self.parse_text_to_nodes("\n".join(_table(("setting", "default", "what"), listed)))


def _sections(command: Any, path: list[str]) -> Iterator[str]:
    context = command.context_class(command, info_name=" ".join(path))
    if len(path) > 1:
        yield f"{'#' * len(path)} {' '.join(path)}\n"
    is_group = hasattr(command, "list_commands")
    runs = not is_group or command.invoke_without_command
    if runs:
        usage = " ".join(command.collect_usage_pieces(context))
        yield f"```text\n{' '.join(path)} {usage}\n```\n"
    yield from _help(command.help or "")
    if runs:
        yield from _parameters(command, context)
    for name in command.list_commands(context) if is_group else ():
        yield from _sections(command.get_command(context, name), [*path, name])


def _help(text: str) -> Iterator[str]:
    """Paragraphs; examples, which stand in lines of their own, as code."""
    for paragraph in re.split(r"\n\s*\n", text.replace("\b", "").strip()):
        lines = [line.strip() for line in paragraph.strip().splitlines()]
        shown = [line for line in lines if line not in ("Example:", "Examples:", "")]
        is_code = shown[:1] != [] and shown[0].startswith("sottovoce ")
        yield "\n".join(["```sh", *shown, "```", ""] if is_code else [*shown, ""])


def _parameters(command: Any, context: Any) -> Iterator[str]:
    rows = []
    for parameter in command.get_params(context):
        parameter.hidden = False
        record = parameter.get_help_record(context)
        if record is not None and record[0] != "--help":
            rows.append((f"`{record[0]}`", record[1]))
    if rows:
        yield from _table(("argument or option", "what"), rows)


def _table(head: tuple[str, ...], lines: list[tuple[str, ...]]) -> Iterator[str]:
    for row in (head, ("---",) * len(head), *lines):
        cells = (cell.replace("|", r"\|") for cell in row)
        yield f"| {' | '.join(cells)} |"
    yield ""


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("commands", Commands)
    app.add_directive("settings", SettingsTable)
    return {"parallel_read_safe": True}
