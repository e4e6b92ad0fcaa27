"""`sottovoce server status`: what it says is so, on either database, with or without a worker."""

import logging
import re
from contextlib import suppress
from dataclasses import replace

import pytest

from sottovoce.cli.server import describe_status
from sottovoce.errors import RefusedError
from sottovoce.protocol import Item
from sottovoce.protocol.contact import CROWD_ENOUGH, CROWD_NONE, CROWD_SHORT, Contact
from sottovoce.server import Keys
from sottovoce.server.administration import begin_training, go_beyond
from sottovoce.server.key_chain import rotate_keys
from sottovoce.server.settings import ProxyAccess
from sottovoce.server.status import ServerStatus
from sottovoce.server.transaction import PROCESS_TIMEOUT_SECONDS
from sottovoce.service.watch import ProcessState
from sottovoce.training import Participation
from tests.server.changes import change_catalogue, with_added
from tests.server.world import ITEMS, KEYS, TRAINING, MakeWorld, World


def test_with_accounts_it_says_whom_the_promise_is_for(make_world: MakeWorld, url: str) -> None:
    for accounts in (False, True):
        terms = Participation(least_clients=1, accounts=accounts)
        world = make_world(url, terms=terms, proxies={"one": ProxyAccess("ab" * 32)})
        world.server.prepare()
        assert ("what devices promise is for one account" in look(world)[0]) == accounts


def test_what_it_says_of_an_epoch_and_of_what_comes_next(world: World) -> None:
    said, problems = look(world)
    assert "No epoch yet" in said
    assert problems == []
    world.server.tick()
    said, problems = look(world, after=10)
    assert "Epoch 1 of training 1 is open since" in said
    assert "Training 1 has learnt from 0 epochs; 3 are left." in said
    assert problems == []
    change_catalogue(world.store, lambda known: with_added(known, [Item("new", "New")]))
    assert "Lists have it once a worker signs it" in look(world)[0]
    world.server.tick()
    assert "Lists have it already" in look(world)[0]
    begin_training(world.store, world.settings, random_start=False)
    said, _ = look(world)
    assert f"Catalogue version 2: {ITEMS + 1} items" in said
    assert "Training 2 begins after this epoch." in said
    go_beyond(world.store, 57, world.now, world.settings.proxies)
    assert "Epoch 1 of training 1 is over, since" in look(world)[0]


@pytest.fixture
def world(make_world: MakeWorld, url: str) -> World:
    found = make_world(url, terms=Participation(least_clients=2, hold=1000))
    found.server.prepare()
    return found


def look(world: World, after: float = 0.0) -> tuple[str, list[str]]:
    """All that is said, and what needs attention."""
    found = ServerStatus.read(world.store, world.settings, world.now + after, ProcessState(0.0))
    assert found.to_dict()["problems"] == found.problems
    return "\n".join(describe_status(found, world.settings)), found.problems


def test_what_an_epoch_waits_for(world: World) -> None:
    world.server.tick()
    for proxy in ("east", "west"):
        world.contact(proxy, world.get_signed())
    world.now = world.get_signed().manifest.closes
    said, problems = look(world)
    assert "waits for a crowd of 2 people: no proxy has one." in said
    assert "It has heard nothing of this epoch from east, west." in said
    assert problems == []  # they still have time
    _, problems = look(world, after=61)
    assert problems == ["proxies that have not said what they hold: east, west"]
    world.report_crowds(world.get_signed(), east=CROWD_SHORT, west=CROWD_NONE)
    said, problems = look(world)
    assert "waits for a crowd of 2 people at east." in said
    assert "closed at 1970-01-01 00:35:00Z (in 16 min 40 s) in any case" in said
    assert "`sottovoce server epoch close`" in said
    _, problems = look(world, after=101)
    assert ["least_clients" in problem for problem in problems] == [True]


def test_each_worker_says_what_another_heard_of_a_proxy(world: World) -> None:
    """And that it is mended, or not asked for any more."""
    world.server.tick()
    other = world.add_worker()
    ahead = Contact(57, bytes(32), None, world.now, None)
    with pytest.raises(RefusedError):
        world.server.handle_contact("east", ahead)
    for worker in (world, other):
        worker.server.tick()
        assert "go-beyond 57" in worker.server.troubles.texts[0]
        assert b"refused_proxies 1.0" in worker.server.render_metrics()
    other.contact("east", world.get_signed())
    for worker in (world, other):
        worker.server.tick()
        assert worker.server.troubles.texts == []
    with pytest.raises(RefusedError):
        world.server.handle_contact("east", ahead)
    alone = world.add_worker(proxies={"west": world.settings.proxies["west"]})
    alone.server.tick()
    assert alone.server.troubles.texts == []
    assert b"refused_proxies 0.0" in alone.server.render_metrics()


def test_two_machines_with_one_secret_are_noticed(world: World) -> None:
    """A restart is none, and whoever only asks is nobody. One of them goes on: the oldest."""
    world.server.tick()

    def speak(process: str | None) -> bool:
        signed = world.get_signed()
        said = Contact(signed.manifest.epoch, signed.hash, None, world.now, process)
        world.now += 1
        with suppress(RefusedError):
            world.server.handle_contact("east", said)
            return True
        return False

    def problems() -> list[str]:
        return [each for each in look(world)[1] if "two processes speak as proxy east" in each]

    assert all(speak(process) for process in ("a", "a", None, "b", None, "b", "c", "c"))
    assert problems() == []
    assert all(speak(process) for process in ("d", "c")), "a copy of c is not known for one yet"
    assert [speak(process) for process in ("d", "c", "e", "c", None, "e", "d")] == [
        0,
        1,
        1,
        1,
        1,
        0,
        0,
    ]
    assert problems()
    assert b"refused_proxies 1.0" in world.server.render_metrics()
    for _ in range(3):  # c has stopped for good, and an operator only looks
        world.now += PROCESS_TIMEOUT_SECONDS / 2
        assert speak(None)
    assert speak("d")
    world.now += PROCESS_TIMEOUT_SECONDS
    assert speak("d")
    assert problems() == []


def test_a_proxy_with_another_database_is_noticed(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """What its old one acknowledged may wait there, until the epoch is applied."""
    first, second = ("0123456789abcdef", "fedcba9876543210")

    def speak(database: str | None) -> list[str]:
        signed = world.get_signed()
        said = Contact(signed.manifest.epoch, signed.hash, None, world.now, None, None, database)
        world.server.handle_contact("east", said)
        world.server.tick()
        return [each for each in look(world)[1] if first in each]

    world.server.tick()
    assert speak(None) == speak(first) == speak(None) == []
    for _ in range(2):
        (problem,) = speak(second)
        assert second in problem
    assert len([line for line in caplog.messages if second in line]) == 1
    assert speak(first) == [], "its old folder is back"
    assert speak(second) != []
    assert speak(None) != [], "somebody only asks"
    signed = world.close_epoch()
    world.apply(signed)
    assert speak(second) == [], "the epoch is over"
    world.close_epoch()
    world.commit("east", world.get_signed())
    assert speak(first) == [], "nothing of the epoch waits in any database"


def test_a_worker_that_does_nothing_is_noticed(world: World) -> None:
    """Nothing is in the way, and nobody goes on: five beats of five seconds are enough."""
    idle = (
        "epoch 1 could be {}, and no worker does it; does one run, with the newest keys file, and "
        "what does its log say?"
    )
    world.server.tick()
    signed = world.get_signed()
    world.now = signed.manifest.closes
    for proxy, crowd in (("east", CROWD_ENOUGH), ("west", CROWD_NONE)):
        world.contact(proxy, signed, crowd)
    assert look(world)[1] == []
    assert look(world, after=24)[1] == []
    assert look(world, after=25)[1] == [idle.format("closed")]
    world.server.tick()
    said, _ = look(world)
    assert "waits for east, west to hand in, until" in said
    assert look(world, after=74)[1] == []
    assert look(world, after=75)[1] == [idle.format("applied")]
    for proxy in ("east", "west"):
        world.commit(proxy, signed)
    assert look(world, after=24)[1] == []
    assert look(world, after=25)[1] == [idle.format("applied")]


def test_what_was_counted_and_dropped(world: World, caplog: pytest.LogCaptureFixture) -> None:
    signed = world.close_epoch()
    chunk = world.make_chunk(signed, 10)
    with caplog.at_level(logging.INFO, "sottovoce"):
        world.apply(signed, chunk, replace(chunk, sealed=chunk.sealed[: len(chunk.sealed) // 2]))
    assert "epoch 1: 10 reports are counted; proxies that handed in: 1 of 2" in caplog.messages
    said, (problem,) = look(world)
    assert "Epoch 1 counted 10 reports; dropped: 5 came twice." in said
    assert problem.startswith("epoch 1: 5 reports")
    world.apply(world.close_epoch())
    assert look(world)[1][0].startswith("epoch 2 came to nothing")


def test_settings_with_which_no_worker_could_start(world: World) -> None:
    """Those that run would not notice; what may be changed is no problem."""
    world.server.tick()
    world.settings = replace(world.settings, training=replace(TRAINING, half_life=7.0))
    assert look(world)[1] == []
    with world.store.read() as transaction:
        training = transaction.find_training()
    assert training is not None
    assert training.settings == TRAINING, "looking changes nothing"
    world.settings = replace(world.settings, training=replace(TRAINING, epsilon=7.0))
    (problem,) = look(world)[1]
    assert "training.epsilon" in problem
    begin_training(world.store, world.settings, random_start=False)
    assert look(world)[1] == []
    world.settings = replace(world.settings, training=TRAINING)
    assert "`sottovoce server training begin --cancel`" in look(world)[1][0]


def test_keys_that_belong_elsewhere(world: World) -> None:
    world.server.tick()
    path = world.settings.keys
    path.unlink()
    assert "`sottovoce server init`" in look(world)[1][0]
    Keys.generate().write(path)
    (problem,) = look(world)[1]
    assert str(path) in problem
    assert "`sottovoce server init`" not in problem, "it is there"
    replace(KEYS, wrapping=bytes(32)).replace(path)
    path.chmod(0o600)
    assert re.search(r"\b1\b", look(world)[1][0]), "the epoch whose key they do not open"
    KEYS.rotate().replace(path)
    path.chmod(0o600)
    said, problems = look(world)
    assert "(replaced 1 time; made 20" in said
    assert "newer key, which signs from the next epoch on" in said
    assert problems == []
    rotate_keys(world.store, path)
    newest = Keys.read(path).verification_key.hex()
    KEYS.replace(path)
    assert newest in look(world)[1][0], "a copy from before"
