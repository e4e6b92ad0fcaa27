"""What a service says: a line for each thing, with its time; trouble is said until it is over."""

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

QUIET = {"uvicorn.error": logging.WARNING}
"""What others say of their own start and end, under names that read like errors, is said by us."""
MENDED = "mended"
PAUSE = 60.0
"""Seconds between two lines about the same trouble: others may choose how often it changes."""
MOST = 2_000
"""Characters of one."""
SILENT = ("uvicorn.access", "httpx", "httpcore")
"""A line for each request would keep its time."""


OWN: dict[str, Path] = {}
"""The settings file that this process was given, by its service: server or proxy."""


def pasted(text: str) -> str:
    """Commands in a text as they can be pasted: with the settings file, where it is known."""
    for service, config in OWN.items():
        command = rf"`sottovoce {service}(?: (?!init\b)[a-z][a-z-]*)++(?! --config)"
        named = f" --config {shlex.quote(str(config))}".replace("\\", "\\\\")
        text = re.sub(command, rf"\g<0>{named}", text)
    return text


class Lines(logging.Formatter):
    """`2027-01-15T08:00:00Z WARNING text`: one line, whatever happened."""

    def format(self, record: logging.LogRecord) -> str:
        return f"{_when(record)} {record.levelname} {_text(record)}"


class Objects(logging.Formatter):
    """The same as a JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        said = {"time": _when(record), "level": record.levelname, "text": _text(record)}
        return json.dumps(said, ensure_ascii=False)


def _when(record: logging.LogRecord) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created))


def _text(record: logging.LogRecord) -> str:
    """With the traceback behind it, if there is one."""
    text = pasted(record.getMessage())
    if record.exc_info:
        text += ": " + "".join(traceback.format_exception(*record.exc_info))
    return " | ".join(line.strip() for line in text.splitlines() if line.strip())


class LastSaid(logging.Handler):
    """The last warning or error, for whoever asks how the service stands."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.line: str | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if not record.getMessage().startswith(MENDED):
            self.line = Lines().format(record)


def begin_log(*, as_json: bool) -> LastSaid:
    """Of this process, on stderr."""
    handler, last = logging.StreamHandler(sys.stderr), LastSaid()
    handler.setFormatter(Objects() if as_json else Lines())
    logging.basicConfig(level=logging.INFO, handlers=[handler, last])
    for name, level in QUIET.items():
        logging.getLogger(name).setLevel(level)
    for name in SILENT:
        logging.getLogger(name).disabled = True
    return last


@dataclass
class Trouble:
    text: str
    since: float
    said: str = ""
    """What the log has of it."""
    said_at: float = 0.0


class Troubles:
    """What keeps a service from its work, by name.

    Each is said when it begins or changes, at most once a minute, and when it is over.
    """

    def __init__(self) -> None:
        self._now: dict[str, Trouble] = {}

    def tell(self, name: str, text: str | None, *, level: int = logging.WARNING) -> None:
        """How it stands with this: what is wrong, or None."""
        now, known = time.monotonic(), self._now.get(name)
        if text is None:
            if self._now.pop(name, None) is not None and known is not None:
                log.warning("%s after %.0f s: %s", MENDED, now - known.since, known.text)
            return
        if known is None:
            known = self._now[name] = Trouble(text, now)
        known.text = text[:MOST]
        if known.text != known.said and (not known.said or now - known.said_at >= PAUSE):
            log.log(level, "%s", known.text)
            known.said, known.said_at = known.text, now

    def __getitem__(self, name: str) -> str | None:
        known = self._now.get(name)
        return None if known is None else known.text

    @property
    def texts(self) -> list[str]:
        """All that is wrong now."""
        return [known.text for known in list(self._now.values())]
