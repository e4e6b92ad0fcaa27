from __future__ import annotations

from fractions import Fraction
from math import exp

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.privacy import Charge, Group, Promise, Reporting, central_bound, promise
from sottovoce.privacy.account import account, at_most
from tests.protocol.examples import terms

STRONG = Reporting(5.0, 1, 2, 0.0318)


def charge(
    epsilon: float = 5.0,
    reports: int = 1,
    loud_fraction: float = 0.0318,
    clients: int = 1_000,
    training: bytes = bytes(16),
) -> Charge:
    return Charge(training, 1, bytes(32), "loudest", epsilon, reports, loud_fraction, clients)


def test_it_is_of_a_whole_lifetime_in_the_enforced_crowd() -> None:
    found = promise(STRONG, 100)
    assert found == Promise(10.0, central_bound([Group(STRONG, 100)], 1e-6), 100, 1e-6)
    assert 7 < found.central < 8  # not the 0.43 of 50,000 people whom nobody enforces
    assert promise(STRONG, 50_000).central < 0.5
    assert promise(STRONG, 100, delta=1e-9).central > found.central


# After other trainings.


@pytest.mark.parametrize("trainings", [1, 2, 3])
def test_every_training_counts_in_both_figures(trainings: int) -> None:
    asked = terms(epsilon=5.0, reports=1, epochs=2, loud_fraction=0.0318, least_clients=1_000)
    earlier = [charge(training=bytes([n]) * 16) for n in range(trainings - 1) for _ in range(2)]
    found = asked.promise(earlier)
    whole = Reporting(5.0, 1, 2 * trainings, 0.0318)
    assert found.local == 10 * trainings
    assert found.central == pytest.approx(central_bound([Group(whole, 1_000)], 1e-6), rel=1e-12)


def test_a_training_promises_the_same_from_its_first_epoch_to_its_last() -> None:
    asked = terms(epsilon=5.0, reports=1, epochs=2, loud_fraction=0.0318, least_clients=1_000)
    own = charge(training=asked.training)
    assert asked.promise() == asked.promise([own]) == asked.promise([own, own])


def test_each_report_counts_in_the_crowd_that_was_enforced_for_it() -> None:
    few, many = charge(2.5, 4, clients=100), charge(2.5, 4, clients=100_000)
    assert promise(STRONG, 1_000, [few]).central > promise(STRONG, 1_000, [many]).central
    found = promise(STRONG, 1_000, [many])
    parts = [Group(STRONG, 1_000), Group(Reporting(2.5, 4, 1, 0.0318), 100_000)]
    assert found.central == pytest.approx(central_bound(parts, 1e-6), rel=1e-12)


def test_one_kind_of_reports_counts_in_the_least_of_its_crowds() -> None:
    three = Group(Reporting(5.0, 3, 1, 0.0318), 400)
    assert promise(STRONG, 1_000, [charge(clients=400)]).central == central_bound([three], 1e-6)


def test_a_report_that_nobody_hid_makes_nothing_worse_for_the_others() -> None:
    found = promise(STRONG, 1_000, [charge(clients=1)])
    assert found.central == promise(STRONG, 1_000).central + 5
    assert promise(None, 1, [charge(clients=1)]).central == 5


def test_nothing_is_left_and_everything_counts() -> None:
    assert promise(None, 1_000, [charge()] * 3).local == 15


kinds = st.builds(
    charge,
    st.sampled_from([0.1, 0.3, 1.0, 2.5, 7.0]),
    st.integers(1, 20),
    st.sampled_from([0.01, 0.165, 0.5]),
    st.sampled_from([1, 2, 90, 3_000]),
)


@settings(max_examples=25, deadline=None)
@given(kinds, st.integers(1, 5), st.lists(kinds, max_size=4), st.data())
def test_whatever_is_charged_under_it_the_promise_was_no_less(
    asked: Charge, epochs: int, earlier: list[Charge], data: st.DataObject
) -> None:
    """A server may ask for less in any epoch, never for more, and never for more epochs."""
    agreed = terms(
        epsilon=asked.epsilon,
        reports=asked.reports,
        epochs=epochs,
        loud_fraction=asked.loud_fraction,
        least_clients=asked.clients,
    )
    charges = list(earlier)
    promised = agreed.promise(charges)
    for _ in range(epochs):
        reports = data.draw(st.integers(1, asked.reports))
        charges.append(charge(asked.epsilon, reports, training=agreed.training))
        assert promised.local >= sum(each.cost for each in charges)
        assert agreed.promise(charges).local <= promised.local
    assert agreed.turns_left(charges) == 0


@settings(max_examples=25, deadline=None)
@given(st.lists(kinds, max_size=5), kinds)
def test_no_charge_makes_a_promise_smaller(before: list[Charge], another: Charge) -> None:
    """Sizes are grouped a little differently for another number of rounds: within 1%."""
    left, right = promise(STRONG, 500, before), promise(STRONG, 500, [*before, another])
    assert right.local >= left.local
    assert right.central >= left.central * 0.99
    assert right.central <= right.local
    assert Fraction(right.local) >= 10 + sum(each.cost for each in [*before, another])


# In words.


def test_the_sentence_says_both_and_what_they_rest_on() -> None:
    said = promise(STRONG, 50_000).sentence()
    for part in (
        "Whatever happens, even if every report can be traced to this device",
        "any conclusion from all that it has reported and may still report under these terms is at",
        "at most e^10 times as likely as with any other history.",
        "If the proxy mixes honestly and does not work together with the server",
        "at least as many honest devices report as its terms ask for (now 50,000)",
        "at most e^0.428 (1.54) times as likely as with any other history, plus at most one",
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


def test_a_delta_is_added_and_no_probability_that_all_else_holds() -> None:
    """`P[S] <= e^eps Q[S] + delta`, and the same words from the accountant and from a device."""
    statement = account(STRONG, 50_000).statement()
    said = promise(STRONG, 50_000).sentence()
    for text in (statement, said):
        assert "with probability" not in text
        assert "but for a chance" not in text
        assert ", plus at most one in 1,000,000" in text
        assert at_most(10.0) in text
    central = account(STRONG, 50_000).lifetime.central
    assert central is not None
    assert at_most(central, 1e-6, digits=4) in statement


@given(st.floats(1e-9, 9.99), st.floats(1e-30, 0.999))
def test_figures_are_rounded_against_us(epsilon: float, delta: float) -> None:
    power, picture, chance = numbers(at_most(epsilon, delta))
    assert epsilon * (1 - 1e-14) <= power <= epsilon * 1.011
    assert exp(epsilon) * (1 - 1e-14) <= picture <= exp(epsilon) * 1.011
    assert delta * (1 - 1e-14) <= 1 / chance <= delta * 1.001


def numbers(text: str) -> tuple[float, float, float]:
    power, picture, rest = text.removeprefix("at most e^").replace(",", "").split(" ", 2)
    return float(power), float(picture.strip("()")), float(rest.rsplit(" ", 1)[1])


@pytest.mark.parametrize(
    ("epsilon", "shown"),
    [
        (0.4271, "e^0.428 (1.54) "),
        (1.0, "e^1 (2.72) "),
        (1.0000000000000002, "e^1 (2.72) "),
        (9.99, "e^9.99 (21,900) "),
        (5000.0, "e^5,000 "),
        (3.6e21, "e^3,600,000,000,000,000,000,000 "),
    ],
)
def test_a_figure_and_its_picture(epsilon: float, shown: str) -> None:
    assert shown in at_most(epsilon)
