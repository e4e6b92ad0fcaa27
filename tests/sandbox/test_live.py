"""The swarm's parts, small and real."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

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
from sottovoce.sandbox.swarm import Noise, SwarmPlan, simulate_from, training_of
from sottovoce.simulation import Simulation, simulate
from sottovoce.training import Settings, first_items
from sottovoce_lab.bench.live.bench_server import BenchServer
from tests.client.world import FakeProxy, World, item
from tests.sandbox.test_demo_parts import Time


def catalogue_of(*ids: str) -> Catalogue:
    return Catalogue.of(Item(name, "A film") for name in ids)


def test_people_are_numbered_by_the_catalogue() -> None:
    data = Interactions.from_lists("tiny", [[0, 1, 2], [2], [1, 3]], n_items=4)
    data = replace(data, timestamps=np.arange(6) * 10)
    found = on_catalogue(data, catalogue_of("9", "2", "1", "0"))
    assert [found.histories[user].tolist() for user in range(3)] == [[1, 2, 3], [1], [2]]
    assert found.timestamps is not None
    assert found.timestamps.tolist() == [20, 10, 0, 30, 40]
    assert found.histories.n_items == 4
    assert found.item_ids.tolist() == ["9", "2", "1", "0"]


def test_a_catalogue_of_other_things_is_refused() -> None:
    data = Interactions.from_lists("tiny", [[0, 1]], n_items=2)
    with pytest.raises(DataError, match="none of its 2 items is in the catalogue"):
        on_catalogue(data, catalogue_of("a", "b"))


def test_devices_are_not_told_what_their_owners_are_tested_on() -> None:
    data = synthetic_people(n_users=40, n_items=30)
    catalogue = catalogue_of(*(str(number) for number in data.item_ids))
    people = choose_people(data, catalogue, 12, split="latest", seed=1)
    test = people.candidates.split.test
    assert people.train.n_users == 12
    for user in range(12):
        known = people.items_of(user)
        whole = people.data.histories[user]
        assert len(known) == len(whole) - 1
        assert catalogue.items[test[user]].id not in known
        assert {catalogue.numbers[name] for name in known} | {test[user]} == set(whole)


def test_the_simulator_beside_a_swarm_is_the_simulator() -> None:
    data = synthetic_people(n_users=60, n_items=30)
    settings = Settings.preset("loudest", reports=5, epochs=2, factors=2, seed=3)
    expected = simulate(data, Simulation(settings, tags=False)).epochs
    catalogue = catalogue_of(*(str(number) for number in data.item_ids))
    people = choose_people(data, catalogue, 60, split="random", seed=3)
    same, other = simulate_from(first_items(settings, 30), 0, settings, people, 2)
    assert [each["hr@10"] for each in same] == [each["hr@10"] for each in expected]
    assert same != other


def test_noise_of_one_run_has_no_distance() -> None:
    assert Noise.of([0.5]).distance(0.7) is None
    assert Noise.of([1.0, 2.0, 3.0]).distance(4.0) == 2.0


@pytest.mark.parametrize("preset", ["paper", "loudest"])
def test_settings_come_back_from_a_manifest(tmp_path: Path, preset: str) -> None:
    bench = BenchServer.make(tmp_path, items=30, reports=7)
    manifest = bench.signed.manifest
    assert training_of(manifest, 3) == training_of(manifest, 3, Settings(reports=7))
    known = training_of(manifest, 3, Settings.preset(preset))
    rate = Settings.preset(preset).learning_rate
    assert (known.reports, known.epochs, known.learning_rate) == (7, 3, rate)
    assert known.build(30) == Settings(reports=7).build(30)


@pytest.mark.parametrize("name", ["clients", "epochs", "processes"])
def test_a_swarm_of_nothing_is_refused(name: str) -> None:
    plan = SwarmPlan("http://127.0.0.1:1", bytes(32), clients=1, epochs=1, processes=1)
    nothing: dict[str, Any] = {name: 0}
    with pytest.raises(SettingsError, match=f"{name} must be at least 1, not 0"):
        replace(plan, **nothing)


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


def test_what_no_retry_mends_is_counted_as_failed(tmp_path: Path) -> None:
    world = open_now()
    other = FakeProxy(open_now())
    world.create(tmp_path / "c").close()
    result = sync_one(tmp_path / "c", other, 10.0)
    assert (result.outcome, result.tries) == ("failed", 1)
    assert result.problem.startswith("UntrustedError: ")


def test_public_files_are_fetched_once_for_all(tmp_path: Path) -> None:
    world = open_now()
    proxy = FakeProxy(world)
    shared = SharedDownloads(proxy)
    for number in range(3):
        with world.create(tmp_path / str(number)) as client:
            client.record([item(number)])
        assert sync_one(tmp_path / str(number), shared, 1.0).outcome == "sent"
    counts = {call: proxy.calls.count(call) for call in proxy.calls}
    assert counts == {"manifest": 3, "model": 1, "catalogue": 1, "send": 3}


def test_the_next_epoch_is_waited_for() -> None:
    world, passing = World(), Time(0.0)
    proxy = FakeProxy(world)
    reader = PublicReader(proxy, world.verification_key, clock=passing.clock, sleep=passing.sleep)
    assert np.array_equal(reader.edition(reader.manifest()).V, world.items(1))

    def move_on(_: str) -> None:
        if passing.now > 5:
            proxy.publish(world.signed(2))

    proxy.before = move_on
    assert reader.after(1, 10.0).manifest.epoch == 2
    with pytest.raises(UnavailableError, match="epoch 2 was not applied within 7 seconds"):
        reader.after(2, 7.0)
