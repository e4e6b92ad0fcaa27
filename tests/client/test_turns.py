"""Everybody has all of their turns before the training ends, and nobody has more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sottovoce.client.timing import chance, drawn_plan
from sottovoce.privacy import Charge
from tests.client.world import COST, DAY, FakeProxy, World
from tests.protocol.examples import manifest, terms

if TYPE_CHECKING:
    from sottovoce.protocol import Manifest

Coins = Callable[[int], bytes]


@pytest.mark.parametrize(
    ("share", "turns", "epochs_left", "expected"),
    [
        (0.75, 20, 0, 0.75),
        (0.05, 1, 19, 1 / 19),
        (0.25, 5, 20, 0.25),
        (0.3, 5, 20, 0.25),
        (0.05, 5, 5, 1.0),
        (0.05, 5, 2, 2.5),
    ],
    ids=["endless", "below", "equal", "above", "certain", "more turns than epochs"],
)
def test_the_chance_is_what_is_left_and_without_an_end_the_share(
    share: float, turns: int, epochs_left: int, expected: float
) -> None:
    one = manifest(share=share, epochs_left=epochs_left)
    assert chance(one, turns) == expected


def test_turns_are_those_that_were_not_charged() -> None:
    two = terms(epochs=2)
    own, other = (
        Charge(training, 1, bytes(32), "loudest", 1.0, 1, 0.1, 9)
        for training in (two.training, bytes(16))
    )
    charged = [[other] * 5 + [own] * turns for turns in range(4)]
    assert [two.turns_left(charges) for charges in charged] == [2, 1, 0, 0]


@pytest.mark.parametrize(("share", "epochs_left"), [(2**-32, 0), (2**-32, 1), (1.0, 0), (0.5, 3)])
def test_two_coins_are_tossed_whatever_the_chance(share: float, epochs_left: int) -> None:
    asked: list[int] = []

    def entropy(size: int) -> bytes:
        asked.append(size)
        return bytes(size)

    drawn_plan(manifest(share=share, epochs_left=epochs_left), 1, 0.0, 60.0, entropy)
    assert asked == [8, 8]


@cache
def announced(share: float, epochs_left: int) -> Manifest:
    return manifest(share=share, epochs_left=epochs_left)


def life(turns: int, epochs: int, share: float, coins: Coins) -> Iterator[int]:
    """The epochs, counted from 0, in which a device takes part."""
    for epoch in range(epochs):
        one = announced(share, epochs - epoch)
        if turns and drawn_plan(one, turns, 0.0, 0.0, coins).takes_part:
            turns -= 1
            yield epoch


lives = st.integers(1, 40).flatmap(
    lambda epochs: st.tuples(st.integers(1, epochs), st.just(epochs))
)
coins = st.sampled_from([0, 2**64 - 1]) | st.integers(0, 2**64 - 1)


@given(lives, st.data())
def test_every_turn_is_taken_whatever_the_coins(
    lived: tuple[int, int], data: st.DataObject
) -> None:
    turns, epochs = lived

    def entropy(size: int) -> bytes:
        return data.draw(coins).to_bytes(size, "little")

    assert len([*life(turns, epochs, turns / epochs, entropy)]) == turns


@given(lives, st.floats(2**-32, 1), st.integers(0, 2**32))
def test_every_turn_is_taken_whatever_the_share(
    lived: tuple[int, int], share: float, seed: int
) -> None:
    turns, epochs = lived
    assert len([*life(turns, epochs, share, Random(seed).randbytes)]) == turns


EPOCHS, PEOPLE = 20, 5_000


def test_who_has_one_turn_has_it_in_every_epoch_alike() -> None:
    """An honest rule fails with a chance of 1e-7. By the share alone 36 in 100 had none."""
    random = Random(1)
    taken = Counter(
        epoch for _ in range(PEOPLE) for epoch in life(1, EPOCHS, 1 / EPOCHS, random.randbytes)
    )
    assert taken.total() == PEOPLE
    crowds = [taken[epoch] for epoch in range(EPOCHS)]
    assert stats.chisquare(crowds).pvalue > 1e-7


@pytest.mark.parametrize("turns", [1, 2, 7, EPOCHS])
def test_every_crowd_is_of_one_size(turns: int) -> None:
    """Exactly: how many have so many turns left, from epoch to epoch."""
    devices = np.zeros(turns + 1)
    devices[turns] = 1.0
    for epochs_left in range(EPOCHS, 0, -1):
        one = announced(turns / EPOCHS, epochs_left)
        chances = [0.0] + [min(chance(one, left), 1.0) for left in range(1, turns + 1)]
        crowd = devices * chances
        assert crowd.sum() == pytest.approx(turns / EPOCHS)
        devices += np.append(crowd[1:], 0.0) - crowd


# The device itself.


def lived(world: World, folder: Path, random: Random, said: list[int]) -> list[str]:
    """What becomes of epochs whose manifests say that so many are left."""
    proxy = FakeProxy(world, epochs_left=said[0])
    outcomes: list[str] = []
    with world.create(folder, limit=1_000, entropy=random.randbytes) as client:
        for epoch, epochs_left in enumerate(said, 1):
            world.now = (epoch + 0.5) * DAY
            proxy.publish(world.signed(epoch, epochs_left=epochs_left))
            outcomes.append(client.sync(proxy).outcome)
        assert client.status().spent == COST * len(proxy.received)
    assert len(proxy.received) == outcomes.count("sent")
    return outcomes


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("turns", [1, 3])
def test_a_device_has_its_turns_by_the_last_epoch(tmp_path: Path, turns: int, seed: int) -> None:
    world = World(epochs=turns, share=turns / 8)
    outcomes = lived(world, tmp_path / "client", Random(seed), [*range(8, 0, -1)])
    assert outcomes.count("sent") == turns
    assert set(outcomes) <= {"sent", "sitting out", "lifetime over"}


def test_a_device_that_was_away_makes_up_for_it(tmp_path: Path) -> None:
    world = World(epochs=2, share=2**-32)
    outcomes = lived(world, tmp_path / "client", Random(0), [2, 1])
    assert outcomes == ["sent", "sent"]


def test_a_liar_has_the_turns_sooner_and_never_more(tmp_path: Path) -> None:
    """As if every epoch were the last."""
    world = World(epochs=2, share=2**-32)
    outcomes = lived(world, tmp_path / "client", Random(0), [1] * 7)
    assert outcomes == ["sent"] * 2 + ["lifetime over"] * 5


@pytest.mark.parametrize("seed", range(6))
def test_no_lie_gives_more_turns(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    said = random.choices([0, 1, 2, 8, 2**53 - 1], k=8)
    outcomes = lived(World(epochs=2, share=0.5), tmp_path / "client", random, said)
    assert outcomes.count("sent") <= 2
