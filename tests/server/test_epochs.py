"""When an epoch closes and is applied, with whose reports, and on which terms the next opens."""

import os
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sottovoce.core import sum_signs
from sottovoce.errors import (
    SettingsError,
    UnavailableError,
)
from sottovoce.protocol import (
    SEALED_BYTES,
    decode_items,
    encode_items,
)
from sottovoce.protocol.contact import CROWD_ENOUGH, CROWD_NONE, CROWD_SHORT, DAY_SECONDS, Contact
from sottovoce.server.publisher import sum_crowds
from sottovoce.server.waiting import MAX_GRACE_PERIODS
from sottovoce.training import Participation, compute_next_items, make_first_items
from sottovoce.training.items import DEFAULT_ROW_LIMIT
from tests.protocol.examples import manifest
from tests.server.world import (
    ITEMS,
    TRAINING,
    MakeWorld,
    World,
    chunk_of,
    sealed,
)

# The crowd: as many distinct reports that open, of one proxy, as that many people send.

CROWD = 3


def noise(reports: int) -> bytes:
    return os.urandom(SEALED_BYTES * reports)


@pytest.mark.parametrize(
    ("east", "west", "counted", "crowdless"),
    [
        (lambda valid: valid[0] + valid[1] + valid[2], b"", 15, 0),
        (lambda valid: valid[0] + valid[1] + valid[2][SEALED_BYTES:] + noise(1), b"", 0, 14),
        (lambda valid: valid[0] + noise(10), b"", 0, 5),
        (lambda valid: valid[0] * 3, b"", 0, 5),
        (lambda valid: valid[0] + valid[1] + valid[2], lambda valid: valid[3] + noise(10), 15, 5),
        (lambda valid: valid[0] + valid[1], lambda valid: valid[2] + valid[3], 0, 20),
    ],
    ids=["a crowd", "one report less", "noise", "copies", "each by itself", "not together"],
)
def test_only_what_opens_makes_a_crowd(
    make_world: MakeWorld, url: str, east: Any, west: Any, counted: int, crowdless: int
) -> None:
    """The proxy's word is not enough: nothing is learnt from fewer, and no database has it."""
    world = make_world(url, terms=Participation(least_clients=CROWD, hold=1000))
    signed = world.close_epoch()
    valid = [sealed(world.draw_reports(5, seed), signed) for seed in range(4)]
    for proxy, made in (("east", east), ("west", west)):
        chunks = [chunk_of(made(valid), signed)] if callable(made) else []
        for chunk in chunks:
            world.send(proxy, chunk)
        world.commit(proxy, signed, chunks)
    world.server.tick()
    applied, following = world.server.list_epochs()
    assert (applied.reports, applied.crowdless) == (counted, crowdless)
    assert following.epochs_done == bool(counted)
    assert bool(world.get_sums(1).any()) is bool(counted)
    now = world.get_signed().manifest
    assert (now.model == signed.manifest.model, now.reports_behind) == (not counted, counted)
    assert (
        f"sottovoce_server_applied_crowdless {crowdless}.0"
        in world.server.render_metrics().decode()
    )


DUMMIES = 7


@pytest.mark.parametrize(
    ("east", "west", "counted", "crowdless"),
    [
        (15 + DUMMIES, 0, 15, 0),
        (14 + DUMMIES, 0, 0, 14 + DUMMIES),
        (15, 15, 0, 30),
        (15 + DUMMIES, 15 + DUMMIES, 30, 0),
        (20 + DUMMIES, 14 + DUMMIES, 20, 14 + DUMMIES),
        (14 + DUMMIES, 14 + DUMMIES, 0, 28 + 2 * DUMMIES),
    ],
)
def test_a_proxy_counts_with_a_crowd_and_its_dummies(
    make_world: MakeWorld, sqlite_url: str, east: int, west: int, counted: int, crowdless: int
) -> None:
    """Each by itself; the model moves by all that counts, as of so many people's reports."""
    plan = replace(TRAINING, dummies=DUMMIES)
    terms = Participation(least_clients=CROWD, hold=1000)
    world = make_world(sqlite_url, training=plan, terms=terms)
    signed = world.close_epoch()
    assert signed.manifest.terms.dummies == DUMMIES
    mechanism = signed.manifest.build()
    V, sums = make_first_items(plan, ITEMS), np.zeros(mechanism.n_directions, np.int64)
    for seed, (proxy, number) in enumerate((("east", east), ("west", west))):
        reports = world.draw_reports(number, seed)
        chunks = [chunk_of(sealed(reports, signed), signed)] if number else []
        for chunk in chunks:
            world.send(proxy, chunk)
        world.commit(proxy, signed, chunks)
        if number >= CROWD * plan.reports + DUMMIES:
            sums += sum_signs(reports, mechanism.n_directions)
    world.server.tick()
    applied = world.server.list_epochs()[0]
    assert (applied.reports, applied.crowdless, applied.capped) == (counted, crowdless, 0)
    now = world.get_signed().manifest
    assert now.reports_behind == counted
    content = world.server.get_model(now.model)
    assert content is not None
    assert np.array_equal(world.get_sums(1), sums if counted else [])
    if counted:
        V = compute_next_items(V, sums, counted, 1, plan, mechanism, row_limit=DEFAULT_ROW_LIMIT)
    assert np.array_equal(decode_items(content, ITEMS, plan.factors), V)


def test_of_a_proxy_that_was_cut_off_nobody_knows_how_many_dummies_came() -> None:
    """So it counts only whole, where there are any."""
    counts = {"east": np.full(2 * manifest().build().n_directions, 9, np.int64)}
    for dummies, committed, counted in ((0, (), True), (5, (), False), (5, ("east",), True)):
        asked = manifest(dummies=dummies, least_clients=1)
        total, crowdless, of_nobody = sum_crowds(counts, asked, committed)
        assert (bool(total.any()), crowdless == 0, of_nobody) == (
            counted,
            counted,
            dummies * counted,
        )


def test_a_flood_on_one_direction_is_cut(make_world: MakeWorld, sqlite_url: str) -> None:
    """A third of all people say the same one thing, as often as they can."""
    world = make_world(sqlite_url)
    signed = world.close_epoch()
    honest = sealed(world.draw_reports(2000), signed)
    flood = sealed(np.full(1000, 5 << 1 | 1, np.uint32), signed)
    world.apply(signed, chunk_of(honest + flood, signed))
    applied = world.server.list_epochs()[0]
    assert applied.reports + applied.capped == 3000
    assert 500 < applied.capped < 1000
    assert world.get_signed().manifest.reports_behind == applied.reports
    assert 0 < world.get_sums(1)[5] < 600


def test_an_item_that_liars_push_is_held_back_by_default(
    make_world: MakeWorld, sqlite_url: str
) -> None:
    """They name both directions of its row, neither oftener than chance could."""
    plan = replace(TRAINING, epochs=20, options={"block": 1, "loud": 1})
    lengths, capped = [], []
    for name, changes in (("held", {}), ("free", {"row_limit": 0.0})):
        world = make_world(f"{sqlite_url}-{name}", training=plan, **changes)
        signed = world.close_epoch()
        pushed = np.repeat(np.array([29, 31], np.uint32), 150)
        reports = np.concatenate([world.draw_reports(4000), pushed])
        world.apply(signed, chunk_of(sealed(reports, signed), signed))
        content = world.server.get_model(world.get_signed().manifest.model)
        assert content is not None
        lengths.append(np.linalg.norm(decode_items(content, ITEMS, plan.factors), axis=1))
        capped.append(world.server.list_epochs()[0].capped)
    held, free = lengths
    assert capped == [0, 0]
    assert held.max() < 0.2 * free.max()
    assert held[free.argmax()] == pytest.approx(np.quantile(free, 0.75), rel=1e-3)


def test_the_first_epoch_is_opened_with_the_first_model(world: World) -> None:
    world.server.prepare()
    with pytest.raises(UnavailableError):
        world.get_signed()
    world.server.tick()
    manifest = world.get_signed().manifest
    assert (manifest.epoch, manifest.opens, manifest.closes) == (1, 1000, 1100)
    assert (manifest.reports_behind, manifest.epochs_left) == (0, TRAINING.epochs)
    model = world.server.get_model(manifest.model)
    assert model == encode_items(make_first_items(TRAINING, ITEMS))
    assert world.server.get_catalogue(manifest.catalogue) == world.settings.catalogue.read_bytes()
    assert world.server.get_catalogue(manifest.model) is None
    before = world.get_signed().encode()
    world.server.tick()
    assert world.get_signed().encode() == before


def test_applying_is_the_papers_update_and_the_last_manifest_asks_for_nothing(
    world: World,
) -> None:
    plan = TRAINING
    V = make_first_items(plan, ITEMS)
    for epoch in range(1, plan.epochs + 1):
        signed = world.close_epoch()
        assert signed.manifest.epoch == epoch
        assert signed.manifest.epochs_left == plan.epochs - epoch + 1
        reports = world.draw_reports(200, seed=epoch)
        chunk = chunk_of(sealed(reports, signed), signed)
        world.apply(signed, chunk)
        mechanism = signed.manifest.build()
        sums = sum_signs(reports, mechanism.n_directions)
        V = compute_next_items(V, sums, 200, epoch, plan, mechanism, row_limit=DEFAULT_ROW_LIMIT)
        manifest = world.get_signed().manifest
        assert manifest.reports_behind == 200
        content = world.server.get_model(manifest.model)
        assert content is not None
        assert np.array_equal(decode_items(content, ITEMS, plan.factors), V)
        assert manifest.regularization == plan.compute_user_ridge(V)
        assert signed.manifest.regularization != manifest.regularization
    assert world.get_signed().manifest.public_key is None
    assert world.get_signed().manifest.epochs_left == 0
    assert world.contact("east", world.get_signed(), CROWD_ENOUGH) == "applied"
    last = world.get_signed().encode()
    world.now += 10_000
    world.server.tick()
    assert world.get_signed().encode() == last
    more = replace(TRAINING, epochs=plan.epochs + 1)
    with pytest.raises(SettingsError, match=r"\b4\b.*\b3\b.*training\.lifetime"):
        world.add_worker(training=more).server.tick()
    longer = world.add_worker(training=replace(more, lifetime=3))
    longer.server.tick()
    assert longer.get_signed().manifest.public_key is not None
    assert longer.get_signed().manifest.epochs_left == 1
    assert longer.get_signed().manifest.epoch == plan.epochs + 2


def test_slow_proxies_are_waited_for_until_grace_is_over(world: World) -> None:
    """It begins anew with every new chunk that any worker counts, and with no other."""
    signed, other = world.close_epoch(), world.add_worker()
    grace = world.settings.grace_seconds
    for n, worker in enumerate((world, other, world)):
        world.now += grace - 1
        other.now = world.now
        chunk = chunk_of(sealed(world.draw_reports(9, n), signed), signed)
        assert worker.send("east", chunk)
        for each in (world, other):
            each.server.tick()
        assert world.get_state(1) == "closed"
    other.now += grace - 1
    assert not other.send("east", chunk)
    assert not other.send("west", chunk)
    other.now += 1
    other.server.tick()
    assert world.get_signed().manifest.reports_behind == 27


def test_a_proxy_that_drips_holds_no_epoch_for_ever(world: World) -> None:
    signed = world.close_epoch()
    end = world.now + MAX_GRACE_PERIODS * world.settings.grace_seconds
    sent = 0
    while world.now < end:
        assert world.get_state(1) == "closed"
        world.send("east", chunk_of(sealed(world.draw_reports(1, sent), signed), signed))
        sent += 1
        world.now += world.settings.grace_seconds / 2
        world.server.tick()
    assert world.get_state(1) == "applied"
    assert world.get_signed().manifest.reports_behind == sent, "what came counts"


def test_what_may_change_holds_from_the_next_epoch(world: World) -> None:
    signed = world.close_epoch()
    other = world.add_worker(
        epoch_seconds=7, grace_seconds=0.0, terms=replace(world.settings.terms, least_clients=10)
    )
    other.server.tick()
    manifest = other.get_signed().manifest
    assert signed.manifest.terms.least_clients == 1
    assert (manifest.epoch, manifest.terms.least_clients) == (2, 10)
    assert manifest.closes - manifest.opens == 7
    assert manifest.terms.training == signed.manifest.terms.training


BASE = Participation(least_clients=40, hold=1000)

TURNS = replace(TRAINING, epochs=4, lifetime=2)


def test_an_epoch_closes_with_its_crowd_and_never_before_its_time(world: World) -> None:
    """At least one proxy has enough, none is short, and the time is over."""
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
    found = world.get_signed().manifest
    assert (found.epoch, found.model, found.reports_behind) == (2, signed.manifest.model, 0)
    assert found.epochs_left == signed.manifest.epochs_left, "it is held again"
    assert found.public_key not in (None, signed.manifest.public_key)


def test_a_proxy_that_says_nothing_is_waited_for_but_not_for_long(world: World) -> None:
    """It may have people: closing at once would lose their reports."""
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


def test_a_proxy_that_was_removed_is_not_waited_for(world: World) -> None:
    """It was short when it was lost for good: its operator strikes it from the settings."""
    world.server.tick()
    signed = world.get_signed()
    world.now = signed.manifest.closes
    world.report_crowds(signed, east=CROWD_ENOUGH, west=CROWD_SHORT)
    assert world.get_state(1) == "open"
    without = {"east": world.settings.proxies["east"]}
    world.add_worker(proxies=without).server.tick()
    assert world.get_state(1) == "closed"


@pytest.mark.parametrize(
    ("before", "worse", "named"),
    [
        ({"terms": BASE}, {"terms": replace(BASE, least_clients=39)}, "39"),
        ({"terms": BASE}, {"terms": replace(BASE, hold=1001)}, "1001"),
        ({"terms": replace(BASE, most_items=50)}, {"terms": replace(BASE, most_items=51)}, "51"),
        ({"training": TURNS}, {"training": replace(TURNS, lifetime=3)}, r"\b3\b"),
        ({"training": TURNS}, {"training": replace(TURNS, epochs=2)}, r"\b1\.0\b"),
    ],
)
def test_terms_never_become_worse_while_a_training_runs(
    make_world: MakeWorld, sqlite_url: str, before: dict[str, Any], worse: dict[str, Any],
    named: str,
) -> None:  # fmt: skip
    world = make_world(sqlite_url, **before)
    world.server.tick()
    with pytest.raises(SettingsError, match=named):
        world.add_worker(**worse).server.tick()
    world.add_worker().server.tick()
    if "training" in before:
        world.add_worker(training=replace(TURNS, epochs=8)).server.tick()


def test_what_became_better_stays_better(make_world: MakeWorld, sqlite_url: str) -> None:
    """Who joined meanwhile has agreed to the better terms alone."""
    terms = Participation(least_clients=1, hold=1000)
    world = make_world(sqlite_url, terms=terms)
    world.server.tick()
    better = world.add_worker(terms=replace(terms, hold=60))
    better.apply(better.close_epoch())
    assert better.get_signed().manifest.terms.hold == 60
    with pytest.raises(SettingsError, match=r"\b2\b.*\b60\b"):
        world.add_worker().server.tick()


def test_the_crowd_grows_at_most_to_ten_times_the_first(
    make_world: MakeWorld, sqlite_url: str
) -> None:
    """Whoever accepted the first terms refuses more, however slowly it grew."""
    world = make_world(sqlite_url, terms=Participation(least_clients=2, hold=1000))
    for least in (2, 20, 21):
        grown = world.add_worker(terms=Participation(least_clients=least, hold=1000))
        grown.now = world.now
        if least == 21:
            with pytest.raises(SettingsError, match=r"\b1\b.*\b21\b"):
                grown.server.tick()
            break
        grown.apply(grown.close_epoch())
        world.now = grown.now
    assert grown.now > 1100
