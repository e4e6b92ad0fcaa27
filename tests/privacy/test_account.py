from __future__ import annotations

import json

import pytest

from sottovoce.errors import SettingsError
from sottovoce.privacy import Crowd, Reporting, account
from sottovoce.privacy.account import shown
from sottovoce.training import Settings, planned


def test_all_spans_are_said_and_grow() -> None:
    found = account(Reporting(2.5, 100, 20), Crowd(50_000), trainings=2)
    assert [figures.span for figures in found.spans] == ["report", "epoch", "training", "lifetime"]
    assert [figures.pure for figures in found.spans] == [2.5, 250.0, 5000.0, 10_000.0]
    centrals = [figures.central for figures in found.spans if figures.central is not None]
    assert len(centrals) == 4
    assert centrals == sorted(centrals)
    assert json.loads(json.dumps(found.as_dict()))["spans"][2]["pure"] == 5000.0


def test_the_papers_setting_is_called_weak_in_so_many_words() -> None:
    alone = account(Reporting(2.5, 100, 20))
    assert alone.weak
    assert "is weak: by itself it protects nobody" in alone.statement()
    assert "There is no central figure" in alone.statement()
    assert "2.5 for a report, 250 for an epoch, 5000 for the whole training" in alone.statement()
    crowded = account(Reporting(2.5, 100, 20), Crowd(50_000))
    assert not crowded.weak
    assert "50,000 honest people" in crowded.statement()
    assert "any conclusion from what the server sees is at most e^" in crowded.statement()
    assert "to hide that a person takes part" in crowded.statement()


def test_a_central_figure_that_is_huge_is_nothing_to_stand_on() -> None:
    assert account(Reporting(6.0, 250, 20), Crowd(50_000)).weak


def test_strong_keeps_its_promise() -> None:
    """Lifetime local <= 10 and central <= 1 at delta 1e-6 with 50,000 people."""
    strong = planned(50_000, 9781, preset="strong").event(9781)
    found = account(strong, Crowd(50_000), 1e-6)
    assert found.lifetime.pure <= 10
    assert found.lifetime.central is not None
    assert found.lifetime.central <= 1
    assert not found.weak
    assert "weak" not in found.statement()


def test_settings_describe_their_event() -> None:
    assert Settings.preset("coordinate").event(100).loud_fraction == 0.5
    assert 0.057 < Settings.preset("loudest").event(9781).loud_fraction < 0.058


def test_nonsense_is_refused() -> None:
    with pytest.raises(SettingsError, match="trainings"):
        account(Reporting(1.0, 1, 1), trainings=0)
    with pytest.raises(SettingsError, match="delta"):
        account(Reporting(1.0, 1, 1), delta=0)


def test_why_there_is_no_central_figure() -> None:
    event = Reporting(1.0, 1, 1)
    unknown, alone = account(event), account(event, 1)
    assert unknown.lifetime.central is alone.lifetime.central is None
    assert "because the number of people is not known" in unknown.statement()
    assert "because an epoch may have no more than one person" in alone.statement()
    assert account(event, 2).lifetime.central == account(event, Crowd(2)).lifetime.central


def test_a_figure_that_is_a_bound_is_called_so() -> None:
    event = Reporting(2.5, 1, 1, 0.058)
    assert "upper bound" not in account(event, 1_000).statement()
    assert account(event, 10**12).statement().count("upper bound") == 1
    assert account(event, 1_000, trainings=10**9).statement().count("upper bound") == 2


@pytest.mark.parametrize(
    ("epsilon", "digits", "said"),
    [
        (7.03812, 4, "7.039"),
        (7.038, 4, "7.038"),
        (0.07, 4, "0.07"),
        (0.1 + 0.2, 6, "0.3"),
        (2256.5661, 6, "2256.57"),
        (99.991, 4, "100"),
        (9.9999999, 6, "10"),
        (0.0, 4, "0"),
        (5e9, 6, "5e+09"),
    ],
)
def test_an_epsilon_is_shown_rounded_up(epsilon: float, digits: int, said: str) -> None:
    assert shown(epsilon, digits) == said
