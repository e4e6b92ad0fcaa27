"""The engine for a cluster: real processes of Ray, and machines that are lost."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sottovoce.mechanism import MECHANISMS
from sottovoce.simulation import ENGINES, build_engine
from sottovoce.training import Settings, first_items
from tests.people import random_people
from tests.simulation import test_engine as contract

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sottovoce.simulation import Engine

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.slow
PEOPLE = random_people(300, 60, seed=9, most=40)
PLAN = Settings.preset("loudest", factors=3, reports=4, seed=5)
V = first_items(PLAN, 60)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """This machine, of which Ray believes that it is two."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_TMPDIR", "/tmp")  # names of sockets are short
        made = Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
        ray.init(made.address, log_to_driver=False, logging_level="ERROR")
        yield made
        ray.shutdown()
        made.shutdown()


@pytest.fixture(autouse=True)
def connected(cluster: Any) -> None:
    assert ray.is_initialized()


def on_ray(workers: int, **options: Any) -> Engine:
    return build_engine("ray", PEOPLE, PLAN, ray_workers=workers, **options)


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_any_number_of_workers_gives_the_same(workers: int, mechanism: str) -> None:
    plan = Settings.preset(mechanism, factors=3, reports=4, seed=5)
    with (
        build_engine("ray", PEOPLE, plan, ray_workers=workers) as ours,
        build_engine("reference", PEOPLE, plan) as expected,
    ):
        assert ours.name == "ray"
        assert len({*ours.each(lambda _: os.getpid())}) == workers
        assert os.getpid() not in ours.each(lambda _: os.getpid())
        found, wanted = ours.collect(V, 2), expected.collect(V, 2)
        assert np.array_equal(found.sums, wanted.sums)
        assert found.n_reports == wanted.n_reports
        assert np.array_equal(ours.reports(V, 2), expected.reports(V, 2))
        assert np.array_equal(ours.user_vectors(V), expected.user_vectors(V))


def test_the_contract_of_engines() -> None:
    """The parts of it that ask for something else than the reports of an epoch."""
    assert {*contract.QUICK, "ray"} == {*ENGINES, contract.STREAMED}
    contract.test_shards_add_up_to_the_whole("ray", "coordinate")
    contract.test_an_engine_is_closed_by_its_block("ray")
    contract.test_an_item_matrix_in_another_layout_gives_the_same_bits("ray")
    contract.test_an_item_matrix_of_another_shape_is_refused("ray", (5, 3))
    contract.test_ranks_are_those_of_the_user_vectors("ray", 7)
    contract.test_ranks_are_those_of_the_user_vectors("ray", 0)
    contract.test_an_update_that_leaves_the_bounds_is_an_error("ray")


@pytest.mark.parametrize("resample", [None, 150])
def test_people_who_take_turns_and_people_who_are_made(resample: int | None) -> None:
    contract.test_epochs_in_which_people_take_turns_are_the_references(
        "ray", "loudest", resample, True
    )


def test_more_workers_than_people_and_more_than_are_added_at_once() -> None:
    few = random_people(2, 20, seed=1)
    V = first_items(PLAN, 20)
    with build_engine("ray", few, PLAN, ray_workers=9) as ours:
        assert np.array_equal(
            ours.collect(V, 0).sums, build_engine("cpu", few, PLAN).collect(V, 0).sums
        )
    with on_ray(10) as ours:
        found = ours.collect(V := first_items(PLAN, 60), 0)
    assert np.array_equal(found.sums, build_engine("cpu", PEOPLE, PLAN).collect(V, 0).sums)
