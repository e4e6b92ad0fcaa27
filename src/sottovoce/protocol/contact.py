"""What a proxy and its server tell one another at every beat: where they are, and what time it is.

So each of them notices at once that the other was restored from a backup, that the secret is not
known, or that a clock is wrong: before anybody has paid for a report that cannot be counted.
"""

import json
from dataclasses import asdict, dataclass, fields
from math import nan
from secrets import token_hex
from typing import Any, Literal, Self, get_args

from sottovoce.errors import ProtocolError
from sottovoce.protocol import strict
from sottovoce.protocol.manifest import MAX_EPOCH, Manifest

Crowd = Literal["none", "short", "enough", "never"]
"""What a proxy says of the batches that it holds: one of four words, never a number."""
NONE: Crowd = "none"
SHORT: Crowd = "short"
"""Some, and too few to mix."""
ENOUGH: Crowd = "enough"
NEVER: Crowd = "never"
"""Too few accounts have a token of this epoch."""

State = Literal["none", "open", "closed", "applied"]
"""Of the epoch that a proxy names; none: it has no epoch yet."""

MAX_JSON = 4096
"""Bytes of what either says to the other, besides files and chunks."""
NOTICED = 60.0
"""Seconds that two clocks may differ before somebody is told."""
DAY = 86_400.0
MONTH = 30 * DAY
_LATEST = 1e12
_HASHES = ("manifest", "token_key")
_PROCESS = 8
"""Bytes of a process's name."""


def new_process() -> str:
    return token_hex(_PROCESS)


def crowd_of(batches: int, least: int) -> Crowd:
    """What to say of so many batches, where `least` of them are a crowd."""
    return ENOUGH if batches >= least else SHORT if batches else NONE


@dataclass(frozen=True)
class Contact:
    """From the proxy."""

    epoch: int
    """That its clients are shown; 0 before the first."""
    manifest: bytes | None
    """The hash of its manifest."""
    crowd: Crowd | None
    """None before the epoch's time: nobody shall know it then."""
    time: float
    """By its clock, Unix seconds."""
    process: str | None
    """Drawn when it started, so that two with one secret are noticed; None: it only asks."""
    token_key: bytes | None = None
    """The public key for the tokens of an epoch to come; no manifest has named it yet."""

    def encode(self) -> bytes:
        told = asdict(self)
        for name in _HASHES:
            told[name] = None if told[name] is None else told[name].hex()
        return json.dumps(told).encode()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        given = strict.read_object(data, most=MAX_JSON, what="contact")
        strict.exact_keys(given, {field.name for field in fields(cls)}, "contact")
        epoch = strict.whole(given["epoch"], least=0, most=MAX_EPOCH, what="contact: epoch")
        manifest, crowd, process = given["manifest"], given["crowd"], given["process"]
        if (manifest is None) != (epoch == 0):
            raise ProtocolError("contact: an epoch has a manifest, and none has none")
        hashes = {
            name: None
            if given[name] is None
            else strict.hexadecimal(given[name], what=f"contact: {name}")
            for name in _HASHES
        }
        if crowd is not None:
            crowd = _one_of(crowd, get_args(Crowd), "contact: crowd")
        if process is not None:
            strict.hexadecimal(process, what="contact: process", size=_PROCESS)
        return cls(epoch, crowd=crowd, time=_time(given["time"]), process=process, **hashes)


@dataclass(frozen=True)
class Reply:
    """From the server; it refuses instead if it could never count that epoch."""

    state: State
    time: float
    """By its clock."""

    def encode(self) -> bytes:
        return json.dumps({"state": self.state, "time": self.time}).encode()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        given = strict.read_object(data, most=MAX_JSON, what="reply")
        strict.exact_keys(given, {"state", "time"}, "reply")
        state = _one_of(given["state"], get_args(State), "reply: state")
        return cls(state, _time(given["time"]))


def borne(manifest: Manifest | None) -> float:
    """Seconds that a proxy's clock may differ from the server's before it takes nothing more.

    One that is ahead by more than the hold would end an epoch before its time, one that is behind
    would take reports that the server no longer waits for. A day is enough for any mistake that an
    operator will leave.
    """
    hold = 0 if manifest is None else manifest.terms.hold
    return max(NOTICED, min(hold, DAY))


def apart(ahead: float, who: str, whose: str) -> str | None:
    """What to say of a clock that is so many seconds ahead; None: nothing.

    >>> apart(-7500.0, "this proxy's clock", "the server's")
    "this proxy's clock is 2 hours behind the server's; set both by NTP"
    """
    if abs(ahead) <= NOTICED:
        return None
    sizes = {"days": 86_400, "hours": 3_600, "minutes": 60}
    unit = next((name for name, size in sizes.items() if abs(ahead) >= 2 * size), "minutes")
    number = max(int(abs(ahead) // sizes[unit]), 1)
    about = f"{number} {unit if number > 1 else unit[:-1]}"
    return f"{who} is {about} {'ahead of' if ahead > 0 else 'behind'} {whose}; set both by NTP"


def _one_of(given: object, known: tuple[str, ...], what: str) -> Any:
    if given not in known:
        raise ProtocolError(f"{what}: one of {', '.join(known)}, not {strict.shown(given)}")
    return given


def _time(given: object) -> float:
    """Also of a clock that is wrong by decades."""
    try:
        known = float(given) if type(given) in (int, float) else nan  # type: ignore[arg-type]
    except OverflowError:
        known = nan
    if not -_LATEST <= known <= _LATEST:
        raise ProtocolError(f"time: Unix seconds, not {strict.shown(given)}")
    return known
