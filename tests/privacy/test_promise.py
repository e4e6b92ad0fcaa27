from __future__ import annotations

from math import exp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.privacy import Promise, Reporting, central_bound, promise
from sottovoce.privacy.account import up

STRONG = Reporting(5.0, 1, 2, 0.0318)


def test_it_is_of_a_whole_lifetime_in_the_enforced_crowd() -> None:
    found = promise(STRONG, 100)
    assert found == Promise(10.0, central_bound(STRONG, 100, 1e-6), 100, 1e-6)
    assert 7 < found.central < 8  # not the 0.43 of 50,000 people whom nobody enforces
    assert promise(STRONG, 50_000).central < 0.5
    assert promise(STRONG, 100, delta=1e-9).central > found.central


def test_the_sentence_says_both_and_what_they_rest_on() -> None:
    said = promise(STRONG, 50_000).sentence()
    for part in (
        "Whatever happens, even if every report can be traced to this device",
        "at most e^10 times likelier",
        "If the proxy mixes honestly and does not work together with the server",
        "at least 50,000 honest devices",
        "at most e^0.428 (1.54) times likelier",
        "but for a chance of one in 1,000,000",
        "for one device, not for one person: what several devices of a person say adds up",
    ):
        assert part in said
    assert "weak" not in said


def test_without_a_crowd_nothing_is_promised_of_it() -> None:
    said = promise(STRONG, 1).sentence()
    assert "The crowd that is asked for adds nothing to this" in said
    assert "proxy" not in said
    assert said.count("e^") == 1


def test_what_is_weak_is_called_so() -> None:
    paper = Reporting(2.5, 100, 20)
    assert promise(paper, 100).weak
    assert "Both are weak: they protect nobody." in promise(paper, 100).sentence()
    assert not promise(paper, 50_000).weak
    assert not promise(STRONG, 2).weak


@given(st.floats(1e-9, 1e9))
def test_figures_are_rounded_against_us(value: float) -> None:
    assert value * (1 - 1e-12) <= up(value, 3) <= value * 1.011


@pytest.mark.parametrize(("epsilon", "shown"), [(0.4271, "e^0.428 (1.54)"), (1.0, "e^1 (2.72)")])
def test_a_figure_and_its_picture(epsilon: float, shown: str) -> None:
    said = Promise(epsilon, epsilon, 2, 1e-6).sentence()
    assert shown in said
    assert float(shown.split("(")[1][:-1]) >= exp(epsilon)
