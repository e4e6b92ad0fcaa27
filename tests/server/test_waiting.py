"""What an epoch waits for: its time, its crowd, slow proxies, clocks that agree."""

from dataclasses import replace

import pytest

from sottovoce.protocol.contact import CROWD_ENOUGH, CROWD_NONE, CROWD_SHORT, DAY_SECONDS, Contact
from sottovoce.server.waiting import MAX_GRACE_PERIODS
from tests.server.world import World


def test_slow_proxies_are_waited_for_until_the_grace_is_over(world: World) -> None:
    # The grace begins again with every new chunk that any worker counts, and with no other.
    signed, other = world.close_epoch(), world.add_worker()
    grace = world.settings.grace_seconds
    for n, worker in enumerate((world, other, world)):
        world.now += grace - 1
        other.now = world.now
        chunk = world.make_chunk(signed, world.draw_reports(9, n))
        assert worker.send("east", chunk)
        world.server.tick()
        other.server.tick()
        assert world.get_state(1) == "closed"
    other.now += grace - 1
    assert not other.send("east", chunk)
    assert not other.send("west", chunk)
    other.now += 1
    other.server.tick()
    assert world.get_signed().manifest.reports_behind == 27


def test_a_trickle_of_chunks_holds_no_epoch_for_ever(world: World) -> None:
    signed = world.close_epoch()
    end = world.now + MAX_GRACE_PERIODS * world.settings.grace_seconds
    n_sent = 0
    while world.now < end:
        assert world.get_state(1) == "closed"
        world.send("east", world.make_chunk(signed, world.draw_reports(1, n_sent)))
        n_sent += 1
        world.now += world.settings.grace_seconds / 2
        world.server.tick()
    assert world.get_state(1) == "applied"
    assert world.get_signed().manifest.reports_behind == n_sent


def test_an_epoch_closes_with_its_crowd_and_never_before_its_time(world: World) -> None:
    # At least one proxy has enough people, none has too few, and the time is over.
    world.server.tick()
    signed = world.get_signed()
    world.now = signed.manifest.closes - 1
    world.report_crowds(signed, east=CROWD_ENOUGH, west=CROWD_ENOUGH)
    assert world.get_state(1) == "open"
    world.now += 1
    for east, west in (
        (CROWD_NONE, CROWD_NONE),
        (CROWD_SHORT, CROWD_NONE),
        (CROWD_ENOUGH, CROWD_SHORT),
        (CROWD_SHORT, CROWD_ENOUGH),
    ):
        world.report_crowds(signed, east=east, west=west)
        assert world.get_state(1) == "open", (east, west)
    world.report_crowds(signed, east=CROWD_ENOUGH, west=CROWD_NONE)
    assert world.get_state(1) == "closed"
    assert world.contact("west", signed, CROWD_SHORT) == "closed"
    world.now += world.settings.grace_seconds
    world.server.tick()
    assert world.contact("east", signed, CROWD_NONE) == "applied"


def test_an_epoch_waits_for_its_crowd_until_the_hold_is_over(world: World) -> None:
    world.server.tick()
    signed = world.get_signed()
    world.now = signed.manifest.ends - 1
    world.report_crowds(signed, east=CROWD_SHORT, west=CROWD_NONE)
    assert world.get_state(1) == "open"
    world.now += 1
    world.server.tick()
    assert world.get_state(1) == "closed"
    world.apply(signed)
    following = world.get_signed().manifest
    assert (following.epoch, following.reports_behind) == (2, 0)
    assert following.model == signed.manifest.model
    assert following.epochs_left == signed.manifest.epochs_left, "an epoch without reports"
    assert following.public_key not in (None, signed.manifest.public_key)


def test_a_silent_proxy_is_waited_for_but_not_for_long(world: World) -> None:
    # It may have people: closing at once would lose their reports.
    world.server.tick()
    signed = world.get_signed()
    world.now = signed.manifest.closes + world.settings.grace_seconds - 1
    world.report_crowds(signed, east=CROWD_ENOUGH)
    assert world.get_state(1) == "open"
    world.now += 1
    world.server.tick()
    assert world.get_state(1) == "closed"


@pytest.mark.parametrize(("wrong", "state"), [(("west",), "closed"), (("east", "west"), "open")])
def test_only_the_clocks_of_all_proxies_together_contradict_the_servers(
    world: World, wrong: tuple[str, ...], state: str
) -> None:
    world.server.tick()
    signed = world.get_signed()
    world.now = signed.manifest.closes
    for proxy, crowd in (("east", CROWD_ENOUGH), ("west", CROWD_NONE)):
        clock = world.now - 2 * DAY_SECONDS * (proxy in wrong)
        world.server.handle_contact(proxy, Contact(1, signed.hash, crowd, clock, None))
    world.server.tick()
    assert world.get_state(1) == state


def test_a_proxy_that_was_removed_from_the_settings_is_not_waited_for(world: World) -> None:
    world.server.tick()
    signed = world.get_signed()
    world.now = signed.manifest.closes
    world.report_crowds(signed, east=CROWD_ENOUGH, west=CROWD_SHORT)
    assert world.get_state(1) == "open"
    proxies = {"east": world.settings.proxies["east"]}
    world.add_worker(proxies=proxies).server.tick()
    assert world.get_state(1) == "closed"


def test_changed_settings_hold_from_the_next_epoch_on(world: World) -> None:
    signed = world.close_epoch()
    terms = replace(world.settings.terms, min_clients=10)
    other = world.add_worker(epoch_seconds=7, grace_seconds=0.0, terms=terms)
    other.server.tick()
    manifest = other.get_signed().manifest
    assert signed.manifest.terms.min_clients == 1
    assert (manifest.epoch, manifest.terms.min_clients) == (2, 10)
    assert manifest.closes - manifest.opens == 7
    assert manifest.terms.training == signed.manifest.terms.training
