"""The log of a service: a line with the time for each event. A lasting trouble is logged once."""

import json
import logging
import shlex
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

log = logging.getLogger("sottovoce")

# Lowest level of a library's logger that is logged. uvicorn logs its start and end as
# "uvicorn.error", which looks like an error; services log their own start and end.
LIBRARY_LEVELS = {"uvicorn.error": logging.WARNING}
# Loggers that are switched off: they write a line for each request, which would record its time.
DISABLED_LOGGERS = ("uvicorn.access", "httpx", "httpcore")
# Seconds between two lines about a trouble. A client or server could make it change very often.
MIN_SECONDS_BETWEEN_LINES = 60.0
MAX_TROUBLE_LENGTH = 2_000


@dataclass(frozen=True)
class OwnCommands:
    """Adds the settings file of a service to the commands in messages."""

    service: str = ""
    """`server` or `proxy`; empty for a process without commands."""
    config: Path = Path()
    """The settings file of the service."""

    def complete(self, text: str) -> str:
        """Add `--config` to the commands in a message, so that an operator can paste them.

        >>> OwnCommands("server", Path("s.toml")).complete("Run `sottovoce server go-beyond 7`")
        'Run `sottovoce server go-beyond 7 --config s.toml`'
        """
        parts = text.split("`")
        for place in range(1, len(parts) - 1):
            match parts[place].split():
                # Only `init` needs no settings file.
                case ["sottovoce", self.service, name, *options] if (
                    name != "init" and "--config" not in options
                ):
                    parts[place] += f" --config {shlex.quote(str(self.config))}"
        return "`".join(parts)


# For a process without commands.
NO_COMMANDS = OwnCommands()


class LineFormatter(logging.Formatter):
    """Formats a record as one line: `2027-01-15T08:00:00Z WARNING text`, or a JSON object."""

    def __init__(self, commands: OwnCommands = NO_COMMANDS, *, as_json: bool = False):
        super().__init__()
        self._commands = commands
        self._as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created))
        text = self._commands.complete(record.getMessage())
        if record.exc_info:
            text += ": " + "".join(traceback.format_exception(*record.exc_info))
        text = " | ".join(line.strip() for line in text.splitlines() if line.strip())
        if not self._as_json:
            return f"{moment} {record.levelname} {text}"
        fields = {"time": moment, "level": record.levelname, "text": text}
        return json.dumps(fields, ensure_ascii=False)


class LastWarning(logging.Handler):
    """Keeps the line of the last warning or error, which the `status` command shows."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.line: str | None = None

    def emit(self, record: logging.LogRecord) -> None:
        self.line = self.format(record)


def start_logging(commands: OwnCommands = NO_COMMANDS, *, as_json: bool = False) -> LastWarning:
    """Log to stderr; return the handler that keeps the last warning.

    Args:
        commands: Completes the commands in messages.
        as_json: Whether each line is a JSON object.
    """
    handler, last_warning = logging.StreamHandler(sys.stderr), LastWarning()
    handler.setFormatter(LineFormatter(commands, as_json=as_json))
    last_warning.setFormatter(LineFormatter(commands))
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
    """Begin of the trouble, by `time.monotonic()`."""
    logged_text: str = ""
    """The text that was logged last."""
    logged_at: float = 0.0
    """Time of the last line, by `time.monotonic()`."""


class Troubles:
    """The current problems of a service, by name.

    A problem is logged when it begins, when it is over and, at most once a minute, when its text
    changes.
    """

    def __init__(self) -> None:
        # The value is None for a trouble that is over or has not begun.
        self._troubles: dict[str, Trouble | None] = {}

    def update(self, name: str, text: str | None, *, level: int = logging.WARNING) -> None:
        """Begin or change a trouble, or end it if `text` is None.

        Args:
            name: Name of the trouble, which the metrics show.
            text: What is wrong, and what to do.
            level: Level of the line in the log.
        """
        now, trouble = time.monotonic(), self._troubles.get(name)
        if text is None:
            self._troubles[name] = None
            if trouble is not None:
                duration = now - trouble.since
                log.warning("resolved after %.0f s: %s", duration, trouble.text)
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
        """The texts of all current troubles."""
        # Copy the values, because another thread may change the dictionary.
        return [trouble.text for trouble in list(self._troubles.values()) if trouble is not None]

    def list_states(self) -> list[tuple[str, bool]]:
        """Return the name of each known trouble, and whether the service has it now."""
        return [(name, trouble is not None) for name, trouble in list(self._troubles.items())]
