"""False names: how many lift an item, by search, and among people whose last items are known."""

import numpy as np
import pytest

from lab.tests.replay.living import make_living_people
from sottovoce_lab.paper.poisoning.names import (
    LIST_LENGTH,
    NamingEpoch,
    measure_attack,
    simulate_epochs,
)
from sottovoce_lab.replay.timeline import Timeline

N_REPORTS = 300


@pytest.fixture(scope="module")
def timeline() -> Timeline:
    return Timeline.from_data(make_living_people(n_users=600, n_items=60), 6)


@pytest.fixture(scope="module")
def last_epoch(timeline: Timeline) -> NamingEpoch:
    *_, last = simulate_epochs(timeline, N_REPORTS, epsilon=10.0, seed=0)
    return last


def is_listed(epoch: NamingEpoch, item: int, n_false: int) -> bool:
    shares = epoch.add_reports(item, n_false).compute_shares()
    return item in np.argsort(-shares, kind="stable")[:LIST_LENGTH]


def test_one_false_report_less_does_not_lift_the_item(
    timeline: Timeline, last_epoch: NamingEpoch
) -> None:
    item = timeline.histories.n_items
    needed = last_epoch.count_false_reports(item)
    assert 1 < needed < last_epoch.reports / 2
    assert is_listed(last_epoch, item, needed + 1)
    assert not is_listed(last_epoch, item, needed - 1)


def test_people_name_what_they_touched_last(timeline: Timeline, last_epoch: NamingEpoch) -> None:
    assert last_epoch.reports == last_epoch.exact_counts.sum() == N_REPORTS
    # At this epsilon and number of items, nearly all reports are true.
    assert np.abs(last_epoch.counts[1 : 1 + 61] - last_epoch.exact_counts).max() <= 6
    top = np.sort(last_epoch.exact_counts)[-LIST_LENGTH]
    assert last_epoch.count_false_people() == top


def test_row_has_the_means_of_the_later_periods(timeline: Timeline) -> None:
    few = measure_attack(timeline, 100, 10.0, seed=1)
    many = measure_attack(timeline, N_REPORTS, 10.0, seed=1)
    assert (few["reports"], few["honest"], few["address"]) == ("100", "100", "20")
    assert float(many["false"]) > float(few["false"]) > float(few["exact"]) > 0
