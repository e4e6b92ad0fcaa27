"""Whether a device takes part and when it sends: decided before it reads its history.

`tests/vectors/plans.json` has terms that are compared, coins, moments and counts, which every
client must decide alike. To write it again: `python -m tests.client.test_timing`.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from functools import cache
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.client.timing import (
    MAX_LEAD_SECONDS,
    compute_chance,
    compute_lead,
    compute_token_chance,
    delay_by_whole_leads,
    draw_plan,
    draw_token_moment,
    is_time,
)
from sottovoce.core import MECHANISMS
from sottovoce.privacy import Charge
from sottovoce.protocol import Manifest, Terms
from sottovoce.protocol.terms import TERM_RULES
from sottovoce.training import Settings
from tests.cases import format_cases
from tests.client.world import FACTORS, ITEMS, FakeProxy, World
from tests.protocol.examples import manifest, terms
from tests.protocol.test_terms import BETTER_VALUES, WORSE_VALUES

FILE = Path(__file__).parents[1] / "vectors" / "plans.json"
OPENS = 1_800_000_000
CLOSES = 1_800_086_400
HOLD = 604_800
WORDS = ["0000000000000000", "8000000000000000", "bfffffffffffffff", "c000000000000000", "f" * 16]


def list_comparisons() -> list[dict[str, Any]]:
    """Return terms that are asked for, each with what of them is worse than the accepted ones."""
    asked = [
        replace(terms(), **{name: value})
        for name, values in WORSE_VALUES.items()
        for value in values
    ]
    asked += [replace(terms(), **{name: vs[0]}) for name, vs in BETTER_VALUES.items()]
    asked += [terms(mechanism="coordinate", parameters={}), terms()]
    worst = {name: values[0] for name, values in WORSE_VALUES.items() if name != "parameters"}
    asked.append(terms(**{**worst, "parameters": {}}))
    readable = [wanted for wanted in asked if _can_be_read(wanted)]
    return [
        {
            "asked": wanted.as_dict(),
            "worse": [rule.field for rule in TERM_RULES if rule.is_worse(terms(), wanted)],
        }
        for wanted in readable
    ]


def _can_be_read(asked: Terms) -> bool:
    return set(asked.parameters) == set(MECHANISMS[asked.mechanism].public_names())


def make_coin_cases() -> list[dict[str, Any]]:
    """Return words and moments, each with whether to take part and when to send."""
    nows = [OPENS - 1, OPENS, CLOSES - 3_600, CLOSES - 1, CLOSES, CLOSES + HOLD - 1]
    cases = []
    for share in (0.75, 1.0):
        for now in nows:
            for jitter in (0, 5, 3_600):
                for first, second in pairwise(WORDS):
                    case = {"share": share, "now": now, "jitter": jitter, "words": [first, second]}
                    cases.append({**case, **plan(case)})
    return cases


def plan(case: dict[str, Any]) -> dict[str, Any]:
    one = manifest(share=case["share"])
    drawn = iter(int(word, 16).to_bytes(8, "little") for word in case["words"])
    turns = one.terms.epochs
    drawn_plan = draw_plan(one, turns, case["now"], case["jitter"], lambda _: next(drawn))
    return {
        "in_time": is_time(one, case["now"], case["jitter"]),
        "takes_part": drawn_plan.takes_part,
        "send_at": drawn_plan.send_at,
    }


CHANCES: list[dict[str, Any]] = [
    {"share": 0.75, "epochs": 20, "charged": 3, "epochs_left": 0},  # endless
    {"share": 1.0, "epochs": 1, "charged": 0, "epochs_left": 0},
    {"share": 0.05, "epochs": 1, "charged": 0, "epochs_left": 19},
    {"share": 0.1, "epochs": 7, "charged": 4, "epochs_left": 11},
    {"share": 2**-32, "epochs": 2**53 - 1, "charged": 1, "epochs_left": 2**53 - 1},
    {"share": 3 / 20, "epochs": 3, "charged": 0, "epochs_left": 20},
    {"share": 1 / 3, "epochs": 3, "charged": 2, "epochs_left": 3},
    {"share": 0.15, "epochs": 3, "charged": 1, "epochs_left": 19},
    {"share": 2**-32, "epochs": 1, "charged": 0, "epochs_left": 2**53 - 1},
    {"share": 0.05, "epochs": 1, "charged": 0, "epochs_left": 1},  # certain
    {"share": 0.05, "epochs": 5, "charged": 1, "epochs_left": 4},
    {"share": 0.05, "epochs": 20, "charged": 0, "epochs_left": 1},
]


def chances() -> list[dict[str, Any]]:
    """Return chances of taking part, each with words on both sides of it."""
    return [{**case, **toss(case)} for case in CHANCES]


def toss(case: dict[str, Any]) -> dict[str, Any]:
    changes = {name: value for name, value in case.items() if name != "charged"}
    one, turns = manifest(**changes), case["epochs"] - case["charged"]
    chance = compute_chance(one, turns)
    first = min(ceil(chance * 2.0**53), 2**53)  # first / 2^53 is the least u that sits out
    words = [(first << 11) - 1] + [first << 11] * (first < 2**53)

    def takes_part(word: int) -> bool:
        drawn = iter([word.to_bytes(8, "little"), bytes(8)])
        return draw_plan(one, turns, OPENS, 3_600, lambda _: next(drawn)).takes_part

    tosses = [[f"{word:016x}", takes_part(word)] for word in words]
    return {"chance": chance, "tosses": tosses}


def list_token_chances() -> list[dict[str, Any]]:
    """Return chances of asking for a token, in epochs that ask for reports or do not."""
    cases = []
    for share, epochs_left, turns in [(0.75, 0, 3), (1.0, 1, 1), (0.5, 2, 1), (0.1, 11, 7)]:
        for asks in (True, False):
            own = {} if asks else {"public_key": None}
            one = manifest(share=share, epochs_left=epochs_left, **own)
            case = {"share": share, "epochs_left": epochs_left, "asks": asks, "turns": turns}
            cases.append({**case, "chance": compute_token_chance(one, turns)})
    return cases


def leads() -> list[dict[str, Any]]:
    shapes = [(1, 1, 1), (5, 2, 4), (9_781, 16, 100), (2**17, 128, 10_000)]
    cases = []
    for items, factors, reports in shapes:
        one = manifest(items=items, factors=factors, reports=reports, max_items=items)
        late = [-5.0, 0.0, 0.001, compute_lead(one), compute_lead(one) + 0.001, 100.0]
        moments = [delay_by_whole_leads(1_000.0, 1_000.0 + seconds, one) for seconds in late]
        case = {"items": items, "factors": factors, "reports": reports}
        cases.append({**case, "lead": compute_lead(one), "late": late, "moments": moments})
    return cases


def turns() -> list[dict[str, Any]]:
    """Return the turns that are left after each number of charges."""
    one = terms(epochs=3)
    charges = [
        Charge(one.training, epoch, bytes([epoch]) * 32, "loudest", 1.0, 1, 0.1, 9, 0)
        for epoch in range(5)
    ]
    return [
        {"epochs": one.epochs, "charged": charged, "left": one.turns_left(charges[:charged])}
        for charged in range(len(charges))
    ]


def content() -> dict[str, Any]:
    fields = asdict(manifest())
    about = {name: fields[name] for name in ("opens", "closes", "epochs_left", "items")}
    return {
        "accepted": terms().as_dict(),
        "manifest": {**about, "hold": terms().hold},
        "comparisons": list_comparisons(),
        "coins": make_coin_cases(),
        "chances": chances(),
        "tokens": list_token_chances(),
        "leads": leads(),
        "turns": turns(),
    }


def make_vectors() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(FILE.read_text())
    return content


def test_decisions_equal_the_vectors() -> None:
    assert json.loads(json.dumps(content())) == make_vectors()


def write() -> None:
    FILE.write_text(format_cases(content()) + "\n")


def test_lead_is_never_longer_than_a_batch_waits() -> None:
    shapes = [(2**24, 1), (2**24, 4), (2**16, 256), (2**22, 16)]
    leads = [
        compute_lead(World(max_items=2**24, factors=f, reports=10_000, items=m).manifest(1))
        for m, f in shapes
    ]
    assert max(leads) < MAX_LEAD_SECONDS


# Everybody has all of their turns before the training ends, and nobody has more.


Coins = Callable[[int], bytes]


def test_charged_turns_are_not_left() -> None:
    two = terms(epochs=2)
    own, other = (
        Charge(training, 1, bytes(32), "loudest", 1.0, 1, 0.1, 9, 0)
        for training in (two.training, bytes(16))
    )
    charged = [[other] * 5 + [own] * turns for turns in range(4)]
    assert [two.turns_left(charges) for charges in charged] == [2, 1, 0, 0]


@pytest.mark.parametrize(("share", "epochs_left"), [(2**-32, 0), (2**-32, 1), (1.0, 0), (0.5, 3)])
def test_two_coins_are_drawn_for_every_share(share: float, epochs_left: int) -> None:
    asked: list[int] = []

    def entropy(size: int) -> bytes:
        asked.append(size)
        return bytes(size)

    draw_plan(manifest(share=share, epochs_left=epochs_left), 1, 0.0, 60.0, entropy)
    assert asked == [8, 8]


@cache
def make_manifest(share: float, epochs_left: int) -> Manifest:
    return manifest(share=share, epochs_left=epochs_left)


def live(turns: int, epochs: int, share: float, words: Coins) -> Iterator[int]:
    """Yield the epochs, counted from 0, in which a device takes part."""
    for epoch in range(epochs):
        one = make_manifest(share, epochs - epoch)
        if turns and draw_plan(one, turns, 0.0, 0.0, words).takes_part:
            turns -= 1
            yield epoch


lives = st.integers(1, 40).flatmap(
    lambda epochs: st.tuples(st.integers(1, epochs), st.just(epochs))
)

words = st.sampled_from([0, 2**64 - 1]) | st.integers(0, 2**64 - 1)


@given(lives, st.floats(2**-32, 1), st.data())
def test_every_turn_is_taken_whatever_the_share_and_the_coins(
    lived: tuple[int, int], share: float, data: st.DataObject
) -> None:
    turns, epochs = lived

    def entropy(size: int) -> bytes:
        return data.draw(words).to_bytes(size, "little")

    assert len([*live(turns, epochs, share, entropy)]) == turns


EPOCHS = 20


@pytest.mark.parametrize("turns", [1, 2, 7, EPOCHS])
def test_all_epochs_have_crowds_of_equal_size(turns: int) -> None:
    """Compute exactly how many devices have each number of turns left in every epoch."""
    devices = np.zeros(turns + 1)
    devices[turns] = 1.0
    for epochs_left in range(EPOCHS, 0, -1):
        one = make_manifest(turns / EPOCHS, epochs_left)
        chances = [0.0] + [min(compute_chance(one, left), 1.0) for left in range(1, turns + 1)]
        crowd = devices * chances
        assert crowd.sum() == pytest.approx(turns / EPOCHS)
        devices += np.append(crowd[1:], 0.0) - crowd


# The device itself.


def list_wake_times(phase: float, opens: int) -> Iterator[float]:
    """Yield when a device that looks every hour does so after an epoch has opened."""
    return (opens + (phase - opens) % 3_600 + 3_600 * hour for hour in range(24))


@pytest.mark.parametrize("is_planted", [False, True])
def test_time_of_fetching_a_token_does_not_reveal_its_use(is_planted: bool) -> None:
    """Correlate the times of 3,000 devices; false alarm below 1e-6: eight times 5.7 deviations.

    Without a moment of its own, fetched when the device wakes up, it would.
    """
    rng = np.random.default_rng(5)
    one = manifest(accounts=True)
    two = replace(one, epoch=4, opens=CLOSES + 1_234, closes=2 * CLOSES - OPENS)
    moments = []
    for phase in rng.uniform(0, 3_600, 3_000):
        _, again, *_ = list_wake_times(phase, one.opens)
        first, *_ = list_wake_times(phase, two.opens)
        asked = again if is_planted else draw_token_moment(one, again, 3_600, rng.bytes)
        moments.append((asked, draw_plan(two, 1, first, 3_600, rng.bytes).send_at))
    fetched, sent = (np.array(times) for times in zip(*moments, strict=True))
    worst = max(
        abs(np.corrcoef(turn(2 * np.pi * fetched / span), other)[0, 1])
        for span in (3_600, 86_400)
        for turn in (np.sin, np.cos)
        for other in (sent, np.sin(2 * np.pi * sent / 3_600))
    )
    assert bool(worst * np.sqrt(3_000) > 5.7) is is_planted


if __name__ == "__main__":
    write()


NAMES = {"mechanism": "named", "parameters": {"names": 10}, "loud_fraction": 0.1}
DAY_SECONDS = 86_400


@given(st.floats(0, 0.999), st.integers(0, 2**64 - 1))
def test_names_leave_in_the_last_quarter_of_a_long_epoch(begun: float, word: int) -> None:
    """Send in what is left of the quarter if the device begins later."""
    one = manifest(**NAMES, opens=OPENS, closes=OPENS + 7 * DAY_SECONDS)
    now, lead = OPENS + begun * 7 * DAY_SECONDS, compute_lead(one)
    drawn = iter([bytes(8), word.to_bytes(8, "little")])
    send_at = draw_plan(one, 1, now, 3_600.0, lambda _: next(drawn)).send_at
    assert send_at >= max(now + lead, one.closes - 7 * DAY_SECONDS / 4)
    if now + 2 * lead < one.closes:
        assert send_at <= one.closes - lead


@pytest.mark.parametrize("days", [4.0, 5.5, 7.0, 28.0])
@pytest.mark.parametrize("word", [0, 2**63, 2**64 - 1])
def test_device_that_syncs_once_a_day_reports_a_name(days: float, word: int) -> None:
    """Find a sync after the moment, or at most an hour before it, at whatever time of the day."""
    one = manifest(**NAMES, opens=OPENS, closes=OPENS + int(days * DAY_SECONDS), hold=0)
    for phase in np.arange(0.0, 1.0, 0.05):
        syncs = [OPENS + (phase + day) * DAY_SECONDS for day in range(29)]
        drawn = iter([bytes(8), word.to_bytes(8, "little")])
        send_at = draw_plan(one, 1, syncs[0], 3_600.0, lambda _: next(drawn)).send_at  # noqa: B023
        last = max(now for now in syncs if is_time(one, now, 3_600.0))
        assert last >= send_at - compute_lead(one) - 3_600.0


def test_names_that_wait_for_their_crowd_leave_within_an_hour() -> None:
    one = manifest(**NAMES, opens=OPENS, closes=OPENS + 28 * DAY_SECONDS)
    drawn = iter([bytes(8), b"\xff" * 8])
    send_at = draw_plan(one, 1, one.closes, 3_600.0, lambda _: next(drawn)).send_at
    assert send_at <= one.closes + compute_lead(one) + 3_600.0


@pytest.mark.parametrize("changes", [{"closes": OPENS + 3 * DAY_SECONDS}, {"mechanism": "loudest"}])
def test_other_reports_leave_within_an_hour(changes: dict[str, Any]) -> None:
    taste = {} if "mechanism" in changes else NAMES
    one = manifest(**taste, **{"opens": OPENS, "closes": OPENS + 7 * DAY_SECONDS, **changes})
    drawn = iter([bytes(8), b"\xff" * 8])
    send_at = draw_plan(one, 1, OPENS, 3_600.0, lambda _: next(drawn)).send_at
    assert send_at <= OPENS + compute_lead(one) + 3_600


def test_a_sync_before_the_last_quarter_ends_and_a_later_one_reports(tmp_path: Path) -> None:
    built = Settings.preset("named", factors=FACTORS).build(ITEMS)
    week = 7 * DAY_SECONDS
    world = World(
        mechanism="named",
        parameters=built.public_parameters(),
        loud_fraction=built.loud_fraction,
        opens=0,
        closes=week,
    )
    proxy = FakeProxy(world)

    def sleep(seconds: float) -> None:
        world.now += seconds

    with world.create(tmp_path) as client:
        early = client.sync(proxy, sleep=sleep, jitter=3_600.0)
        assert (early.outcome, early.spent) == ("too early", 0)
        world.now = week - 3_700.0
        assert client.sync(proxy, sleep=sleep, jitter=3_600.0).outcome == "sent"
