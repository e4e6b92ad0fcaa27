"""The heartbeat between a proxy and its server, in which each tells its state and its time.

So each side notices when the other was restored from a backup, when a secret is unknown, or when a
clock is wrong. It does so before devices spend budget on reports that cannot be counted.
"""

import json
from dataclasses import asdict, dataclass, fields
from math import nan
from secrets import token_hex
from typing import Any, Literal, Self, get_args

from sottovoce.errors import ProtocolError
from sottovoce.protocol import strict
from sottovoce.protocol.manifest import MAX_EPOCH, Manifest

# The state of a proxy's crowd. It is one of four words: the number of batches is not revealed.
Crowd = Literal["none", "short", "enough", "never"]
CROWD_NONE: Crowd = "none"
# The proxy has batches, but too few to mix.
CROWD_SHORT: Crowd = "short"
CROWD_ENOUGH: Crowd = "enough"
# The crowd cannot become large enough: too few accounts have a token, or the proxy has ended the
# epoch.
CROWD_NEVER: Crowd = "never"

# How the epoch that the proxy named stands at the server; "none" if the proxy has no epoch yet.
State = Literal["none", "open", "closed", "applied"]

# The largest size of a contact, a reply or another small JSON message between proxy and server.
MAX_CONTACT_BYTES = 4096
# If two clocks differ by more than this, the operator is told.
MIN_NOTICED_SKEW_SECONDS = 60.0
DAY_SECONDS = 86_400.0
MONTH_SECONDS = 30 * DAY_SECONDS
# Size of the random name of a process or of a database.
NAME_BYTES = 8
# A time above this is malformed. Any other time is accepted, even if it comes from a wrong clock.
_MAX_UNIX_SECONDS = 1e12
_HASH_FIELDS = ("manifest", "token_key")
_NAME_FIELDS = ("process", "database", "server_database")


def draw_process_name() -> str:
    """Draw the random name of a process."""
    return token_hex(NAME_BYTES)


def classify_crowd(batches: int, min_batches: int) -> Crowd:
    """Return the state of a crowd.

    Args:
        batches: The number of batches that the proxy has.
        min_batches: The number of batches that are enough to mix.
    """
    return CROWD_ENOUGH if batches >= min_batches else CROWD_SHORT if batches else CROWD_NONE


@dataclass(frozen=True)
class Contact:
    """The message that a proxy sends to its server in a heartbeat."""

    epoch: int
    """The epoch that the proxy publishes to clients; 0 before the first."""
    manifest: bytes | None
    """Hash of the manifest of that epoch; None if there is no epoch."""
    crowd: Crowd | None
    """State of the proxy's crowd; None before the epoch closes, because nobody may know it then."""
    time: float
    """The time of the proxy's clock, in Unix seconds."""
    process: str | None
    """Random name of the proxy's process, by which the server notices that two proxies use the same
    secret. None if the sender only asks for the server's state."""
    token_key: bytes | None = None
    """Public key for the tokens of a later epoch, if no manifest has named this key yet; else
    None."""
    database: str | None = None
    """Random name of the proxy's database. None if the sender only asks for the server's state."""
    server_database: str | None = None
    """Name of the server's database in the last reply; None before the first reply."""

    def encode(self) -> bytes:
        content = asdict(self)
        for name in _HASH_FIELDS:
            content[name] = None if content[name] is None else content[name].hex()
        return json.dumps(content).encode()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        content = strict.parse_object(data, max_bytes=MAX_CONTACT_BYTES, what="contact")
        strict.check_keys(content, {field.name for field in fields(cls)}, "contact")
        epoch = strict.parse_int(
            content["epoch"], min_value=0, max_value=MAX_EPOCH, what="contact: epoch"
        )
        crowd = content["crowd"]
        if (content["manifest"] is None) != (epoch == 0):
            raise ProtocolError("contact: manifest must be null if and only if epoch is 0")
        hashes: dict[str, Any] = {
            name: None
            if content[name] is None
            else strict.parse_hex(content[name], what=f"contact: {name}")
            for name in _HASH_FIELDS
        }
        if crowd is not None:
            crowd = _parse_choice(crowd, get_args(Crowd), "contact: crowd")
        names: dict[str, Any] = {
            name: None if content[name] is None else _parse_name(content[name], f"contact: {name}")
            for name in _NAME_FIELDS
        }
        return cls(epoch, crowd=crowd, time=_parse_time(content["time"]), **names, **hashes)


@dataclass(frozen=True)
class Reply:
    """The server's answer to a contact.

    If the server can never count the reports of the proxy's epoch, it answers with an error
    instead.
    """

    state: State
    time: float
    """The time of the server's clock, in Unix seconds."""
    database: str
    """Random name of the server's database."""

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        content = strict.parse_object(data, max_bytes=MAX_CONTACT_BYTES, what="reply")
        strict.check_keys(content, {field.name for field in fields(cls)}, "reply")
        state = _parse_choice(content["state"], get_args(State), "reply: state")
        database = _parse_name(content["database"], "reply: database")
        return cls(state, _parse_time(content["time"]), database)


def allowed_clock_skew(manifest: Manifest | None) -> float:
    """Return by how many seconds the clocks of proxy and server may differ.

    If they differ by more, the proxy accepts no more reports.
    """
    # If the proxy's clock is ahead by more than the hold, it would end an epoch too early. If it is
    # behind by more than the hold, it would accept reports that the server no longer waits for. A
    # difference of a day or more is always a mistake, however long the hold is.
    hold = 0 if manifest is None else manifest.terms.hold
    return max(MIN_NOTICED_SKEW_SECONDS, min(hold, DAY_SECONDS))


def describe_clock_skew(ahead: float, who: str, whose: str) -> str | None:
    """Describe a difference between two clocks; return None if it is small.

    Args:
        ahead: The seconds by which the first clock is ahead of the second.
        who: The first clock, for the sentence.
        whose: The second clock, for the sentence.

    >>> describe_clock_skew(-7500.0, "this proxy's clock", "the server's")
    "this proxy's clock is 2 hours behind the server's; set both by NTP"
    """
    if abs(ahead) <= MIN_NOTICED_SKEW_SECONDS:
        return None
    sizes = {"days": 86_400, "hours": 3_600, "minutes": 60}
    unit = next((name for name, size in sizes.items() if abs(ahead) >= 2 * size), "minutes")
    number = max(int(abs(ahead) // sizes[unit]), 1)
    duration = f"{number} {unit if number > 1 else unit[:-1]}"
    return f"{who} is {duration} {'ahead of' if ahead > 0 else 'behind'} {whose}; set both by NTP"


def _parse_choice(value: object, choices: tuple[str, ...], what: str) -> Any:
    if value not in choices:
        raise ProtocolError(
            f"{what}: must be one of {', '.join(choices)}, not {strict.format_value(value)}"
        )
    return value


def _parse_name(value: object, what: str) -> str:
    return strict.parse_hex(value, what=what, size=NAME_BYTES).hex()


def _parse_time(value: object) -> float:
    # The time of a clock that is wrong by decades is accepted here. The caller reports the
    # difference.
    try:
        seconds = float(value) if type(value) in (int, float) else nan  # type: ignore[arg-type]
    except OverflowError:
        seconds = nan
    if not -_MAX_UNIX_SECONDS <= seconds <= _MAX_UNIX_SECONDS:
        raise ProtocolError(f"time must be in Unix seconds, not {strict.format_value(value)}")
    return seconds
