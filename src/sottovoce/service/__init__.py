"""What proxy and server have in common: settings from TOML, HTTP without surprises, a heartbeat."""

from sottovoce.service.heartbeat import Heartbeat
from sottovoce.service.http import epoch_of, errors_as_problems, hash_of, problem, read_body
from sottovoce.service.run import Listen, run
from sottovoce.service.toml import read_settings

__all__ = [
    "Heartbeat",
    "Listen",
    "epoch_of",
    "errors_as_problems",
    "hash_of",
    "problem",
    "read_body",
    "read_settings",
    "run",
]
