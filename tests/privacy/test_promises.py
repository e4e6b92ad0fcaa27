"""The privacy report of a training, and the promise of a device.

`tests/vectors/promises.json` has the promises that every client must make. The input of a case are
terms, earlier charges and a limit. The output are the epsilons (`local` exactly, `central` and
`dummies_only` to a relative 1e-9, because sums and elementary functions may round differently). It
also has the turns that are left, how many of them the limit allows, and the texts for the owner.
The file changes only when the promise does.
To write it again: `python -m tests.privacy.test_promises`.
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
from sottovoce.privacy import Charge, Ledger, Promise, Reporting, make_privacy_report, promise
from sottovoce.privacy.bound import Group, central_bound
from sottovoce.privacy.statement import describe_bound, format_epsilon
from sottovoce.training import plan_training
from tests.protocol.examples import terms
from tests.sampling import choose


def test_report_has_all_spans_and_costs_grow() -> None:
    result = make_privacy_report(Reporting(2.5, 100, 20), 50_000)
    assert [figures.span for figures in result.spans] == ["report", "epoch", "training"]
    assert [figures.pure for figures in result.spans] == [2.5, 250.0, 5000.0]
    centrals = [figures.central for figures in result.spans if figures.central is not None]
    assert len(centrals) == 3
    assert centrals == sorted(centrals)
    assert json.loads(json.dumps(result.as_dict()))["spans"][2]["pure"] == 5000.0


def test_setting_of_the_paper_is_weak_without_crowd() -> None:
    isolated = make_privacy_report(Reporting(2.5, 100, 20))
    assert isolated.is_weak
    assert "weak" in isolated.statement()
    assert not make_privacy_report(Reporting(2.5, 100, 20), 50_000).is_weak
    assert make_privacy_report(Reporting(6.0, 250, 20), 50_000).is_weak


def test_report_is_weak_where_a_promise_protects_nobody() -> None:
    few = make_privacy_report(Reporting(10.0, 5, 1), 566)
    assert few.is_weak
    assert few.statement().count("weak") == 2
    assert make_privacy_report(Reporting(10.0, 1, 1), 566).statement().count("weak") == 0


def test_preset_strong_stays_within_its_budget() -> None:
    """Check local <= 10 and central <= 1 at delta 1e-6 for a lifetime with 50,000 people."""
    strong = plan_training(50_000, 9781, preset="strong").event(9781)
    result = make_privacy_report(strong, 50_000, 1e-6)
    assert result.training.pure <= 10
    assert result.training.central is not None
    assert result.training.central <= 1
    assert not result.is_weak
    assert "weak" not in result.statement()


def test_invalid_delta_is_refused() -> None:
    with pytest.raises(SettingsError):
        make_privacy_report(Reporting(1.0, 1, 1), delta=0)


def test_central_figure_needs_a_crowd() -> None:
    event = Reporting(1.0, 1, 1)
    assert make_privacy_report(event).training.central is None
    assert make_privacy_report(event, 1).training.central is None
    assert make_privacy_report(event, 2).training.central is not None


@pytest.mark.parametrize(
    ("epsilon", "digits", "text"),
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
def test_format_epsilon_rounds_up(epsilon: float, digits: int, text: str) -> None:
    assert format_epsilon(epsilon, digits) == text


STRONG_EVENT = Reporting(5.0, 1, 2, 0.0318)


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


def test_promise_covers_lifetime_in_enforced_crowd() -> None:
    result = promise(STRONG_EVENT, 100)
    assert result == Promise(10.0, central_bound([Group(STRONG_EVENT, 100)], 1e-6), 10.0, 100, 1e-6)
    assert 7 < result.central < 8  # not the 0.43 of 50,000 people whom nobody enforces
    assert promise(STRONG_EVENT, 50_000).central < 0.5
    assert promise(STRONG_EVENT, 100, delta=1e-9).central > result.central


def test_dummies_hide_a_person_without_crowd() -> None:
    """Count all earlier charges with the smallest number of dummies among them."""
    helped = replace(STRONG_EVENT, dummies=50_000)
    among_many, among_none = promise(helped, 50_000), promise(helped, 1)
    assert among_many.central < among_many.dummies_only < 0.5
    assert among_many.dummies_only == among_none.dummies_only == among_none.central
    assert promise(STRONG_EVENT, 50_000).dummies_only == promise(STRONG_EVENT, 50_000).local
    earlier = [charge(clients=1, dummies=50_000), charge(clients=50_000)]
    result = promise(helped, 50_000, earlier)
    assert 5 < result.dummies_only < 6  # one report was hidden by people alone
    assert result.central < 1
    fewer = promise(helped, 50_000, [charge(clients=1, dummies=5_000)])
    more = promise(helped, 50_000, [charge(clients=1, dummies=50_000)])
    assert fewer.dummies_only > more.dummies_only


def test_promise_is_constant_during_a_training() -> None:
    asked = terms(epsilon=5.0, reports=1, epochs=2, loud_fraction=0.0318, min_clients=1_000)
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


@settings(max_examples=choose(by_day=6, at_night=100), deadline=None)
@given(kinds, st.integers(1, 5), st.lists(kinds, max_size=4), st.data())
def test_charges_never_exceed_the_promise(
    asked: Charge, epochs: int, earlier: list[Charge], data: st.DataObject
) -> None:
    """Charge for epochs in which the server asks for the same or less."""
    agreed = terms(
        epsilon=asked.epsilon,
        reports=asked.reports,
        epochs=epochs,
        loud_fraction=asked.loud_fraction,
        min_clients=asked.clients,
        dummies=asked.dummies,
    )
    charges = list(earlier)
    promised = agreed.promise(charges)
    for _ in range(epochs):
        reports = data.draw(st.integers(1, asked.reports))
        charges.append(charge(asked.epsilon, reports, training=agreed.training))
        assert promised.local >= sum(item.cost for item in charges)
        assert agreed.promise(charges).local <= promised.local
    assert agreed.turns_left(charges) == 0


@settings(max_examples=choose(by_day=8, at_night=100), deadline=None)
@given(st.lists(kinds, max_size=5), kinds)
def test_another_charge_never_reduces_a_promise(before: list[Charge], another: Charge) -> None:
    """Allow 1% for sizes that are grouped differently with another number of rounds."""
    left, right = promise(STRONG_EVENT, 500, before), promise(STRONG_EVENT, 500, [*before, another])
    assert right.local >= left.local
    assert right.central >= left.central * 0.99
    assert right.central <= right.dummies_only <= right.local
    assert Fraction(right.local) >= 10 + sum(item.cost for item in [*before, another])


Unit = Literal["account", "device"] | None


def asked(
    event: Reporting, clients: int, charges: Sequence[Charge] = (), names: int | None = None
) -> list[str]:
    return promise(event, clients, charges).summarize(event.total, names)


def test_summary_of_a_promise() -> None:
    """Check the demo, a crowd that may be fake, no crowd, and no more reports."""
    leaves, tells, stops = asked(Reporting(10.0, 1, 1, 0.0011, 75_040), 1)
    assert leaves == (
        "Your history stays here; at most 1 report, blurred by chance, goes through a proxy to a "
        "server."
    )
    assert tells == (
        "A 50:50 guess about it is then right at most 68 times in 100, or 99.996 if the proxy "
        "cheats."
    )
    assert stops == "You can stop at any time, but not undo what has left."
    leaves, tells, _ = asked(Reporting(2.5, 100, 2), 1_000_000)
    assert "at most 200 reports, blurred by chance, go" in leaves
    assert "or always if others are fake or the proxy cheats." in tells
    assert asked(Reporting(5.0, 1, 2), 1)[1].endswith(" is then right at most 99.996 times in 100.")
    for hopeless in (Reporting(64.0, 20, 1), Reporting(50.0, 1, 1), Reporting(2.5, 100, 20)):
        assert asked(hopeless, 100)[1].startswith("This protects nobody:")
    assert "no more reports leave" in promise(None, 100, [charge()]).summarize(0)[0]


def test_summary_of_names_says_what_a_report_is() -> None:
    leaves, tells, _ = asked(Reporting(5.0, 1, 2, 1 / 552), 1, names=552)
    assert leaves == (
        "Your history stays here; at most 2 reports (what you touched last, or one of 552 by "
        "chance) go through a proxy to a server."
    )
    assert tells.endswith("99.996 times in 100.")


def test_promise_with_accounts_is_for_one_account() -> None:
    """Name the account only if all turns count: otherwise its other devices may send more."""
    numbers = {"epsilon": 5.0, "reports": 1, "epochs": 2, "loud_fraction": 0.0318, "dummies": 0}
    plain = terms(**numbers, min_clients=50_000)
    with_accounts = replace(plain, accounts=True)
    assert with_accounts.promise() == replace(plain.promise(), unit="account")
    assert with_accounts.summarize([], 2)[1] == (
        "A 50:50 guess about it is then right at most 61 times in 100 for one account, or 99.996 "
        "for one device if others are fake or the proxy cheats."
    )
    assert with_accounts.summarize([], 1)[1] == (
        "A 50:50 guess about it is then right at most 58 times in 100 for one device, or 99.4 if "
        "others are fake or the proxy cheats."
    )
    assert replace(with_accounts, min_clients=1).summarize([], 2)[1] == (
        "A 50:50 guess about it is then right at most 99.996 times in 100 for one account, or "
        "99.996 for one device if the proxy cheats."
    )
    (_, linked), (_, mixed), (_, meaning) = with_accounts.promise().list_figures()
    assert linked == plain.promise().list_figures()[0][1]
    assert "as many honest accounts report" in mixed
    assert "for one account, whose devices share its reports" in meaning


def test_summary_respects_the_limit() -> None:
    asked = terms(epsilon=2.5, reports=1, epochs=20, min_clients=1, dummies=0)
    assert asked.promise().summarize(20)[1].startswith("This protects nobody")
    assert "right at most 93 times in 100." in asked.promise(turns=1).summarize(1)[1]
    assert asked.promise([charge()] * 3, turns=0).local == 15


def grade(text: str) -> float:
    """Return the Flesch-Kincaid grade: the years at school that a text needs, without figures."""
    words = re.findall(r"[a-z]+", text.lower())
    spoken = [re.sub(r"([^laeiouy])(es?|ed)$", r"\1", word) for word in words]
    syllables = sum(max(1, len(re.findall(r"[aeiouy]{1,2}", word))) for word in spoken)
    length = len(text.split()) / len(re.findall(r"[.!?](?= |$)", text))
    return 0.39 * length + 11.8 * syllables / len(words) - 15.59


@pytest.mark.parametrize("epochs", [1, 20, 200])
@pytest.mark.parametrize(("epsilon", "reports"), [(10, 1), (5, 1), (0.5, 4), (2.5, 100), (12, 1)])
@pytest.mark.parametrize(("clients", "dummies"), [(1, 0), (100, 0), (50_000, 0), (20, 20_000)])
def test_summary_is_readable_at_age_14(
    epsilon: float, reports: int, epochs: int, clients: int, dummies: int
) -> None:
    event = Reporting(epsilon, reports, epochs, 0.03, dummies * reports)
    promised = promise(event, clients)
    cases: list[tuple[Unit, int | None]] = [(None, None), ("account", None), (None, 10_760)]
    for unit, names in cases:
        text = replace(promised, unit=unit).summarize(event.total, names)
        assert len(text) == 3
        assert len(" ".join(text).split()) <= 62
        assert grade(" ".join(text)) <= 8


def test_summary_names_dummies_only_if_there_are_any() -> None:
    """Use 3 times 3.3, which is 9.9 except for rounding."""
    result = promise(Reporting(3.3, 1, 3, 0.03), 50_000)
    assert result.dummies_only == result.local > result.central
    assert "others are fake" in result.summarize(3)[1]


@given(st.floats(1e-9, 12), st.floats(1e-12, 1e-3))
def test_stated_chance_of_a_guess_is_never_too_small(epsilon: float, delta: float) -> None:
    """Compare with the best guess: randomised response that reveals all with probability delta."""
    best = 100 * (exp(epsilon) + delta) / (exp(epsilon) + 1)
    text = Promise(20.0, epsilon, 20.0, 9, delta).summarize(1)[1]
    if epsilon <= 10:
        times = float(text.partition("at most ")[2].split()[0])
        assert best - 1e-6 <= times < min(100, best + 1)


@given(st.floats(1e-9, 9.99), st.floats(1e-30, 0.999))
def test_described_bound_is_never_too_small(epsilon: float, delta: float) -> None:
    power, picture, chance = numbers(describe_bound(epsilon, delta))
    assert epsilon * (1 - 1e-14) <= power <= epsilon * 1.011
    assert exp(epsilon) * (1 - 1e-14) <= picture <= exp(epsilon) * 1.011
    assert delta * (1 - 1e-14) <= 1 / chance <= delta * 1.001


def numbers(text: str) -> tuple[float, float, float]:
    power, picture, rest = text.removeprefix("at most e^").replace(",", "").split(" ", 2)
    return float(power), float(picture.strip("()")), float(rest.rsplit(" ", 1)[1])


VECTOR_FILE = Path(__file__).parents[1] / "vectors" / "promises.json"
NUMBER_NAMES = ("epsilon", "loud_fraction", "reports", "epochs", "clients", "delta", "dummies")
# In the order of `NUMBER_NAMES`; no dummies where none are named.
Numbers = tuple[float, ...]
LIMIT_30 = 30.0
FIRST_TRAININGS: list[Numbers] = [
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
    # Dummies: with a crowd and without one, many and hardly any; for several reports.
    *((10.0, 0.0011, 1, 1, clients, 1e-6, 75_040) for clients in (1, 20, 75_040)),
    *((5.0, 0.0318, 1, 2, 1, 1e-6, dummies) for dummies in (1, 30, 2_000, 10_000_000)),
    *((2.5, 0.5, 100, 20, 100, 1e-6, dummies) for dummies in (99, 1_000_050)),
]
CHARGE_FIELDS = ("epsilon", "reports", "loud_fraction", "clients", "dummies")
EPS_5: Numbers = (5.0, 0.0318, 1, 2, 1_000, 1e-6)
EPS_10: Numbers = (10.0, 0.0318, 1, 2, 1_000, 1e-6)


def case_of(
    numbers: Numbers, limit: float, charges: list[dict[str, Any]], accounts: bool
) -> dict[str, Any]:
    case = dict(zip(NUMBER_NAMES, (*numbers, 0), strict=False))
    return {**case, "accounts": accounts, "limit": limit, "charges": charges}


def charged(times: int, training: str = "other", numbers: Numbers = EPS_5) -> dict[str, Any]:
    """Return the charges of this many epochs of a training."""
    kind = {name: case_of(numbers, 0, [], False)[name] for name in CHARGE_FIELDS}
    return {"training": training, **kind, "times": times}


LATER_TRAININGS: list[tuple[Numbers, float, list[dict[str, Any]]]] = [
    # In the middle of a training, at its end, and beyond an end that came nearer.
    *((EPS_5, LIMIT_30, [charged(times, "own")]) for times in (1, 2, 3)),
    # A second training with the same numbers, a third, and the limit raised.
    (EPS_10, LIMIT_30, [charged(2, numbers=EPS_10)]),
    (EPS_10, 45.0, [charged(2, numbers=EPS_10)]),
    (
        EPS_10,
        LIMIT_30,
        [charged(2, numbers=EPS_10), charged(1, "own", EPS_10)],
    ),
    (
        EPS_10,
        60.0,
        [charged(2, numbers=EPS_10), charged(2, "third", EPS_10)],
    ),
    # Beyond a limit that was lowered.
    (EPS_10, 15.0, [charged(2, numbers=EPS_10)]),
    # Other kinds of reports, and other crowds: the least of a kind, and none at all.
    (EPS_5, LIMIT_30, [charged(20, numbers=(1.0, 0.165, 4, 20, 50_000, 1e-6))]),
    *(
        (EPS_5, LIMIT_30, [charged(2, numbers=(5.0, 0.0318, 1, 2, clients, 1e-6))])
        for clients in (1, 100, 100_000)
    ),
    (
        EPS_5,
        1e4,
        [charged(20, "other", (2.5, 0.5, 100, 20, 75_040, 1e-6)), charged(1, "own")],
    ),
    # Other dummies, and crowds with them.
    *(
        (
            EPS_5,
            LIMIT_30,
            [charged(2, numbers=(5.0, 0.0318, 1, 2, clients, 1e-6, dummies))],
        )
        for clients, dummies in ((1, 500), (1_000, 500))
    ),
    (
        (*EPS_5, 500),
        LIMIT_30,
        [charged(2), charged(1, "third", (5.0, 0.0318, 1, 2, 1, 1e-6, 700))],
    ),
    # Amounts that no float has.
    ((0.1, 0.2, 3, 7, 500, 1e-6), 1.2, [charged(1, "other", (0.3, 0.3, 1, 1, 700, 1e-6))]),
    ((0.1, 0.2, 1, 10, 500, 1e-6), 1.0, []),
    # More kinds than are composed.
    (
        EPS_5,
        1e3,
        [charged(3, "other", (1 + n / 8, 0.1, 2, 9, 5_000, 1e-6)) for n in range(10)],
    ),
]
WITH_ACCOUNTS: list[tuple[Numbers, float, list[dict[str, Any]]]] = [
    # All turns; a part of them by the device's limit, and none; nobody to hide among, or dummies.
    *((EPS_5, limit, []) for limit in (LIMIT_30, 5.0, 1.0)),
    (EPS_5, LIMIT_30, [charged(2, "own")]),
    (EPS_5, LIMIT_30, [charged(1, "own"), charged(2)]),
    ((5.0, 0.0318, 1, 2, 1, 1e-6), LIMIT_30, []),
    ((10.0, 0.0011, 1, 1, 20, 1e-6, 75_040), LIMIT_30, []),
    ((2.5, 0.5, 100, 20, 100, 1e-6), 1e4, []),
]
VECTOR_CASES = [
    *((numbers, LIMIT_30, [], False) for numbers in FIRST_TRAININGS),
    *((*case, False) for case in LATER_TRAININGS),
    *((*case, True) for case in WITH_ACCOUNTS),
]


def made(case: dict[str, Any]) -> dict[str, Any]:
    named = ("epsilon", "loud_fraction", "reports", "epochs", "dummies", "accounts")
    fields = {name: case[name] for name in named}
    asked = terms(**fields, min_clients=case["clients"])
    ledger, trainings = Ledger(1e300), {"own": asked.training}
    for charge in case["charges"]:
        name, times = charge["training"], charge["times"]
        kind = {key: charge[key] for key in CHARGE_FIELDS}
        training = trainings.setdefault(name, name.ljust(16).encode())
        for _ in range(times):
            number = len(ledger.entries)
            ledger.charge(Charge(training, number, number.to_bytes(32), "loudest", **kind))
    ledger.set_limit(case["limit"])
    result, within = asked.promise(ledger.charges, case["delta"]), asked.turns_within(ledger)
    turns = asked.turns_left(ledger.charges)
    affordable = result
    if within != turns:
        affordable = asked.promise(ledger.charges, case["delta"], within)
    return {
        "local": result.local,
        "central": result.central,
        "dummies_only": result.dummies_only,
        "turns_left": turns,
        "turns_within_limit": within,
        "summary": affordable.summarize(within * asked.reports),
        "figures": [list(pair) for pair in result.list_figures()],
    }


def stored() -> list[dict[str, Any]]:
    content: list[dict[str, Any]] = json.loads(VECTOR_FILE.read_text())
    return content


def test_vector_file_has_all_cases() -> None:
    names = case_of(*VECTOR_CASES[0])
    assert [{name: case[name] for name in names} for case in stored()] == [
        case_of(*case) for case in VECTOR_CASES
    ]


@pytest.mark.parametrize("number", range(len(VECTOR_CASES)))
def test_promises_equal_the_vectors(number: int) -> None:
    case = stored()[number]
    result = made(case)
    for name in ("central", "dummies_only"):
        assert result.pop(name) == pytest.approx(case[name], rel=1e-9, abs=0)
    assert result == {name: case[name] for name in result}


def write() -> None:
    cases = [case_of(*case) for case in VECTOR_CASES]
    lines = ",\n".join(json.dumps({**case, **made(case)}) for case in cases)
    VECTOR_FILE.write_text("[\n" + lines + "\n]\n")


if __name__ == "__main__":
    write()
