"""The live system and the simulator are one system: the same coins, the same sums, the same V."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from sottovoce.client import Client
from sottovoce.core import MECHANISMS, Histories
from sottovoce.simulation import build_engine
from sottovoce.simulation.people import report_words
from sottovoce.simulation.training import begin, train
from sottovoce.training import Settings
from tests.kernels import COMPILED
from tests.live.stack import Stack, running
from tests.people import random_people
from tests.server.world import ITEMS

SEED = 5


def join(stack: Stack, people: Histories) -> list[Client]:
    return [
        stack.client(str(user), [f"film-{number}" for number in people[user]])
        for user in range(people.n_users)
    ]


def report(stack: Stack, clients: list[Client], epoch: int) -> None:
    """Everybody syncs, at the proxies in turn, with the simulator's coins."""
    gates = list(stack.gates.values())
    for user, client in enumerate(clients):

        def words(n_users: int, reports: int, user: int = user) -> NDArray[np.uint64]:
            assert n_users == 1
            return report_words(SEED, epoch - 1, np.array([user]), reports)

        synced = client.sync(gates[user % len(gates)].api(), words=words, jitter=0)
        assert (synced.epoch, synced.outcome) == (epoch, "sent")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mechanism", "n_users", "epochs", "proxies"),
    [
        ("loudest", 120, 3, ("east",)),
        ("loudest", 60, 2, ("east", "west")),
        *((name, 60, 2, ("east",)) for name in MECHANISMS if name != "loudest"),
    ],
)
def test_live_and_simulated_are_the_same_bits(
    folder: Path, mechanism: str, n_users: int, epochs: int, proxies: tuple[str, ...]
) -> None:
    plan = Settings.preset(mechanism, reports=5, epochs=epochs, factors=2, seed=SEED)
    people = random_people(n_users, ITEMS, seed=3)
    assert any(not len(people[user]) for user in range(n_users)), "somebody has no history"
    engine = build_engine("cpu" if mechanism in COMPILED else "reference", people, plan)
    V = begin(plan, ITEMS).V
    with running(folder / "stack", *proxies, training=plan, least_clients=20) as stack:
        clients = join(stack, people)
        for epoch, state in enumerate(train(plan, engine, begin(plan, ITEMS)), 1):
            assert np.array_equal(stack.model(), V)
            simulated = engine.collect(V, epoch - 1)
            report(stack, clients, epoch)
            assert stack.turn() == epoch
            assert np.array_equal(stack.world.sums(epoch), simulated.sums)
            assert stack.world.counts(epoch)[1:] == (simulated.n_reports, 0, 0)
            V = state.V
            assert np.array_equal(stack.model(), V), f"V after epoch {epoch}"
        assert stack.world.signed().manifest.public_key is None
