"""The swarm's parts, and the settings files of a system, small and real."""

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sottovoce.data import Interactions, synthetic_people
from sottovoce.errors import DataError, SettingsError, UnavailableError
from sottovoce.protocol import Catalogue, Item
from sottovoce.sandbox.devices import (
    PublicReader,
    SharedDownloads,
    choose_people,
    on_catalogue,
    sync_one,
)
from sottovoce.sandbox.system import set_values
from tests.client.world import FakeProxy, World, item
from tests.sandbox.test_demo import Time


def catalogue_of(*ids: str) -> Catalogue:
    return Catalogue.from_items(Item(name, "A film") for name in ids)


def test_people_are_numbered_by_the_catalogue() -> None:
    data = Interactions.from_lists("tiny", [[0, 1, 2], [2], [1, 3]], n_items=4)
    data = replace(data, timestamps=np.arange(6) * 10)
    found = on_catalogue(data, catalogue_of("9", "2", "1", "0"))
    assert [found.histories[user].tolist() for user in range(3)] == [[1, 2, 3], [1], [2]]
    assert found.timestamps is not None
    assert found.timestamps.tolist() == [20, 10, 0, 30, 40]
    assert found.histories.n_items == 4
    assert found.item_ids.tolist() == ["9", "2", "1", "0"]
    with pytest.raises(DataError):
        on_catalogue(data, catalogue_of("a", "b"))


def test_devices_are_not_told_what_their_owners_are_tested_on() -> None:
    data = synthetic_people(n_users=40, n_items=30)
    catalogue = catalogue_of(*(str(number) for number in data.item_ids))
    people = choose_people(data, catalogue, 12, seed=1)
    test = people.candidates.split.test
    assert people.train.n_users == 12
    for user in range(12):
        known = people.items_of(user)
        whole = people.data.histories[user]
        assert len(known) == len(whole) - 1
        assert catalogue.items[test[user]].id not in known
        assert {catalogue.numbers[name] for name in known} | {test[user]} == set(whole)


def open_now() -> World:
    now = int(time.time())
    return World(opens=now - 100, closes=now + 1000)


def test_a_busy_proxy_is_tried_again_and_the_batch_is_made_once(tmp_path: Path) -> None:
    world, passing = open_now(), Time(0.0)
    proxy = FakeProxy(world)
    busy = iter([True, True, False])

    def refuse(call: str) -> None:
        if call == "send" and next(busy):
            raise UnavailableError("429")

    proxy.before = refuse
    world.create(tmp_path / "c").close()
    result = sync_one(tmp_path / "c", proxy, 10.0, clock=passing.clock, sleep=passing.sleep)
    assert (result.outcome, result.tries, result.spent) == ("sent", 3, 10.0)
    assert passing.slept == [0.1, 0.2]
    assert len(proxy.received) == 1


def test_a_proxy_that_stays_away_is_given_up(tmp_path: Path) -> None:
    world, passing = open_now(), Time(0.0)
    proxy = FakeProxy(world)

    def refuse(call: str) -> None:
        raise UnavailableError(f"no {call}")

    proxy.before = refuse
    world.create(tmp_path / "c").close()
    result = sync_one(tmp_path / "c", proxy, 10.0, clock=passing.clock, sleep=passing.sleep)
    assert (result.outcome, result.spent, result.problem) == ("unavailable", 0.0, "no manifest")
    assert sum(passing.slept) <= 10.0
    assert result.tries > 5


def test_public_files_are_fetched_once_for_all(tmp_path: Path) -> None:
    world = open_now()
    proxy = FakeProxy(world)
    shared = SharedDownloads(proxy)
    for number in range(3):
        with world.create(tmp_path / str(number)) as client:
            client.record([item(number)])
        assert sync_one(tmp_path / str(number), shared, 1.0).outcome == "sent"
    counts = {call: proxy.calls.count(call) for call in proxy.calls}
    each = dict.fromkeys(("manifest", "shelf", "taken?", "send"), 3)
    assert counts == {**each, "model": 1, "catalogue": 1}


def test_the_next_epoch_is_waited_for() -> None:
    world, passing = World(), Time(0.0)
    proxy = FakeProxy(world)
    reader = PublicReader(proxy, world.verification_key, clock=passing.clock, sleep=passing.sleep)
    assert np.array_equal(reader.release(reader.manifest()).V, world.items(1))

    def move_on(_: str) -> None:
        if passing.now > 5:
            proxy.publish(world.signed(2))

    proxy.before = move_on
    assert reader.after(1, 10.0).manifest.epoch == 2
    with pytest.raises(UnavailableError):
        reader.after(2, 7.0)


SHOWN = """\
# a = 1
a = 2  # why a
[t]
# b = 3  # why b

# text of u
[u]
d = "x # y"
"""


@pytest.mark.parametrize(
    ("place", "value", "line", "new"),
    [
        (("", "a"), 5, "a = 2  # why a", "a = 5  # why a"),
        (("t", "b"), 'a "name"', "# b = 3  # why b", 'b = "a \\"name\\""  # why b'),
        (("u", "d"), False, 'd = "x # y"', "d = false"),
        (("u", "e"), 6, 'd = "x # y"', 'd = "x # y"\ne = 6'),
        (("new", "f"), 7, 'd = "x # y"', 'd = "x # y"\n\n[new]\nf = 7'),
        (("u", "d"), None, "", ""),
    ],
)
def test_values_are_set_in_their_place(
    tmp_path: Path, place: tuple[str, str], value: object, line: str, new: str
) -> None:
    path = tmp_path / "settings.toml"
    path.write_text(SHOWN)
    set_values(path, {place: value})
    assert path.read_text() == SHOWN.replace(f"\n{line}\n", f"\n{new}\n")
    path.write_text("a = \n")
    with pytest.raises(SettingsError):
        set_values(path, {place: value})
    assert path.read_text() == "a = \n"
