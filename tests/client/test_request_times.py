"""Every request of a device has its time from public data, coins and a clock, never the history.

A device lives three epochs. An application recommends and then syncs, in one thread, by a timer;
what depends on the history takes its time on the device's clocks. For the same coins everybody else
must see the same requests, of the same size, at the same times, and the same errors.
"""

import sqlite3
import threading
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sottovoce.client import Client
from sottovoce.client.history import History
from sottovoce.client.timing import SYNC_GRID_SECONDS, compute_lead
from sottovoce.core.bounds import MAX_HISTORY_ITEMS
from sottovoce.errors import SottovoceError, UnavailableError
from sottovoce.protocol.tokens import Attestation
from sottovoce.storage.database import exclusive_lock
from tests.client.world import DAY, ITEMS, FakeProxy, World, ask_for_names, item, words
from tests.sampling import choose_cases

HOUR = 3_600


class Clocks:
    """The device's two: one that can be set, and one that only goes on."""

    def __init__(self) -> None:
        self.passed = 1.25
        self.ahead = 1.0 * DAY

    def wall(self) -> float:
        return self.passed + self.ahead

    def monotonic(self) -> float:
        return self.passed

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0
        self.passed += seconds


@dataclass(frozen=True)
class Person:
    """How long their history is, and how long the device takes for what it does with it."""

    items: int = 0
    reading: float = 0.0
    computing: float = 0.0
    recommending: float = 0.0

    def history(self) -> list[str]:
        return [item(number) for number in range(self.items)]


MANY = 500
PEOPLE = [
    Person(),
    Person(items=1),
    Person(reading=3.0),
    Person(items=1, computing=1.9, recommending=7.4),
    Person(items=1, reading=3.0, computing=1.9, recommending=3.0),
    Person(items=MANY),
]


def attest() -> bytes:
    """Return an attestation that nobody checks here."""
    return Attestation(bytes(32), 0, bytes(64)).encode()


class Life:
    """One device, its proxy, and all that others see of it."""

    def __init__(self, folder: Path, person: Person, opened: ExitStack):
        self.folder, self.person, self.opened = folder, person, opened
        self.clocks, self.world = Clocks(), World()
        self.proxy = FakeProxy(self.world)
        self.seen: list[tuple[Any, ...]] = []
        self.proxy.before = self.watch
        self.during_request: Callable[[str], None] = lambda call: None
        self.during_sleep: Callable[[Client, float], None] = lambda client, seconds: None
        self.while_computing: Callable[[], None] = lambda: None
        self.once_recorded: Callable[[], None] = lambda: None

    def slow_down(self, patch: pytest.MonkeyPatch) -> None:
        """Make every reader of a history wait."""
        items = History.list_items

        def slow(history: History) -> list[str]:
            self.clocks.sleep(self.person.reading)
            return items(history)

        patch.setattr(History, "list_items", slow)

    def open(self) -> Client:
        clock, monotonic = self.clocks.wall, self.clocks.monotonic
        coins = Random(3).randbytes
        return self.world.create(self.folder, clock=clock, monotonic=monotonic, entropy=coins)

    def watch(self, call: str) -> None:
        self.seen.append((round(self.clocks.passed, 6), call))
        self.during_request(call)

    def words(self, users: int, reports: int) -> NDArray[np.uint64]:
        self.clocks.sleep(self.person.computing)
        self.while_computing()
        return words(users, reports)

    def live(self) -> list[tuple[Any, ...]]:
        """Live three epochs, in each of which the timer goes off three times."""
        with self.open() as client:
            client.record(self.person.history())
            self.once_recorded()
            for epoch in (1, 2, 3):
                self.proxy.publish(self.world.signed(epoch))
                for hour in (6, 8, 10):
                    self.clocks.passed = (epoch - 1) * DAY + hour * HOUR + 1.25
                    self.recommend_and_sync(client)
        return self.seen + [(len(batch),) for batch in self.proxy.received]

    def recommend_and_sync(self, client: Client) -> None:
        if client.get_status().epoch is not None:
            client.recommend(3)
        self.clocks.sleep(self.person.recommending)

        def sleep(seconds: float) -> None:
            self.during_sleep(client, seconds)
            self.clocks.sleep(seconds)

        try:
            synced = client.sync(
                self.proxy,
                draw_words=self.words,
                sleep=sleep,
                jitter=3_600,
                fetch_attestation=attest,
            )
            self.seen.append((synced.outcome, synced.sentence))
        except SottovoceError as error:
            self.seen.append((type(error), str(error)))


def nothing_happens(_: Life) -> None:
    pass


def with_accounts(life: Life) -> None:
    """Fetch a token in one epoch and spend it in the next."""
    life.world.changes = {"accounts": True}
    life.proxy.publish(life.world.signed(1))


def in_long_epochs_of_names(life: Life) -> None:
    """Be too early in two epochs, and report in the last quarter of the third."""
    closes = int(4.2 * DAY)
    life.world.changes = {**ask_for_names(2 * ITEMS), "opens": 0, "closes": closes}


def busy_for(call: str, number: int) -> Callable[[Life], None]:
    """Let the proxy refuse one request, and say for how long."""

    def scenario(life: Life) -> None:
        requests: list[str] = []

        def refuse(request: str) -> None:
            requests.append(request)
            if request == call and requests.count(call) == number:
                raise UnavailableError("503", 120.0)

        life.during_request = refuse

    return scenario


def paused_while_the_batch_waits(life: Life) -> None:
    """Pause until the timer goes off again."""

    def pause(client: Client, _: float) -> None:
        client.pause(on=client._store.get_waiting_batch() is not None and not client._store.paused)

    life.during_sleep = pause


def items_are_removed_at_every_pause(life: Life) -> None:
    def remove(client: Client, _: float) -> None:
        client.remove(life.person.history()[-2:])

    life.during_sleep = remove


def set_back_during_the_long_pause(life: Life) -> None:
    def set_back(_: Client, seconds: float) -> None:
        if seconds > 60:
            life.clocks.ahead = DAY - HOUR

    life.during_sleep = set_back


def set_back_while_computing(seconds: float) -> Callable[[Life], None]:
    def scenario(life: Life) -> None:
        def set_back() -> None:
            life.clocks.ahead = DAY - seconds

        life.while_computing = set_back

    return scenario


def a_large_record_is_under_way(life: Life) -> None:
    """Write all the time, in another connection."""

    def begin() -> None:
        path = life.folder / "client.history.db"
        other = life.opened.enter_context(closing(sqlite3.connect(path, isolation_level=None)))
        other.execute("BEGIN IMMEDIATE")
        rows = ((f"new {number}",) for number in range(life.person.items))
        other.executemany("INSERT INTO interactions VALUES (?, 9)", rows)

    life.once_recorded = begin


def live_as(
    person: Person, scenario: Callable[[Life], None], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> list[tuple[Any, ...]]:
    with monkeypatch.context() as patch, ExitStack() as opened:
        life = Life(folder, person, opened)
        life.slow_down(patch)
        scenario(life)
        return life.live()


@pytest.mark.parametrize(
    ("scenario", "expected"),
    [
        pytest.param(nothing_happens, "sent", id="nothing"),
        pytest.param(with_accounts, "sent", id="accounts"),
        pytest.param(in_long_epochs_of_names, "sent", id="names"),
        pytest.param(busy_for("manifest", 1), UnavailableError, id="busy for the first request"),
        pytest.param(busy_for("manifest", 2), UnavailableError, id="busy after the long pause"),
        pytest.param(busy_for("send", 2), UnavailableError, id="busy for a batch"),
        pytest.param(paused_while_the_batch_waits, "paused", id="pause and resume"),
        pytest.param(items_are_removed_at_every_pause, "sent", id="removing"),
        pytest.param(set_back_during_the_long_pause, None, id="set back during the long pause"),
        pytest.param(set_back_while_computing(HOUR), None, id="set back while computing"),
        pytest.param(set_back_while_computing(100), None, id="set back a little"),
        pytest.param(a_large_record_is_under_way, "sent", id="a large record"),
    ],
)
def test_request_times_do_not_depend_on_the_history(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    scenario: Callable[[Life], None],
    expected: object,
) -> None:
    """Clocks are set back, too: a wait that then ended with the computing would reveal it."""
    # The longest history takes seconds to record: where nothing happens, and where it is written.
    longest = scenario in (nothing_happens, a_large_record_is_under_way)
    people = PEOPLE if scenario is nothing_happens else choose_cases(PEOPLE, 3)
    people = [*people, *[Person(items=MAX_HISTORY_ITEMS)] * longest]
    lives = [
        live_as(person, scenario, tmp_path / str(number), monkeypatch)
        for number, person in enumerate(people)
    ]
    if expected is None:
        lives.insert(0, live_as(PEOPLE[0], nothing_happens, tmp_path / "plain", monkeypatch))
    for person, requests in zip([*people, "plain"], lives, strict=False):
        assert requests == lives[0], person
    assert (expected or "sent") in [entry[0] for entry in lives[0]]
    sent = {entry[0] for entry in lives[0] if entry[1:] == ("send",)}
    fetched = {entry[0] for entry in lives[0] if entry[1:] == ("token",)}
    if scenario is with_accounts:
        assert (len(sent), len(fetched)) == (2, 3)
    elif scenario is in_long_epochs_of_names:
        assert len(sent) == 1
        assert [entry[0] for entry in lives[0]].count("too early") == 6
    else:
        assert len(sent) >= 3


def only_sync(life: Life) -> float:
    """Return the moment at which its batch leaves, in seconds since it began."""
    with life.open() as client:
        client.record(life.person.history())
        life.recommend_and_sync(client)
    (sent,) = [at for at, *what in life.seen if what == ["send"]]
    return float(sent)


def test_request_after_the_long_pause_waits_for_no_lock(tmp_path: Path) -> None:
    # The lock of the folder is taken earlier, so that a process that holds it does not show.
    with ExitStack() as opened:
        undisturbed = Life(tmp_path / "alone", Person(), opened)
        only_sync(undisturbed)
        life = Life(tmp_path / "busy", Person(), opened)

        def hold(_: Client, seconds: float) -> None:
            if seconds > 60:
                lock = ExitStack()
                lock.enter_context(exclusive_lock(life.folder / "client.lock", "taken"))
                threading.Timer(0.3, lock.close).start()

        life.during_sleep = hold
        only_sync(life)
    assert life.seen == undisturbed.seen
    first, *_, second, sent, _ = [at for at, *_ in life.seen]
    assert first % SYNC_GRID_SECONDS == 0
    assert sent - second == pytest.approx(compute_lead(life.proxy.signed.manifest))
