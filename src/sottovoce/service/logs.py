"""The log of a service: one line for each event, with its time, and for each trouble only once."""

import json
import logging
import re
import shlex
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

log = logging.getLogger("sottovoce")

# Loggers of libraries with their lowest level that is logged. uvicorn's notes about its start and
# end have a name that reads like an error; we log our own.
LIBRARY_LEVELS = {"uvicorn.error": logging.WARNING}
# Loggers that write a line for each request, which would record its time.
DISABLED_LOGGERS = ("uvicorn.access", "httpx", "httpcore")
# First word of the line that says that a trouble is over.
RESOLVED_PREFIX = "resolved"
# Time between two lines about the same trouble: other parties may choose how often it changes.
MIN_SECONDS_BETWEEN_LINES = 60.0
MAX_TROUBLE_LENGTH = 2_000

OWN: dict[str, Path] = {}
"""The settings file that this process was given, by its service: server or proxy."""


def pasted(text: str) -> str:
    """Commands in a text as they can be pasted: with the settings file, where it is known."""
    for service, config in OWN.items():
        command = rf"`sottovoce {service}(?: (?!init\b)[a-z][a-z-]*)++(?! --config)"
        named = f" --config {shlex.quote(str(config))}".replace("\\", "\\\\")
        text = re.sub(command, rf"\g<0>{named}", text)
    return text


class PlainFormatter(logging.Formatter):
    """Formats a record as one line, such as `2027-01-15T08:00:00Z WARNING text`."""

    def format(self, record: logging.LogRecord) -> str:
        return f"{_format_time(record)} {record.levelname} {_format_text(record)}"


class JsonFormatter(logging.Formatter):
    """Formats a record as a JSON object in one line."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": _format_time(record),
            "level": record.levelname,
            "text": _format_text(record),
        }
        return json.dumps(fields, ensure_ascii=False)


def _format_time(record: logging.LogRecord) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created))


def _format_text(record: logging.LogRecord) -> str:
    text = pasted(record.getMessage())
    if record.exc_info:
        text += ": " + "".join(traceback.format_exception(*record.exc_info))
    return " | ".join(line.strip() for line in text.splitlines() if line.strip())


class LastWarning(logging.Handler):
    """Keeps the last warning or error, for `status`."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.line: str | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if not record.getMessage().startswith(RESOLVED_PREFIX):
            self.line = PlainFormatter().format(record)


def start_logging(*, as_json: bool) -> LastWarning:
    """Log to stderr, and return what keeps the last warning."""
    handler, last_warning = logging.StreamHandler(sys.stderr), LastWarning()
    handler.setFormatter(JsonFormatter() if as_json else PlainFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler, last_warning])
    for name, level in LIBRARY_LEVELS.items():
        logging.getLogger(name).setLevel(level)
    for name in DISABLED_LOGGERS:
        logging.getLogger(name).disabled = True
    return last_warning


@dataclass
class Trouble:
    """A problem that a service has now."""

    text: str
    since: float
    logged_text: str = ""
    logged_at: float = 0.0


class Troubles:
    """The problems that keep a service from its work now, by name.

    Each is logged when it begins or changes, at most once a minute, and when it is over.
    """

    def __init__(self) -> None:
        self._troubles: dict[str, Trouble] = {}

    def update(self, name: str, text: str | None, *, level: int = logging.WARNING) -> None:
        """Set the text of a trouble, or end it with None."""
        now, trouble = time.monotonic(), self._troubles.get(name)
        if text is None:
            if self._troubles.pop(name, None) is not None and trouble is not None:
                duration = now - trouble.since
                log.warning("%s after %.0f s: %s", RESOLVED_PREFIX, duration, trouble.text)
            return
        if trouble is None:
            trouble = self._troubles[name] = Trouble(text, now)
        trouble.text = text[:MAX_TROUBLE_LENGTH]
        is_due = not trouble.logged_text or now - trouble.logged_at >= MIN_SECONDS_BETWEEN_LINES
        if trouble.text != trouble.logged_text and is_due:
            log.log(level, "%s", trouble.text)
            trouble.logged_text, trouble.logged_at = trouble.text, now

    def __getitem__(self, name: str) -> str | None:
        trouble = self._troubles.get(name)
        return None if trouble is None else trouble.text

    @property
    def texts(self) -> list[str]:
        """Every trouble now."""
        # A copy, because another thread may change the dict.
        return [trouble.text for trouble in list(self._troubles.values())]
