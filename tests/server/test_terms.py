"""What devices agreed to never becomes worse while a training runs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from sottovoce.errors import SettingsError
from sottovoce.training import Participation
from tests.server.world import TRAINING

if TYPE_CHECKING:
    from tests.server.conftest import MakeWorld, NewUrl

WORSE = {
    "least_clients": (40, 39, "hidden among at least 39 people, not 40"),
    "hold": (1000, 1001, "wait for its crowd for 1001 seconds, not 1000"),
    "most_items": (50, 51, "51 items, not 50"),
}


@pytest.mark.parametrize("name", WORSE)
def test_terms_never_become_worse_while_a_training_runs(
    make_world: MakeWorld, sqlite_url: str, name: str
) -> None:
    before, worse, why = WORSE[name]
    terms = Participation(least_clients=40, hold=1000)
    world = make_world(sqlite_url, terms=replace(terms, **{name: before}))
    world.server.tick()
    changed = replace(terms, **{name: worse})
    with pytest.raises(SettingsError, match=rf"terms of epoch 1 would refuse.*{why}.*Set it back"):
        world.another(terms=changed).server.tick()
    world.another().server.tick()


def test_nobody_is_asked_for_more_epochs_than_agreed(
    make_world: MakeWorld, sqlite_url: str
) -> None:
    world = make_world(sqlite_url, training=replace(TRAINING, epochs=4, lifetime=2))
    world.server.tick()
    with pytest.raises(SettingsError, match=r"terms of epoch 1 would refuse.*3 epochs, not 2.*"):
        world.another(training=replace(TRAINING, epochs=4, lifetime=3)).server.tick()
    with pytest.raises(SettingsError, match=r"part of the epochs.*rise from 0.5 to 1"):
        world.another(training=replace(TRAINING, epochs=2, lifetime=2)).server.tick()
    world.another(training=replace(TRAINING, epochs=8, lifetime=2)).server.tick()


def test_what_became_better_stays_better(make_world: MakeWorld, sqlite_url: str) -> None:
    """Who joined meanwhile has agreed to the better terms alone."""
    terms = Participation(least_clients=1, hold=1000)
    world = make_world(sqlite_url, terms=terms)
    world.server.tick()
    better = world.another(terms=replace(terms, hold=60))
    better.apply(better.closed())
    assert better.signed().manifest.terms.hold == 60
    with pytest.raises(SettingsError, match=r"terms of epoch 2 would refuse.*not 60"):
        world.another().server.tick()


def test_the_crowd_grows_at_most_to_ten_times_the_first(
    make_world: MakeWorld, sqlite_url: str
) -> None:
    """Whoever accepted the first terms refuses more, however slowly it grew."""
    world = make_world(sqlite_url, terms=Participation(least_clients=2, hold=1000))
    for least in (2, 20, 21):
        grown = world.another(terms=Participation(least_clients=least, hold=1000))
        grown.now = world.now
        if least == 21:
            with pytest.raises(SettingsError, match="terms of epoch 1 would refuse"):
                grown.server.tick()
            break
        grown.apply(grown.closed())
        world.now = grown.now
    assert grown.now > 1100


def test_every_training_has_a_random_id(make_world: MakeWorld, new_url: NewUrl) -> None:
    worlds = [make_world(new_url()) for _ in range(2)]
    for world in worlds:
        world.server.tick()
    first, second = (world.signed().manifest.terms.training for world in worlds)
    assert len(first) == len(second) == 16
    assert first != second
    again = worlds[0].another()
    again.apply(again.closed())
    assert again.signed().manifest.terms.training == first
