"""What a service says: a line for each thing, with its time; trouble is said until it is over."""

import json
import logging
import sys
import time
import traceback

log = logging.getLogger("sottovoce")

QUIET = {"uvicorn.error": logging.WARNING}
"""What others say of their own start and end, under names that read like errors, is said by us."""
SILENT = ("uvicorn.access", "httpx", "httpcore")
"""A line for each request would keep its time."""


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
    text = record.getMessage()
    if record.exc_info:
        text += ": " + "".join(traceback.format_exception(*record.exc_info))
    return " | ".join(line.strip() for line in text.splitlines() if line.strip())


def begin_log(*, as_json: bool) -> None:
    """Of this process, on stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Objects() if as_json else Lines())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    for name, level in QUIET.items():
        logging.getLogger(name).setLevel(level)
    for name in SILENT:
        logging.getLogger(name).disabled = True


class Trouble:
    """What keeps a service from its work: said when it begins or changes, and when it is over."""

    def __init__(self) -> None:
        self.text: str | None = None
        self._since = 0.0

    def is_there(self, text: str, *, level: int = logging.WARNING) -> None:
        if self.text is None:
            self._since = time.monotonic()
        if text != self.text:
            log.log(level, "%s", text)
        self.text = text

    def is_over(self) -> None:
        if self.text is not None:
            log.warning("mended after %.0f s: %s", time.monotonic() - self._since, self.text)
        self.text = None
