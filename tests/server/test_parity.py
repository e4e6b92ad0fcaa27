"""The live server and the simulator are one algorithm: the same reports give the same bits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from sottovoce.mechanism import MECHANISMS
from sottovoce.protocol import decode_items
from sottovoce.simulation import build_engine
from sottovoce.simulation.loop import begin, train
from sottovoce.training import Settings
from tests.people import random_people
from tests.server.world import ITEMS, World, chunks_of, sealed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tests.server.conftest import MakeWorld


def model_of(world: World) -> NDArray[np.float32]:
    manifest = world.signed().manifest
    content = world.server.model(manifest.model)
    assert content is not None
    return decode_items(content, ITEMS, manifest.factors)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_three_epochs_live_are_three_epochs_simulated(
    make_world: MakeWorld, url: str, mechanism: str
) -> None:
    plan = Settings.preset(mechanism, reports=4, epochs=3, factors=2, seed=5)
    world = make_world(url, training=plan)
    people = random_people(60, ITEMS, seed=3)
    engine = build_engine("cpu", people, plan)
    simulated = train(plan, engine, begin(plan, ITEMS))
    rng = np.random.default_rng(8)
    for epoch, state in enumerate(simulated, 1):
        signed = world.closed()
        reports = rng.permutation(engine.reports(model_of(world), epoch - 1).ravel())
        chunks = chunks_of(sealed(reports, signed), signed, 97)
        for number, chunk in enumerate(chunks):
            world.send(("east", "west")[number % 2], chunk)
        world.commit("east", signed, chunks[::2])
        world.commit("west", signed, chunks[1::2])
        world.server.tick()
        assert world.counts(epoch)[1] == 240
        assert np.array_equal(model_of(world), state.V)
    assert world.signed().manifest.public_key is None
