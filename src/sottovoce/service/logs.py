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


class LastSaid(logging.Handler):
    """The last warning or error, for whoever asks how the service stands."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.line: str | None = None

    def emit(self, record: logging.LogRecord) -> None:
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


class Troubles:
    """What keeps a service from its work, by name.

    Each is said when it begins or changes, and when it is over; never again and again.
    """

    def __init__(self) -> None:
        self._now: dict[str, tuple[str, float]] = {}

    def tell(self, name: str, text: str | None, *, level: int = logging.WARNING) -> None:
        """How it stands with this: what is wrong, or None."""
        before, since = self._now.get(name, (None, time.monotonic()))
        if text is not None:
            self._now[name] = text, since
        if text is not None and text != before:
            log.log(level, "%s", text)
        if text is None and self._now.pop(name, None) is not None:
            log.warning("mended after %.0f s: %s", time.monotonic() - since, before)

    def __getitem__(self, name: str) -> str | None:
        return self._now.get(name, (None,))[0]

    @property
    def texts(self) -> list[str]:
        """All that is wrong now."""
        return [text for text, _ in list(self._now.values())]
