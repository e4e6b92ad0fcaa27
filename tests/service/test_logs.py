"""Log lines: one for each event, with its time, and one for the begin and end of a problem."""

import json
import logging
import re
from pathlib import Path

import pytest

from sottovoce.service.logs import LastWarning, LineFormatter, OwnCommands, Troubles

LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ ERROR .+")


def record(text: str, *, failed: bool = False) -> logging.LogRecord:
    log_record = logging.LogRecord("uvicorn.error", logging.ERROR, "f.py", 1, text, (), None)
    log_record.created = 1_800_000_000.7
    if failed:
        try:
            raise ValueError("two\nlines")
        except ValueError as error:
            log_record.exc_info = type(error), error, error.__traceback__
    return log_record


@pytest.mark.parametrize("failed", [False, True])
@pytest.mark.parametrize("text", ["a disk is full", "two\nlines", "50% of it"])
def test_every_event_is_one_line_with_its_time(text: str, failed: bool) -> None:
    line = LineFormatter().format(record(text, failed=failed))
    assert LINE.fullmatch(line)
    assert line.startswith("2027-01-15T08:00:00Z ERROR ")
    assert "uvicorn" not in line
    assert ("ValueError" in line) == failed
    fields = json.loads(LineFormatter(as_json=True).format(record(text, failed=failed)))
    assert list(fields) == ["time", "level", "text"]
    assert line == " ".join(fields.values())


def test_commands_in_messages_name_the_settings_file() -> None:
    """Commands of the other service and `init`, which need other settings, are not changed."""
    commands = OwnCommands("server", Path("my server/s.toml"))
    text = "`sottovoce server go-beyond 7`, not `sottovoce proxy run` or `sottovoce server init`"
    completed = text.replace(" 7`", " 7 --config 'my server/s.toml'`")
    assert commands.complete(text) == commands.complete(completed) == completed
    assert OwnCommands().complete(text) == text
    assert LineFormatter(commands).format(record(text)).endswith(completed)


def test_problem_with_changing_numbers_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    troubles = Troubles()
    for epoch in range(1000):
        troubles.update("proxy", f"epoch {epoch}")
    troubles.update("long", "x" * 10**6)
    assert troubles["proxy"] == "epoch 999"
    assert len(caplog.records) == 2
    assert len(caplog.text) < 10_000


def test_problem_is_logged_when_it_begins_changes_and_ends(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sottovoce.service.logs.MIN_SECONDS_BETWEEN_LINES", 0.0)
    troubles = Troubles()
    troubles.update("server", None)
    for text in ("no server", "no server", "no disk", "no disk"):
        troubles.update("beat", text)
    troubles.update("clock", "late")
    assert troubles.texts == ["no disk", "late"]
    assert (troubles["beat"], troubles["server"]) == ("no disk", None)
    troubles.update("beat", None)
    troubles.update("beat", None)
    messages = [log_record.getMessage() for log_record in caplog.records]
    assert messages[:3] == ["no server", "no disk", "late"]
    assert len(messages) == 4
    assert "resolved" in messages[3]
    last_warning = LastWarning()
    last_warning.setFormatter(logging.Formatter())
    for log_record in caplog.records:
        last_warning.emit(log_record)
    assert last_warning.line == messages[3], "status says that it is over"
    assert "no disk" in messages[3]
    assert troubles.texts == ["late"]
