"""An evaluation costs less than the training that it judges."""

import time
from collections.abc import Callable

import pytest

from sottovoce.data import leave_one_out, synthetic_people
from sottovoce.simulation import FederatedMF


def measure_seconds(function: Callable[[], object]) -> float:
    started = time.perf_counter()
    function()
    return time.perf_counter() - started


@pytest.mark.slow
def test_an_evaluation_takes_less_time_than_the_training() -> None:
    """Time the two on short histories; with those of netflix-75k it takes less than half."""
    people = synthetic_people(40_000, 1_600, seed=1000)
    assert people.tags is not None
    films = people.tags.tolist()
    split, model = leave_one_out(people, seed=1000), FederatedMF(budget=50, seed=1000)
    # Loops are compiled before they are timed.
    some = split.train.slice(0, 4_000), split.left_out.slice(0, 4_000)
    model.fit(some[0], item_features=films).evaluate(*some)
    training = measure_seconds(lambda: model.fit(split.train))
    evaluation = measure_seconds(
        lambda: model.evaluate(
            split.train, split.left_out, item_features=films, metrics=["ndcg@100"]
        )
    )
    assert evaluation < training
