"""An article is withdrawn in the middle of a long epoch: real stores, requests and devices."""

from pathlib import Path

from sottovoce.client import Client
from tests.live.stack import Stack, running
from tests.server.changes import change_catalogue

WEEK = 7 * 86_400
BEATS = 5 + 10 + 10 + 30
"""Seconds: of a server, of a proxy, of a cache, between two looks of a device."""


def listed(stack: Stack, client: Client) -> set[str]:
    client.look(stack.gates["east"].api(), sleep=lambda _: None)
    return {item.id for item in client.recommend(1_000)}


def test_it_is_on_no_list_within_a_minute(tmp_path: Path) -> None:
    assert BEATS < 60
    with running(tmp_path, "east", epoch_seconds=WEEK) as stack:
        client = stack.client("ann", ["film-1", "film-7"])
        assert "film-5" in listed(stack, client)
        change_catalogue(stack.world.store, remove=["film-5"])
        stack.world.now += BEATS
        stack.beat()
        stack.gates["east"].beat()
        assert "film-5" not in listed(stack, client)
        assert client.sync(stack.gates["east"].api(), jitter=0).outcome == "sent"
        assert stack.world.get_signed().manifest.epoch == 1
