"""What proxy and server have in common: settings from TOML, HTTP without surprises, a heartbeat."""

from sottovoce.service.heartbeat import Heartbeat
from sottovoce.service.http import (
    epoch_of,
    errors_as_problems,
    hash_of,
    header,
    problem,
    problem_of,
    read_body,
)
from sottovoce.service.listen import Listen, Watch
from sottovoce.service.run import run
from sottovoce.service.toml import read_settings
from sottovoce.service.turned_away import TurnedAway
from sottovoce.service.watch import build_watch

__all__ = [
    "Heartbeat",
    "Listen",
    "TurnedAway",
    "Watch",
    "build_watch",
    "epoch_of",
    "errors_as_problems",
    "hash_of",
    "header",
    "problem",
    "problem_of",
    "read_body",
    "read_settings",
    "run",
]
