"""`sottovoce server status`: its text and the list of problems, on both databases."""

import logging
import re
from contextlib import suppress
from dataclasses import replace

import pytest

from sottovoce.cli.server_status import describe_status
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
from tests.server.changes import change_catalogue
from tests.server.world import ITEMS, KEYS, TRAINING, MakeWorld, World


def test_with_accounts_the_promise_is_for_one_account(make_world: MakeWorld, url: str) -> None:
    for accounts in (False, True):
        terms = Participation(min_clients=1, accounts=accounts)
        world = make_world(url, terms=terms, proxies={"one": ProxyAccess("ab" * 32)})
        world.server.prepare()
        assert ("privacy promise holds for an account" in look(world)[0]) == accounts


def test_the_status_describes_the_epoch_and_what_follows(world: World) -> None:
    text, problems = look(world)
    assert "No epoch yet" in text
    assert problems == []
    world.server.tick()
    text, problems = look(world, after=10)
    assert "Epoch 1 of training 1 is open since" in text
    assert "Training 1 has learnt taste from 0 epochs; 3 are left." in text
    assert problems == []
    change_catalogue(world.store, add=[Item("new", "New")])
    assert "for lists as soon as a worker has signed it" in look(world)[0]
    world.server.tick()
    assert "for lists now" in look(world)[0]
    begin_training(world.store, world.settings, random_start=False)
    text, _ = look(world)
    assert f"Catalogue version 2: {ITEMS + 1} items" in text
    assert "Training 2 begins after this epoch." in text
    go_beyond(world.store, 57, world.now, world.settings.proxies)
    assert "Epoch 1 of training 1 is over, since" in look(world)[0]


@pytest.fixture
def world(make_world: MakeWorld, url: str) -> World:
    world = make_world(url, terms=Participation(min_clients=2, hold=1000))
    world.server.prepare()
    return world


def look(world: World, after: float = 0.0) -> tuple[str, list[str]]:
    """Return the text of the status after that many seconds, and the problems."""
    status = ServerStatus.read(world.store, world.settings, world.now + after, ProcessState(0.0))
    assert status.to_dict()["problems"] == status.problems
    return "\n".join(describe_status(status, world.settings)), status.problems


def test_the_status_names_what_an_epoch_waits_for(world: World) -> None:
    world.server.tick()
    for proxy in ("east", "west"):
        world.contact(proxy, world.get_signed())
    world.now = world.get_signed().manifest.closes
    text, problems = look(world)
    assert "waits for reports of 2 people: no proxy has as many." in text
    assert "No contact in this epoch from these proxies: east, west." in text
    assert problems == [], "they still have time"
    _, problems = look(world, after=61)
    assert problems == ["proxies that have not said what they hold: east, west"]
    world.report_crowds(world.get_signed(), east=CROWD_SHORT, west=CROWD_NONE)
    text, problems = look(world)
    assert "waits for reports of 2 people at each of these proxies: east." in text
    assert "closed at 1970-01-01 00:35:00Z (in 16 min 40 s) in any case" in text
    assert "`sottovoce server epoch close`" in text
    _, problems = look(world, after=101)
    assert ["min_clients" in problem for problem in problems] == [True]


def test_every_worker_reports_the_problem_of_a_proxy(world: World) -> None:
    # A worker also reports what another one has heard, and when it is over.
    world.server.tick()
    other = world.add_worker()
    ahead = Contact(57, bytes(32), None, world.now, None)
    with pytest.raises(RefusedError):
        world.server.handle_contact("east", ahead)
    for worker in (world, other):
        worker.server.tick()
        assert "go-beyond 57" in worker.server.troubles.texts[0]
        assert b'problem{name="proxy"} 1.0' in worker.server.render_metrics()
    other.contact("east", world.get_signed())
    for worker in (world, other):
        worker.server.tick()
        assert worker.server.troubles.texts == []
    with pytest.raises(RefusedError):
        world.server.handle_contact("east", ahead)
    west_only = world.add_worker(proxies={"west": world.settings.proxies["west"]})
    west_only.server.tick()
    assert west_only.server.troubles.texts == []
    assert b'problem{name="proxy"} 0.0' in west_only.server.render_metrics()


def test_two_machines_with_one_secret_are_noticed(world: World) -> None:
    # A restart is not noticed, nor a process that only asks. The oldest one goes on.
    world.server.tick()

    def speak(process: str | None) -> bool:
        signed = world.get_signed()
        contact = Contact(signed.manifest.epoch, signed.hash, None, world.now, process)
        world.now += 1
        with suppress(RefusedError):
            world.server.handle_contact("east", contact)
            return True
        return False

    def has_problem() -> bool:
        return any(
            "two processes use the secret of proxy east" in problem for problem in look(world)[1]
        )

    assert all(speak(process) for process in ("a", "a", None, "b", None, "b", "c", "c"))
    assert not has_problem()
    assert all(speak(process) for process in ("d", "c")), "nobody knows yet that c has a copy"
    processes = ("d", "c", "e", "c", None, "e", "d")
    assert [speak(process) for process in processes] == [0, 1, 1, 1, 1, 0, 0]
    assert has_problem()
    world.server.tick()
    assert b'problem{name="proxy"} 1.0' in world.server.render_metrics()
    # Process c has ended, and an operator only looks.
    for _ in range(3):
        world.now += PROCESS_TIMEOUT_SECONDS / 2
        assert speak(None)
    assert speak("d")
    world.now += PROCESS_TIMEOUT_SECONDS
    assert speak("d")
    assert not has_problem()


def test_a_proxy_with_another_database_is_noticed(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    # Batches may wait in the old one until the epoch is applied.
    first, second = "0123456789abcdef", "fedcba9876543210"

    def speak(database: str | None) -> list[str]:
        signed = world.get_signed()
        epoch = signed.manifest.epoch
        contact = Contact(epoch, signed.hash, None, world.now, None, None, database)
        world.server.handle_contact("east", contact)
        world.server.tick()
        return [problem for problem in look(world)[1] if first in problem]

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


def test_an_epoch_that_no_worker_ends_is_noticed(world: World) -> None:
    # Workers have five ticks of five seconds.
    idle = (
        "epoch 1 could be {}, but no worker does it: check that a worker runs with the newest keys "
        "file, and read its log"
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
    text, _ = look(world)
    assert "waits for the reports of east, west, until" in text
    assert look(world, after=74)[1] == []
    assert look(world, after=75)[1] == [idle.format("applied")]
    for proxy in ("east", "west"):
        world.commit(proxy, signed)
    assert look(world, after=24)[1] == []
    assert look(world, after=25)[1] == [idle.format("applied")]


def test_counted_and_dropped_reports_are_shown(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    signed = world.close_epoch()
    chunk = world.make_chunk(signed, 10)
    with caplog.at_level(logging.INFO, "sottovoce"):
        world.apply(signed, chunk, replace(chunk, sealed=chunk.sealed[: len(chunk.sealed) // 2]))
    assert "epoch 1: 10 reports are counted; proxies that handed in: 1 of 2" in caplog.messages
    text, (problem,) = look(world)
    assert "Epoch 1 counted 10 reports; dropped: 5 came twice." in text
    assert problem.startswith("epoch 1: 5 reports")
    world.apply(world.close_epoch())
    assert look(world)[1][0].startswith("epoch 2 counted no reports")


def test_settings_with_which_no_worker_could_start_are_noticed(world: World) -> None:
    # Workers that run would not notice. A setting that may change is no problem.
    world.server.tick()
    world.settings = replace(world.settings, training=replace(TRAINING, half_life=7.0))
    assert look(world)[1] == []
    with world.store.read() as transaction:
        training = transaction.find_training()
    assert training is not None
    assert training.settings == TRAINING, "a status changes nothing"
    world.settings = replace(world.settings, training=replace(TRAINING, epsilon=7.0))
    (problem,) = look(world)[1]
    assert "training.epsilon" in problem
    begin_training(world.store, world.settings, random_start=False)
    assert look(world)[1] == []
    world.settings = replace(world.settings, training=TRAINING)
    assert "`sottovoce server training begin --cancel`" in look(world)[1][0]


def test_keys_of_another_database_are_noticed(world: World) -> None:
    world.server.tick()
    path = world.settings.keys
    path.unlink()
    assert "`sottovoce server init`" in look(world)[1][0]
    Keys.generate().write(path)
    (problem,) = look(world)[1]
    assert str(path) in problem
    assert "`sottovoce server init`" not in problem, "the file exists"
    replace(KEYS, wrapping=bytes(32)).replace(path)
    path.chmod(0o600)
    assert re.search(r"\b1\b", look(world)[1][0]), "the epoch whose key they cannot unwrap"
    KEYS.rotate().replace(path)
    path.chmod(0o600)
    text, problems = look(world)
    assert "(replaced 1 time; made 20" in text
    assert "newer key, which will sign from the next epoch on" in text
    assert problems == []
    rotate_keys(world.store, path)
    newest = Keys.read(path).verification_key.hex()
    KEYS.replace(path)
    assert newest in look(world)[1][0], "the file is an older copy"
