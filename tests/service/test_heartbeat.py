"""No test waits for time to pass: `hurry` drives the beats, pauses are only written down."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from queue import Queue

import pytest

from sottovoce.errors import UnavailableError
from sottovoce.service import Heartbeat

NEVER = 3600.0
SOON = 10.0
"""An upper bound for what takes microseconds: a test that reaches it has failed."""


class Pauses(threading.Event):
    """Never waits; remembers how long it was asked to."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.asked.append(timeout)
        return True


def pauses_of(
    outcomes: Sequence[Exception | None], interval: float, slowest: float
) -> list[float | None]:
    """How long a heart rests after each of these beats."""
    left = iter(outcomes)

    def beat() -> None:
        outcome = next(left, ...)
        if outcome is ...:
            heart._stopping = True
        elif outcome is not None:
            raise outcome

    heart = Heartbeat(beat, interval, slowest=slowest)
    heart._awake = pauses = Pauses()
    heart.start()
    heart._thread.join(SOON)
    assert not heart._thread.is_alive()
    return pauses.asked


@pytest.fixture
def hearts() -> Iterator[Callable[..., Heartbeat]]:
    started: list[Heartbeat] = []

    def start(beat: Callable[[], None], interval: float = NEVER) -> Heartbeat:
        heart = Heartbeat(beat, interval)
        started.append(heart)
        heart.start()
        return heart

    yield start
    for heart in started:
        heart.stop()


def test_the_first_beat_is_at_once_and_hurry_brings_the_next(
    hearts: Callable[..., Heartbeat],
) -> None:
    beats: Queue[str] = Queue()
    heart = hearts(lambda: beats.put("beat"))
    for _ in range(5):
        assert beats.get(timeout=SOON) == "beat"
        heart.hurry()


def test_without_hurry_it_beats_by_itself(hearts: Callable[..., Heartbeat]) -> None:
    beats: Queue[str] = Queue()
    hearts(lambda: beats.put("beat"), interval=0.001)
    for _ in range(5):
        beats.get(timeout=SOON)


def test_a_hurry_during_a_beat_is_not_lost(hearts: Callable[..., Heartbeat]) -> None:
    begun: Queue[int] = Queue()
    go_on = threading.Semaphore(0)

    def beat() -> None:
        begun.put(1)
        go_on.acquire()

    heart = hearts(beat)
    begun.get(timeout=SOON)
    heart.hurry()
    go_on.release(3)
    begun.get(timeout=SOON)


def test_a_heart_that_fails_goes_on_and_says_so_until_it_recovers(
    hearts: Callable[..., Heartbeat], caplog: pytest.LogCaptureFixture
) -> None:
    known: Queue[int] = Queue()
    outcomes: list[Exception | None] = [UnavailableError("not now"), RuntimeError("odd"), None]
    ready = threading.Event()

    def beat() -> None:
        ready.wait(SOON)
        known.put(heart.failures)
        outcome = outcomes.pop(0) if outcomes else None
        if outcome is not None:
            raise outcome

    with caplog.at_level(logging.WARNING, "sottovoce"):
        heart = hearts(beat)
        ready.set()
        seen = []
        for _ in range(4):
            seen.append(known.get(timeout=SOON))
            heart.hurry()
        heart.stop()
    assert seen == [0, 1, 2, 0]
    assert caplog.messages == ["UnavailableError: not now", "a beat failed"]
    # An error of ours is a sentence; anything else comes with its traceback.
    assert [record.exc_info is not None for record in caplog.records] == [False, True]


def test_pauses_double_while_it_fails_and_are_short_again_afterwards() -> None:
    failed = UnavailableError("not now")
    outcomes = [None, failed, failed, failed, failed, failed, None, failed, None]
    assert pauses_of(outcomes, 5.0, 60.0) == [5, 10, 20, 40, 60, 60, 5, 10, 5]


def test_a_slow_heart_is_not_made_faster_by_failing() -> None:
    assert pauses_of([None, UnavailableError("not now")], 90.0, 60.0) == [90, 90]


def test_it_survives_more_failures_than_a_float_has_exponents(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL, "sottovoce")
    pauses = pauses_of([UnavailableError("not now")] * 1_100, 0.5, 60.0)
    assert len(pauses) == 1_100
    assert pauses[:4] == [1, 2, 4, 8]
    assert set(pauses[7:]) == {60.0}


def test_stop_waits_for_the_beat_under_way_and_there_is_no_other() -> None:
    begun, go_on = threading.Event(), threading.Event()
    done: list[str] = []

    def beat() -> None:
        begun.set()
        go_on.wait(SOON)
        done.append("done")

    heart = Heartbeat(beat, 0.0001)
    heart.start()
    assert begun.wait(SOON)
    stopped: Queue[list[str]] = Queue()

    def stop() -> None:
        heart.stop()
        stopped.put([*done])

    threading.Thread(target=stop).start()
    assert stopped.empty()
    while not heart._stopping:
        pass
    go_on.set()
    assert stopped.get(timeout=SOON) == ["done"]
    assert done == ["done"]
    assert not heart._thread.is_alive()


def test_stop_interrupts_a_pause(hearts: Callable[..., Heartbeat]) -> None:
    beats: Queue[str] = Queue()
    heart = hearts(lambda: beats.put("beat"))
    beats.get(timeout=SOON)
    heart.stop()
    assert not heart._thread.is_alive()
    assert beats.empty()


def test_a_heart_that_never_beat_can_be_stopped() -> None:
    Heartbeat(lambda: None, NEVER).stop()
