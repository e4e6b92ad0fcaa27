"""The rate limit, with a clock of its own."""

from __future__ import annotations

import pytest

from sottovoce.proxy import Rate
from sottovoce.proxy.intake import LATER, RateLimit
from tests.proxy.world import Clock


class Limit(RateLimit):
    """In one epoch, if nothing else is said; what may come comes at once."""

    def wait(self, address: str, epoch: int = 1) -> float:
        pause = super().wait(address, epoch)
        if not pause:
            self.end(address, epoch)
        return pause


def limit(
    clock: Clock, per_minute: float = 6, burst: int = 3, most: int = 100, per_epoch: int = 0
) -> Limit:
    return Limit(Rate(per_minute, burst, per_epoch), clock, most_addresses=most)


def test_a_burst_then_one_every_ten_seconds() -> None:
    clock = Clock(0)
    asked = limit(clock)
    assert [asked.wait("a") for _ in range(3)] == [0, 0, 0]
    assert asked.wait("a") == pytest.approx(10)
    clock.now = 4
    assert asked.wait("a") == pytest.approx(6)
    clock.now = 10.001
    assert asked.wait("a") == 0
    assert asked.wait("a") > 9


def test_addresses_do_not_pay_for_each_other() -> None:
    asked = limit(Clock(0), burst=1)
    assert asked.wait("192.0.2.1") == 0
    assert asked.wait("192.0.2.2") == 0
    assert asked.wait("192.0.2.1") > 0


def test_silence_fills_the_bucket_and_no_more() -> None:
    clock = Clock(0)
    asked = limit(clock)
    asked.wait("a")
    clock.now = 1e9
    assert [asked.wait("a") > 0 for _ in range(4)] == [False, False, False, True]


def test_a_clock_that_goes_back_takes_nothing_away() -> None:
    clock = Clock(100)
    asked = limit(clock)
    asked.wait("a")
    clock.now = 0
    assert asked.wait("a") == 0


def test_the_memory_is_bounded_and_forgets_the_longest_silent() -> None:
    asked = limit(Clock(0), burst=1, most=2)
    for address in ("a", "b", "a", "c"):
        asked.wait(address)
    assert list(asked._addresses) == ["a", "c"]
    assert asked.wait("b") == 0


def test_zero_is_off() -> None:
    asked = limit(Clock(0), per_minute=0, burst=1)
    assert not any(asked.wait("a") for _ in range(1000))
    assert not asked._addresses


@pytest.mark.parametrize("per_minute", [0, 6])
def test_so_many_in_an_epoch_and_then_no_more(per_minute: float) -> None:
    """However much time has passed; what was refused, or did not reach the disk, is not counted."""
    clock = Clock(0)
    asked = limit(clock, per_minute, per_epoch=2)
    for _ in range(2):
        assert RateLimit.wait(asked, "a", 1) == 0
        asked.end("a", None)  # it was not stored
        clock.now += 1e6
        assert asked.wait("a") == 0
        clock.now += 1e6
    assert asked.wait("a") == LATER
    assert asked.wait("b") == 0
    assert asked.wait("a", 2) == 0, "another epoch"


def test_what_is_under_way_counts_for_every_epoch_and_what_came_for_its_own() -> None:
    asked = RateLimit(Rate(0, per_epoch=2), Clock(0))
    assert [asked.wait("a", 1) for _ in range(3)] == [0, 0, LATER]
    assert asked.wait("a", 2) == LATER
    asked.end("a", 1)  # too late for the second epoch: it was stored in the first
    assert [asked.wait("a", 2) for _ in range(2)] == [0, LATER]
    asked.end("a", 2)  # begun in the first epoch
    assert asked.wait("a", 2) == LATER
    asked.end("a", None)
    assert [asked.wait("a", 2) for _ in range(2)] == [0, LATER]


def test_the_first_batch_of_an_epoch_counts_also_if_it_was_begun_before() -> None:
    asked = RateLimit(Rate(0, per_epoch=1), Clock(0))
    asked.wait("a", 1)
    asked.end("a", 2)
    assert asked.wait("a", 2) == LATER
