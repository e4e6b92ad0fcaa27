"""The log of a service: one line for each event, with its time, and for each trouble only once."""

import json
import logging
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


@dataclass(frozen=True)
class OwnCommands:
    """The commands of one service, each of which needs its settings file."""

    service: str = ""
    """`server`, `proxy`, or nothing for a process without commands."""
    config: Path = Path()

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


# For a process that has no commands of its own.
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
    """Keeps the line of the last warning or error, for `status`."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.line: str | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if not record.getMessage().startswith(RESOLVED_PREFIX):
            self.line = self.format(record)


def start_logging(commands: OwnCommands = NO_COMMANDS, *, as_json: bool = False) -> LastWarning:
    """Log to stderr, and return what keeps the last warning."""
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
    logged_text: str = ""
    logged_at: float = 0.0


class Troubles:
    """The problems that keep a service from its work now, by name.

    Each is logged when it begins or changes, at most once a minute, and when it is over.
    """

    def __init__(self) -> None:
        # With None for each that is over, or that never was.
        self._troubles: dict[str, Trouble | None] = {}

    def update(self, name: str, text: str | None, *, level: int = logging.WARNING) -> None:
        """Set the text of a trouble, or end it with None."""
        now, trouble = time.monotonic(), self._troubles.get(name)
        if text is None:
            self._troubles[name] = None
            if trouble is not None:
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
        return [trouble.text for trouble in list(self._troubles.values()) if trouble is not None]

    def list_states(self) -> list[tuple[str, bool]]:
        """Return the names of all possible troubles, each with whether the service has it."""
        return [(name, trouble is not None) for name, trouble in list(self._troubles.items())]
