"""An item is withdrawn in the middle of a long epoch: real stores, requests and devices."""

from pathlib import Path

from sottovoce.client import Client
from tests.live.stack import Stack, run_stack
from tests.server.changes import change_catalogue

WEEK_SECONDS = 7 * 86_400
# Of a server, of a proxy, of a cache, and between two looks of a device.
MAX_DELAY_SECONDS = 5 + 10 + 10 + 30


def list_items(stack: Stack, client: Client) -> set[str]:
    client.look(stack.gates["east"].make_api(), sleep=lambda _: None)
    return {item.id for item in client.recommend(1_000)}


def test_withdrawn_item_is_on_no_list_after_a_minute(tmp_path: Path) -> None:
    assert MAX_DELAY_SECONDS < 60
    with run_stack(tmp_path, "east", epoch_seconds=WEEK_SECONDS) as stack:
        client = stack.add_client("ann", ["film-1", "film-7"])
        assert "film-5" in list_items(stack, client)
        change_catalogue(stack.world.store, remove=["film-5"])
        stack.world.now += MAX_DELAY_SECONDS
        stack.tick()
        stack.gates["east"].tick()
        assert "film-5" not in list_items(stack, client)
        assert client.sync(stack.gates["east"].make_api(), jitter=0).outcome == "sent"
        assert stack.world.get_signed().manifest.epoch == 1
