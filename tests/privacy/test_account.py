"""The account of a training and the promise to a device: figures for all that was and may be said.

`tests/vectors/promises.json` has what any client must promise under given terms. Terms, what was
charged before, and a limit go in. The epsilons of everything come out, `local` exactly, `central`
and `alone` to a relative 1e-9 (sums and elementary functions may round differently); the turns that
are left, how many of them the limit allows; in words, what a person is asked within that limit, and
the figures behind it. The file changes only when the promise does.
To write it anew: `python -m tests.privacy.test_account`.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import exp
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.errors import SettingsError
from sottovoce.privacy import Charge, Ledger, Promise, Reporting, account, promise
from sottovoce.privacy.account import at_most, shown
from sottovoce.privacy.bound import Group, central_bound
from sottovoce.training import planned
from tests.protocol.examples import terms


def test_all_spans_are_said_and_grow() -> None:
    found = account(Reporting(2.5, 100, 20), 50_000)
    assert [figures.span for figures in found.spans] == ["report", "epoch", "training"]
    assert [figures.pure for figures in found.spans] == [2.5, 250.0, 5000.0]
    centrals = [figures.central for figures in found.spans if figures.central is not None]
    assert len(centrals) == 3
    assert centrals == sorted(centrals)
    assert json.loads(json.dumps(found.as_dict()))["spans"][2]["pure"] == 5000.0


def test_the_papers_setting_is_weak_without_a_crowd() -> None:
    alone = account(Reporting(2.5, 100, 20))
    assert alone.weak
    assert "weak" in alone.statement()
    assert not account(Reporting(2.5, 100, 20), 50_000).weak
    assert account(Reporting(6.0, 250, 20), 50_000).weak


def test_weak_begins_where_a_device_says_that_nobody_is_protected() -> None:
    few = account(Reporting(10.0, 5, 1), 566)
    assert few.weak
    assert few.statement().count("weak") == 2
    assert account(Reporting(10.0, 1, 1), 566).statement().count("weak") == 0


def test_strong_keeps_its_promise() -> None:
    """Lifetime local <= 10 and central <= 1 at delta 1e-6 with 50,000 people."""
    strong = planned(50_000, 9781, preset="strong").event(9781)
    found = account(strong, 50_000, 1e-6)
    assert found.whole.pure <= 10
    assert found.whole.central is not None
    assert found.whole.central <= 1
    assert not found.weak
    assert "weak" not in found.statement()


def test_nonsense_is_refused() -> None:
    with pytest.raises(SettingsError):
        account(Reporting(1.0, 1, 1), delta=0)


def test_there_is_no_central_figure_without_a_crowd() -> None:
    event = Reporting(1.0, 1, 1)
    assert account(event).whole.central is account(event, 1).whole.central is None
    assert account(event, 2).whole.central is not None


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


STRONG = Reporting(5.0, 1, 2, 0.0318)


def charge(
    epsilon: float = 5.0,
    reports: int = 1,
    loud_fraction: float = 0.0318,
    clients: int = 1_000,
    training: bytes = bytes(16),
    dummies: int = 0,
) -> Charge:
    kind = (epsilon, reports, loud_fraction, clients, dummies)
    return Charge(training, 1, bytes(32), "loudest", *kind)


def test_it_is_of_a_whole_lifetime_in_the_enforced_crowd() -> None:
    found = promise(STRONG, 100)
    assert found == Promise(10.0, central_bound([Group(STRONG, 100)], 1e-6), 10.0, 100, 1e-6)
    assert 7 < found.central < 8  # not the 0.43 of 50,000 people whom nobody enforces
    assert promise(STRONG, 50_000).central < 0.5
    assert promise(STRONG, 100, delta=1e-9).central > found.central


def test_dummies_hide_who_is_alone() -> None:
    """Whatever a server charged for before, at the fewest of its dummies."""
    helped = replace(STRONG, dummies=50_000)
    among_many, among_none = promise(helped, 50_000), promise(helped, 1)
    assert among_many.central < among_many.alone == among_none.alone == among_none.central < 0.5
    assert promise(STRONG, 50_000).alone == promise(STRONG, 50_000).local
    earlier = [charge(clients=1, dummies=50_000), charge(clients=50_000)]
    found = promise(helped, 50_000, earlier)
    assert 5 < found.alone < 6  # one report was hidden by people alone
    assert found.central < 1
    fewer = promise(helped, 50_000, [charge(clients=1, dummies=5_000)])
    assert fewer.alone > promise(helped, 50_000, [charge(clients=1, dummies=50_000)]).alone


def test_a_training_promises_the_same_from_its_first_epoch_to_its_last() -> None:
    asked = terms(epsilon=5.0, reports=1, epochs=2, loud_fraction=0.0318, least_clients=1_000)
    own = charge(training=asked.training, dummies=asked.dummies)
    assert asked.promise() == asked.promise([own]) == asked.promise([own, own])


kinds = st.builds(
    charge,
    st.sampled_from([0.1, 0.3, 1.0, 2.5, 7.0]),
    st.integers(1, 20),
    st.sampled_from([0.01, 0.165, 0.5]),
    st.sampled_from([1, 2, 90, 3_000]),
    dummies=st.sampled_from([0, 1, 2_000]),
)


@settings(max_examples=10, deadline=None)
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
        dummies=asked.dummies,
    )
    charges = list(earlier)
    promised = agreed.promise(charges)
    for _ in range(epochs):
        reports = data.draw(st.integers(1, asked.reports))
        charges.append(charge(asked.epsilon, reports, training=agreed.training))
        assert promised.local >= sum(each.cost for each in charges)
        assert agreed.promise(charges).local <= promised.local
    assert agreed.turns_left(charges) == 0


@settings(max_examples=12, deadline=None)
@given(st.lists(kinds, max_size=5), kinds)
def test_no_charge_makes_a_promise_smaller(before: list[Charge], another: Charge) -> None:
    """Sizes are grouped a little differently for another number of rounds: within 1%."""
    left, right = promise(STRONG, 500, before), promise(STRONG, 500, [*before, another])
    assert right.local >= left.local
    assert right.central >= left.central * 0.99
    assert right.central <= right.alone <= right.local
    assert Fraction(right.local) >= 10 + sum(each.cost for each in [*before, another])


Unit = Literal["account", "device"] | None


def asked(
    event: Reporting, clients: int, charges: Sequence[Charge] = (), unit: Unit = None
) -> list[str]:
    return promise(event, clients, charges, unit=unit).in_short(event.total)


def test_what_a_person_is_asked() -> None:
    """What the demo asks for; a crowd that may be fake; nobody to hide among; nothing to hide."""
    leaves, tells, stops = asked(Reporting(10.0, 1, 1, 0.0011, 75_040), 1)
    assert leaves == (
        "Your history stays here; at most 1 report, blurred by chance, goes through a proxy to a "
        "server."
    )
    assert tells == (
        "A 50:50 guess about it is then right at most 67 times in 100, or 99.996 if the proxy "
        "cheats."
    )
    assert stops == "You can stop at any time, but not undo what has left."
    leaves, tells, _ = asked(Reporting(2.5, 100, 2), 1_000_000)
    assert "at most 200 reports, blurred by chance, go" in leaves
    assert "or always if others are fake or the proxy cheats." in tells
    assert asked(Reporting(5.0, 1, 2), 1)[1].endswith(" is then right at most 99.996 times in 100.")
    for hopeless in (Reporting(64.0, 20, 1), Reporting(50.0, 1, 1), Reporting(2.5, 100, 20)):
        assert asked(hopeless, 100)[1].startswith("This protects nobody:")
    assert "no more reports leave" in promise(None, 100, [charge()]).in_short(0)[0]


def test_with_accounts_the_promise_is_for_one_account() -> None:
    """As far as an honest proxy counts, and where no device keeps back what another may send."""
    numbers = {"epsilon": 5.0, "reports": 1, "epochs": 2, "loud_fraction": 0.0318, "dummies": 0}
    plain = terms(**numbers, least_clients=50_000)
    with_accounts = replace(plain, accounts=True)
    assert with_accounts.promise() == replace(plain.promise(), unit="account")
    assert with_accounts.in_short([], 2)[1] == (
        "A 50:50 guess about it is then right at most 61 times in 100 for one account, or 99.996 "
        "for one device if others are fake or the proxy cheats."
    )
    assert with_accounts.in_short([], 1)[1] == (
        "A 50:50 guess about it is then right at most 58 times in 100 for one device, or 99.4 if "
        "others are fake or the proxy cheats."
    )
    assert replace(with_accounts, least_clients=1).in_short([], 2)[1] == (
        "A 50:50 guess about it is then right at most 99.996 times in 100 for one account, or "
        "99.996 for one device if the proxy cheats."
    )
    (_, linked), (_, mixed), (_, meaning) = with_accounts.promise().in_figures()
    assert linked == plain.promise().in_figures()[0][1]
    assert "as many honest accounts report" in mixed
    assert "for one account, whose devices share its reports" in meaning


def test_a_limit_stops_what_is_said_to_leave() -> None:
    asked = terms(epsilon=2.5, reports=1, epochs=20, least_clients=1, dummies=0)
    assert asked.promise().in_short(20)[1].startswith("This protects nobody")
    assert "right at most 93 times in 100." in asked.promise(turns=1).in_short(1)[1]
    assert asked.promise([charge()] * 3, turns=0).local == 15


def grade(text: str) -> float:
    """Flesch-Kincaid: years at school that a text needs. Figures have no syllables here."""
    words = re.findall(r"[a-z]+", text.lower())
    spoken = [re.sub(r"([^laeiouy])(es?|ed)$", r"\1", word) for word in words]
    syllables = sum(max(1, len(re.findall(r"[aeiouy]{1,2}", word))) for word in spoken)
    length = len(text.split()) / len(re.findall(r"[.!?](?= |$)", text))
    return 0.39 * length + 11.8 * syllables / len(words) - 15.59


@pytest.mark.parametrize("unit", [None, "account"])
@pytest.mark.parametrize("epochs", [1, 20, 200])
@pytest.mark.parametrize(("epsilon", "reports"), [(10, 1), (5, 1), (0.5, 4), (2.5, 100), (12, 1)])
@pytest.mark.parametrize(("clients", "dummies"), [(1, 0), (100, 0), (50_000, 0), (20, 20_000)])
def test_somebody_of_fourteen_can_read_it(
    epsilon: float, reports: int, epochs: int, clients: int, dummies: int, unit: Unit
) -> None:
    event = Reporting(epsilon, reports, epochs, 0.03, dummies * reports)
    said = asked(event, clients, unit=unit)
    assert len(said) == 3
    assert len(" ".join(said).split()) <= 60
    assert grade(" ".join(said)) <= 8


def test_dummies_are_named_only_where_there_are_any() -> None:
    """Three times 3.3 is 9.9 but for rounding."""
    found = promise(Reporting(3.3, 1, 3, 0.03), 50_000)
    assert found.alone == found.local > found.central
    assert "others are fake" in found.in_short(3)[1]


@given(st.floats(1e-9, 12), st.floats(1e-12, 1e-3))
def test_a_guess_is_never_better_than_it_is_said(epsilon: float, delta: float) -> None:
    """Randomised response with a chance delta to tell all is the best that a guess can have."""
    best = 100 * (exp(epsilon) + delta) / (exp(epsilon) + 1)
    said = Promise(20.0, epsilon, 20.0, 9, delta).in_short(1)[1]
    if epsilon <= 10:
        times = float(said.partition("at most ")[2].split()[0])
        assert best - 1e-6 <= times < min(100, best + 1)


@given(st.floats(1e-9, 9.99), st.floats(1e-30, 0.999))
def test_figures_are_rounded_against_us(epsilon: float, delta: float) -> None:
    power, picture, chance = numbers(at_most(epsilon, delta))
    assert epsilon * (1 - 1e-14) <= power <= epsilon * 1.011
    assert exp(epsilon) * (1 - 1e-14) <= picture <= exp(epsilon) * 1.011
    assert delta * (1 - 1e-14) <= 1 / chance <= delta * 1.001


def numbers(text: str) -> tuple[float, float, float]:
    power, picture, rest = text.removeprefix("at most e^").replace(",", "").split(" ", 2)
    return float(power), float(picture.strip("()")), float(rest.rsplit(" ", 1)[1])


FILE = Path(__file__).parents[1] / "vectors" / "promises.json"
NAMES = ("epsilon", "loud_fraction", "reports", "epochs", "clients", "delta", "dummies")
Numbers = tuple[float, ...]
"""In the order of `NAMES`; no dummies where none are named."""
LIMIT = 30.0
ALONE: list[Numbers] = [
    # The presets, at the default crowd and at large ones.
    *((5.0, 0.0318, 1, 2, clients, 1e-6) for clients in (1, 2, 100, 1_000, 50_000, 10_000_000)),
    *((2.5, 0.165, 100, 20, clients, 1e-6) for clients in (100, 75_040)),
    *((2.5, 0.5, 100, 20, clients, 1e-6) for clients in (100, 50_000, 1_000_000)),
    (0.5, 0.5, 50, 20, 10_000, 1e-8),
    (6.0, 0.5, 250, 20, 50_000, 1e-6),
    # One report in a lifetime.
    *((epsilon, 0.05, 1, 1, 1_000_000, 1e-9) for epsilon in (1.0, 4.0, 7.0)),
    # A blanket that is often small, and one that is hardly there.
    *((8.0, rho, 1, 2, 50_000, 1e-6) for rho in (0.03, 0.165, 0.5)),
    (8.0, 0.5, 10, 1, 50_000, 1e-6),
    (10.0, 0.002, 25, 20, 75_040, 1e-6),
    (40.0, 0.5, 1, 1, 10_000_000, 1e-6),
    # Small crowds, where nothing is grouped; and where grouping begins.
    *((1.5, rho, 3, 1, clients, 1e-3) for rho in (0.01, 0.25, 0.5) for clients in (2, 3, 10)),
    *((1.0, 0.3, 10, 4, clients, 1e-6) for clients in (400, 700, 3_000)),
    # The ends.
    (1e-6, 0.5, 1, 1, 1_000, 1e-6),
    (1e-6, 0.5, 10_000, 1_000, 2, 1e-6),
    (0.01, 0.345, 100, 1_000, 1_000_000, 1e-6),
    (1.0, 1e-6, 10, 10, 1_000, 1e-6),
    (1.0, 0.2, 10_000, 100_000, 10_000_000, 1e-6),
    (1.0, 0.2, 10, 10, 1_000, 0.5),
    (1.0, 0.2, 10, 10, 30, 1e-100),
    # Dummies: beside a crowd and instead of one, many and hardly any; for several reports.
    *((10.0, 0.0011, 1, 1, clients, 1e-6, 75_040) for clients in (1, 20, 75_040)),
    *((5.0, 0.0318, 1, 2, 1, 1e-6, dummies) for dummies in (1, 30, 2_000, 10_000_000)),
    *((2.5, 0.5, 100, 20, 100, 1e-6, dummies) for dummies in (99, 1_000_050)),
]
KIND = ("epsilon", "reports", "loud_fraction", "clients", "dummies")
LOUD: Numbers = (5.0, 0.0318, 1, 2, 1_000, 1e-6)
DEAR: Numbers = (10.0, 0.0318, 1, 2, 1_000, 1e-6)


def case_of(
    numbers: Numbers, limit: float, charges: list[dict[str, Any]], accounts: bool
) -> dict[str, Any]:
    given = dict(zip(NAMES, (*numbers, 0), strict=False))
    return {**given, "accounts": accounts, "limit": limit, "charges": charges}


def charged(times: int, training: str = "other", numbers: Numbers = LOUD) -> dict[str, Any]:
    """A training whose epochs were charged so often."""
    kind = {name: case_of(numbers, 0, [], False)[name] for name in KIND}
    return {"training": training, **kind, "times": times}


AFTER: list[tuple[Numbers, float, list[dict[str, Any]]]] = [
    # In the middle of a training, at its end, and beyond an end that came nearer.
    *((LOUD, LIMIT, [charged(times, "own")]) for times in (1, 2, 3)),
    # A second training with the same numbers, a third, and the limit raised.
    (DEAR, LIMIT, [charged(2, numbers=DEAR)]),
    (DEAR, 45.0, [charged(2, numbers=DEAR)]),
    (DEAR, LIMIT, [charged(2, numbers=DEAR), charged(1, "own", DEAR)]),
    (DEAR, 60.0, [charged(2, numbers=DEAR), charged(2, "third", DEAR)]),
    # Beyond a limit that was lowered.
    (DEAR, 15.0, [charged(2, numbers=DEAR)]),
    # Other kinds of reports, and other crowds: the least of a kind, and none at all.
    (LOUD, LIMIT, [charged(20, numbers=(1.0, 0.165, 4, 20, 50_000, 1e-6))]),
    *(
        (LOUD, LIMIT, [charged(2, numbers=(5.0, 0.0318, 1, 2, clients, 1e-6))])
        for clients in (1, 100, 100_000)
    ),
    (LOUD, 1e4, [charged(20, "other", (2.5, 0.5, 100, 20, 75_040, 1e-6)), charged(1, "own")]),
    # Other dummies, and crowds beside them.
    *(
        (LOUD, LIMIT, [charged(2, numbers=(5.0, 0.0318, 1, 2, clients, 1e-6, dummies))])
        for clients, dummies in ((1, 500), (1_000, 500))
    ),
    ((*LOUD, 500), LIMIT, [charged(2), charged(1, "third", (5.0, 0.0318, 1, 2, 1, 1e-6, 700))]),
    # Amounts that no float has.
    ((0.1, 0.2, 3, 7, 500, 1e-6), 1.2, [charged(1, "other", (0.3, 0.3, 1, 1, 700, 1e-6))]),
    ((0.1, 0.2, 1, 10, 500, 1e-6), 1.0, []),
    # More kinds than are composed.
    (LOUD, 1e3, [charged(3, "other", (1 + n / 8, 0.1, 2, 9, 5_000, 1e-6)) for n in range(10)]),
]
WITH_ACCOUNTS: list[tuple[Numbers, float, list[dict[str, Any]]]] = [
    # All turns; a part of them by the device's limit, and none; nobody to hide among, or dummies.
    *((LOUD, limit, []) for limit in (LIMIT, 5.0, 1.0)),
    (LOUD, LIMIT, [charged(2, "own")]),
    (LOUD, LIMIT, [charged(1, "own"), charged(2)]),
    ((5.0, 0.0318, 1, 2, 1, 1e-6), LIMIT, []),
    ((10.0, 0.0011, 1, 1, 20, 1e-6, 75_040), LIMIT, []),
    ((2.5, 0.5, 100, 20, 100, 1e-6), 1e4, []),
]
CASES = [
    *((numbers, LIMIT, [], False) for numbers in ALONE),
    *((*case, False) for case in AFTER),
    *((*case, True) for case in WITH_ACCOUNTS),
]


def made(given: dict[str, Any]) -> dict[str, Any]:
    named = ("epsilon", "loud_fraction", "reports", "epochs", "dummies", "accounts")
    fields = {name: given[name] for name in named}
    asked = terms(**fields, least_clients=given["clients"])
    ledger, trainings = Ledger(1e300), {"own": asked.training}
    for charge in given["charges"]:
        name, times = charge["training"], charge["times"]
        kind = {key: charge[key] for key in KIND}
        training = trainings.setdefault(name, name.ljust(16).encode())
        for _ in range(times):
            number = len(ledger.entries)
            ledger.charge(Charge(training, number, number.to_bytes(32), "loudest", **kind))
    ledger.set_limit(given["limit"])
    found, within = asked.promise(ledger.charges, given["delta"]), asked.turns_within(ledger)
    return {
        "local": found.local,
        "central": found.central,
        "alone": found.alone,
        "turns_left": asked.turns_left(ledger.charges),
        "within_limit": within,
        "short": asked.promise(ledger.charges, given["delta"], within).in_short(
            within * asked.reports
        ),
        "figures": [list(pair) for pair in found.in_figures()],
    }


def stored() -> list[dict[str, Any]]:
    content: list[dict[str, Any]] = json.loads(FILE.read_text())
    return content


def test_the_file_has_these_cases() -> None:
    names = case_of(*CASES[0])
    assert [{name: case[name] for name in names} for case in stored()] == [
        case_of(*case) for case in CASES
    ]


@pytest.mark.parametrize("number", range(len(CASES)))
def test_promises_are_as_the_file_says(number: int) -> None:
    case = stored()[number]
    found = made(case)
    for name in ("central", "alone"):
        assert found.pop(name) == pytest.approx(case[name], rel=1e-9, abs=0)
    assert found == {name: case[name] for name in found}


def write() -> None:
    cases = [case_of(*case) for case in CASES]
    lines = ",\n".join(json.dumps({**case, **made(case)}) for case in cases)
    FILE.write_text("[\n" + lines + "\n]\n")


if __name__ == "__main__":
    write()
