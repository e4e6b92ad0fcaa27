"""When an epoch closes: after its time, with its crowd; and without one in the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sottovoce.errors import NotFoundError, RefusedError
from sottovoce.protocol.batch import ENOUGH, NONE, SHORT

if TYPE_CHECKING:
    from tests.server.world import World


def test_an_epoch_closes_with_its_crowd_and_never_before_its_time(world: World) -> None:
    """At least one proxy has enough, none is short, and the time is over."""
    world.server.tick()
    signed = world.signed()
    world.now = signed.manifest.closes - 1
    world.tell(signed, east=ENOUGH, west=ENOUGH)
    assert world.state(1) == "open"
    world.now += 1
    for east, west in ((NONE, NONE), (SHORT, NONE), (ENOUGH, SHORT), (SHORT, ENOUGH)):
        world.tell(signed, east=east, west=west)
        assert world.state(1) == "open", (east, west)
    world.tell(signed, east=ENOUGH, west=NONE)
    assert world.state(1) == "closed"
    assert world.server.waiting("west", 1, SHORT) == "closed"
    world.now += world.settings.grace_seconds
    world.server.tick()
    assert world.server.waiting("east", 1, NONE) == "applied"


def test_an_epoch_waits_for_its_crowd_until_the_hold_is_over(world: World) -> None:
    world.server.tick()
    signed = world.signed()
    world.now = signed.manifest.ends - 1
    world.tell(signed, east=SHORT, west=NONE)
    assert world.state(1) == "open"
    world.now += 1
    world.server.tick()
    assert world.state(1) == "closed"
    world.apply(signed)
    found = world.signed().manifest
    assert (found.epoch, found.model, found.reports_behind) == (2, signed.manifest.model, 0)


def test_a_proxy_that_says_nothing_is_waited_for_but_not_for_long(world: World) -> None:
    """It may have people: closing at once would lose their reports."""
    world.server.tick()
    signed = world.signed()
    world.now = signed.manifest.closes + world.settings.grace_seconds - 1
    world.tell(signed, east=ENOUGH)
    assert world.state(1) == "open"
    world.now += 1
    world.server.tick()
    assert world.state(1) == "closed"


def test_a_proxy_that_was_removed_is_not_waited_for(world: World) -> None:
    """It was short when it was lost for good: its operator strikes it from the settings."""
    world.server.tick()
    signed = world.signed()
    world.now = signed.manifest.closes
    world.tell(signed, east=ENOUGH, west=SHORT)
    assert world.state(1) == "open"
    without = {"east": world.settings.proxies["east"]}
    world.another(proxies=without).server.tick()
    assert world.state(1) == "closed"


def test_waiting_is_refused_with_the_reason(world: World) -> None:
    world.server.tick()
    with pytest.raises(NotFoundError):
        world.server.waiting("east", 2, NONE)
    with pytest.raises(RefusedError, match="no proxy"):
        world.server.waiting("north", 1, NONE)
