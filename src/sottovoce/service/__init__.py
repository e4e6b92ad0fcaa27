"""What proxy and server have in common: settings from TOML, HTTP without surprises, a heartbeat."""

from sottovoce.service.http import (
    epoch_of,
    errors_as_problems,
    hash_of,
    header,
    problem,
    problem_of,
    read_body,
)
from sottovoce.service.listen import Listen, TurnedAway, Watch
from sottovoce.service.page import Content, page_routes
from sottovoce.service.run import Heartbeat, build_watch, run
from sottovoce.service.toml import read_settings

__all__ = [
    "Content",
    "Heartbeat",
    "Listen",
    "TurnedAway",
    "Watch",
    "build_watch",
    "epoch_of",
    "errors_as_problems",
    "hash_of",
    "header",
    "page_routes",
    "problem",
    "problem_of",
    "read_body",
    "read_settings",
    "run",
]
