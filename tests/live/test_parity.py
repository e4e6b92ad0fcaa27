"""The live system and the simulator are one system: the same coins, the same sums, the same V."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chisquare

from sottovoce.client import Client
from sottovoce.core import MECHANISMS, Histories, count_reports, sum_counts
from sottovoce.simulation import build_engine
from sottovoce.simulation.random_words import draw_report_words
from sottovoce.simulation.training import start_training, train
from sottovoce.training import Settings, compute_next_items
from sottovoce.training.items import DEFAULT_ROW_LIMIT
from sottovoce.training.planning import START_MECHANISMS
from tests.kernels import COMPILED
from tests.live.stack import Stack, run_stack
from tests.people import random_people
from tests.server.world import ITEMS, make_start, write_start

COIN_SEED = 5
N_PEOPLE = 30
N_DUMMIES = 10_000


def join(stack: Stack, people: Histories) -> list[Client]:
    return [
        stack.add_client(str(user), [f"film-{number}" for number in people[user]])
        for user in range(people.n_users)
    ]


def report(stack: Stack, clients: list[Client], epoch: int) -> None:
    """Sync everybody, at the proxies in turn, with the simulator's coins."""
    gates = list(stack.gates.values())
    for user, client in enumerate(clients):

        def draw_words(n_users: int, reports: int, user: int = user) -> NDArray[np.uint64]:
            assert n_users == 1
            return draw_report_words(COIN_SEED, epoch - 1, np.array([user]), reports)

        synced = client.sync(gates[user % len(gates)].make_api(), draw_words=draw_words, jitter=0)
        assert (synced.epoch, synced.outcome) == (epoch, "sent")


@pytest.mark.slow
def test_live_epoch_of_few_people_and_many_dummies(folder: Path) -> None:
    # Without the simulated reports, dummies remain: uniform, and of the planned number. The model
    # moves by all of them as by people's. Chance fails the test once in 1e6.
    plan = Settings.preset(
        "loudest", reports=5, epochs=1, factors=2, seed=COIN_SEED, dummies=N_DUMMIES
    )
    people = random_people(20, ITEMS, seed=3)
    engine, V = build_engine("reference", people, plan), start_training(plan, ITEMS).V
    simulated = count_reports(engine.list_reports(V, 0), engine.mechanism.n_directions)
    with run_stack(folder / "stack", training=plan, min_clients=1, chunk_reports=3_500) as stack:
        report(stack, join(stack, people), 1)
        stack.world.now = stack.world.get_signed().manifest.closes
        for beat in 2 * (stack.tick, stack.gates["east"].tick):
            beat()
        with stack.world.store.read() as transaction:
            counted = transaction.get_counts(1)["east"]
        stack.hand_in()
        model, row, sums = (
            stack.load_model(),
            stack.world.server.list_epochs()[0],
            stack.world.get_sums(1),
        )
    others = counted - simulated
    assert (simulated.sum(), others.sum(), others.min() >= 0) == (100, N_DUMMIES, True)
    assert chisquare(others).pvalue > 1e-6
    assert (row.state, row.reports, row.undecodable, row.capped) == ("applied", 100, 0, 0)
    assert np.array_equal(sums, sum_counts(counted))
    expected = compute_next_items(
        V, sums, 100, 1, plan, engine.mechanism, row_limit=DEFAULT_ROW_LIMIT
    )
    assert np.array_equal(model, expected)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mechanism", "epochs", "proxies", "row_limit", "has_start"),
    [
        ("loudest", 3, ("east",), 0.0, False),
        ("loudest", 2, ("east", "west"), DEFAULT_ROW_LIMIT, False),
        *((name, 2, ("east",), 0.05, False) for name in MECHANISMS if name != "loudest"),
        *((name, 2, ("east",), DEFAULT_ROW_LIMIT, True) for name in START_MECHANISMS),
    ],
)
def test_live_and_simulated_models_are_equal_to_the_bit(
    folder: Path,
    mechanism: str,
    epochs: int,
    proxies: tuple[str, ...],
    row_limit: float,
    has_start: bool,
) -> None:
    """Rows are limited at 0.05, which shortens nearly every row of so short a training."""
    # In a training of names one column has the shares; otherwise it begins as noise.
    factors = 3 if has_start else 2
    plan = Settings.preset(mechanism, reports=5, epochs=epochs, factors=factors, seed=COIN_SEED)
    people = random_people(N_PEOPLE, ITEMS, seed=3)
    assert any(not len(people[user]) for user in range(N_PEOPLE)), "somebody has no history"
    engine = build_engine("cpu" if mechanism in COMPILED else "reference", people, plan)
    changes = {"training": plan, "min_clients": 10, "row_limit": row_limit}
    start = None
    if has_start:
        start = make_start().select_items(f"film-{number}" for number in range(ITEMS))
        changes["start"] = write_start(folder)
    V = start_training(plan, ITEMS, start).V
    with run_stack(folder / "stack", *proxies, **changes) as stack:
        clients = join(stack, people)
        states = train(plan, engine, start_training(plan, ITEMS, start), row_limit=row_limit)
        for epoch, state in enumerate(states, 1):
            assert np.array_equal(stack.load_model(), V)
            simulated = engine.collect(V, epoch - 1)
            report(stack, clients, epoch)
            assert stack.end_epoch() == epoch
            assert np.array_equal(stack.world.get_sums(epoch), simulated.sums)
            assert stack.world.get_counts(epoch)[1:] == (simulated.n_reports, 0, 0)
            V = state.V
            assert np.array_equal(stack.load_model(), V), f"V after epoch {epoch}"
        assert stack.world.get_signed().manifest.public_key is None
