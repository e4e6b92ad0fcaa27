"""A training of names: from devices over a proxy to the server, and back to their lists."""

from contextlib import suppress
from pathlib import Path

import numpy as np

from sottovoce.client import Client
from sottovoce.errors import UnavailableError
from sottovoce.protocol import Item
from sottovoce.server.administration import go_beyond
from sottovoce.server.status import ServerStatus
from sottovoce.server.store import back_up
from sottovoce.training import Settings
from tests.live.stack import Stack, run_stack
from tests.live.test_restore import restore_database
from tests.server.changes import change_catalogue, read_pending

# At this epsilon a report is the name, except with a probability below 1e-7.
TRAINING = Settings.preset("named", epsilon=20.0, epochs=50, half_life=0.5)
DEVICE_NAMES = ("ann", "ben", "cat")


def report(stack: Stack, item: str) -> None:
    """Let everybody touch this item last, on devices that are read from the disk; end the epoch."""
    for name in DEVICE_NAMES:
        device = stack.folder / "clients" / name
        if not device.exists():
            stack.add_client(name, ["film-1"]).close()
        with Client.open(device, clock=stack.read_clock) as client:
            client.record([item])
            assert client.sync(stack.gates["east"].make_api(), jitter=0).outcome == "sent"
    stack.end_epoch()


def list_for_a_newcomer(stack: Stack, name: str) -> list[str]:
    """Return the first items of the list of a device without a history, which never reports."""
    client = stack.add_client(name, [])
    client.pause()
    client.sync(stack.gates["east"].make_api(), jitter=0)
    return [one.id for one in client.recommend(2)]


def test_names_are_learnt_also_of_a_new_item_and_after_a_restore(folder: Path) -> None:
    changes = {"training": TRAINING, "min_clients": 2}
    with run_stack(folder, "east", **changes) as stack:
        report(stack, "film-3")
        assert list_for_a_newcomer(stack, "first")[0] == "film-3"
        back_up(stack.world.settings.database, folder / "b", with_key=False)
        change_catalogue(stack.world.store, add=[Item("new", "New")])
        report(stack, "film-5")
        # The new item can be named in the epoch after it came, and has no handicap against items
        # that were named as often before.
        report(stack, "new")
        assert list_for_a_newcomer(stack, "second") == ["new", "film-5"]
        now = stack.world.now
    restore_database(folder / "b", folder / "server.sqlite")
    # The half-life may change while a training runs.
    changes["training"] = TRAINING.copy_with(half_life=4.0)
    with run_stack(folder, "east", now=now, **changes) as stack:
        with suppress(UnavailableError):
            stack.gates["east"].tick()
        go_beyond(stack.world.store, None, stack.world.now, ["east"])
        stack.hand_in()
        assert read_pending(stack.world.store).training.settings.half_life == 4.0
        # What was named before the backup is still known.
        assert np.argmax(stack.load_model()[:, 0]) == 3
        assert list_for_a_newcomer(stack, "third")[0] == "film-3"
        report(stack, "film-5")
        report(stack, "film-5")
        assert list_for_a_newcomer(stack, "fourth") == ["film-5", "film-3"]
        status = ServerStatus.read(stack.world.store, stack.world.settings, stack.world.now, "")
        assert status.to_dict()["next"]["learns"] == "names"
        assert not any("names" in problem for problem in status.problems)
