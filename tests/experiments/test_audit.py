"""The audit passes on the shipped clients and finds every bug that is planted here.

False alarms: the audited clients draw from the operating system. Honest ones are judged three times
in this file, with alpha 2e-7 each: 6e-7 in all. That enough of epsilon is proven is no matter of
alpha; with the samples taken here it is, by five standard deviations and more.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import exp, log
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import typer
from numpy.typing import NDArray
from typer.testing import CliRunner

from sottovoce.cli.audit import audit
from sottovoce.errors import SettingsError
from sottovoce.experiments.audit import AuditPlan, Check, Client, examine, judge, live_client
from sottovoce.experiments.audit.bounds import Count, epsilon_at_least, related, surprise, uneven
from sottovoce.experiments.audit.clients import answer
from sottovoce.experiments.audit.entropy import FINITE, FORK, FRESH, in_fork
from sottovoce.experiments.audit.evidence import Fact, Ratio, Surprise
from sottovoce.experiments.audit.sampling import (
    COIN,
    ONE,
    PAIRS,
    RANGE,
    SAME,
    SHARE,
    SILENT,
    TWO,
    UNIFORM,
)
from sottovoce.experiments.audit.scenes import scenes
from sottovoce.mechanism import MECHANISMS, Loudest, os_words
from sottovoce.mechanism.base import COIN as COIN_WORD
from sottovoce.mechanism.base import DIRECTION
from sottovoce.mechanism.coin import WORD, flip_threshold
from sottovoce.model import Histories
from sottovoce.training import Settings

if TYPE_CHECKING:
    from pathlib import Path

    from sottovoce.experiments.audit.clients import Maker

Words = NDArray[np.uint64]
HONEST_ALPHA = 2e-7
SAMPLES, HONEST_SAMPLES = 30_000, 60_000
"""Few are enough to find a bug; to prove nine tenths of epsilon every time takes more."""
ALL_CHECKS = {ONE, TWO, RANGE, UNIFORM, SAME, SHARE, SILENT, COIN, PAIRS, FRESH, FORK, FINITE}
SIGHT = "the audit can see"


# Bounds


def test_clopper_pearson_pinned() -> None:
    seen = Count(9241, 10_000)
    assert seen.at_least(0.005) == pytest.approx(0.917024, abs=5e-7)
    assert seen.at_most(0.005) == pytest.approx(0.930768, abs=5e-7)


def test_epsilon_bound_pinned_both_ways() -> None:
    often, rare = Count(94_264, 100_000), Count(5_736, 100_000)
    for pair in ((often, rare), (rare, often)):
        assert epsilon_at_least(*pair, 1e-6) == pytest.approx(2.731547, abs=5e-7)


def test_bounds_at_the_ends() -> None:
    never, always = Count(0, 100), Count(100, 100)
    assert never.at_least(0.01) == 0
    assert always.at_most(0.01) == 1
    assert never.at_most(0.01) == pytest.approx(1 - 0.01 ** (1 / 100))
    assert epsilon_at_least(never, never, 0.01) == 0
    assert epsilon_at_least(always, never, 0.01) > 2


@pytest.mark.parametrize(("happened", "trials"), [(-1, 5), (6, 5), (0, 0)])
def test_impossible_counts_are_refused(happened: int, trials: int) -> None:
    with pytest.raises(SettingsError, match="cannot have seen"):
        Count(happened, trials)


def test_bound_misses_no_more_often_than_it_says() -> None:
    rng = np.random.default_rng(0)
    p, q, alpha = 0.8, 0.2, 0.2
    first, second = rng.binomial(200, p, 2000), rng.binomial(200, q, 2000)
    bounds = [
        epsilon_at_least(Count(int(a), 200), Count(int(b), 200), alpha)
        for a, b in zip(first, second, strict=True)
    ]
    assert np.mean(np.array(bounds) > log(p / q)) <= alpha / 2  # one of the two directions


def test_p_values_are_valid_and_see() -> None:
    rng = np.random.default_rng(1)
    coins = rng.random((500, 400)) < 0.02  # rare, as flips are
    p_values = np.array([related(row[:200], row[200:]) for row in coins])
    assert np.mean(p_values < 0.05) <= 0.07
    assert surprise(Count(50, 1000), 0.05) == pytest.approx(1, abs=0.1)
    assert surprise(Count(100, 1000), 0.05) < 1e-8
    assert uneven(np.array([100, 100, 100])) == 1
    assert uneven(np.array([200, 50, 50])) < 1e-8
    assert related(coins[0], coins[0]) < 1e-8
    assert related(np.zeros(9), np.arange(9)) == 1


# Judging


def test_share_of_every_test_shrinks_with_their_number() -> None:
    surprising = Surprise("loudest", "a", "x", 4e-7)
    assert not judge([surprising])[0].passed
    many = [surprising, *(Surprise("loudest", "b", "y", 0.5) for _ in range(9))]
    assert all(check.passed for check in judge(many))


def test_an_audit_that_sees_nothing_fails() -> None:
    blind = Ratio("loudest", ONE, "x", Count(50, 100), Count(50, 100), 2.5)
    one, sight = judge([blind])
    assert one.passed
    assert not sight.passed
    assert "samples" in sight.measured


def test_one_false_fact_fails() -> None:
    facts = [Fact("loudest", FORK, "fine", True), Fact("loudest", FORK, "the same", False)]
    (check,) = judge(facts)
    assert not check.passed
    assert check.measured == "1 of 2; the same"


# The scenes


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_some_report_is_as_telling_as_epsilon_allows(mechanism: str, seed: int) -> None:
    for epsilon in (0.5, 2.5, 6.0):
        tellings = []
        for scene in scenes(Settings.preset(mechanism, epsilon=epsilon, seed=seed)):
            first, second = scene.densities().astype(np.float64)
            assert first.mean() == pytest.approx(1, abs=1e-6)
            tellings.append(np.abs(np.log(first / second)).max())
        assert max(tellings) == pytest.approx(epsilon, rel=1e-4)


# The shipped clients


def failed(checks: Sequence[Check]) -> set[str]:
    return {check.check for check in checks if not check.passed}


def test_shipped_clients_pass() -> None:
    evidence = [
        each
        for mechanism in MECHANISMS
        for each in examine(live_client, Settings.preset(mechanism), HONEST_SAMPLES)
    ]
    checks = judge(evidence, HONEST_ALPHA)
    assert failed(checks) == set()
    names = {check.check for check in checks}
    assert names == ALL_CHECKS | {SIGHT} - ({FORK} if not hasattr(os, "fork") else set())


@pytest.mark.slow
def test_shipped_clients_pass_at_other_epsilons() -> None:
    evidence = []
    for epsilon in (1.0, 6.0):
        for mechanism in MECHANISMS:
            found = examine(live_client, Settings.preset(mechanism, epsilon=epsilon), 100_000)
            evidence += [replace(each, mechanism=f"{mechanism} {epsilon}") for each in found]
    checks = judge(evidence, HONEST_ALPHA)
    assert failed(checks) == set()
    assert sum(check.check == SIGHT for check in checks) == 6


# Planted bugs


def with_words(change: Callable[[Words, Settings], Words]) -> Maker:
    """The shipped client, but with something done to its random words."""

    def make(settings: Settings, n_items: int) -> Client:
        mechanism = settings.build(n_items)

        def client(V: NDArray[np.float32], history: Sequence[int], k: int) -> NDArray[Any]:
            own = Histories.from_lists([history], n_items)
            words = change(os_words(1, k).copy(), settings)
            return answer(mechanism, settings, V, own, words)

        return client

    return make


def found_in(make: Maker, settings: Settings, samples: int = SAMPLES) -> set[str]:
    return failed(judge(examine(make, settings, samples))) - {SIGHT}


def keeps_too_often(words: Words, settings: Settings) -> Words:
    """Keep probability x 1.02: words are mapped so that fewer of them flip."""
    flip = flip_threshold(settings.epsilon)
    fewer = flip - (WORD - flip) // 50
    coin = words[..., COIN_WORD]
    coin[(coin >= np.uint64(fewer)) & (coin < np.uint64(flip))] = np.uint64(WORD - 1)
    return words


@pytest.mark.parametrize("mechanism", ["coordinate", "hadamard"])
def test_finds_a_keep_probability_two_percent_too_high(mechanism: str) -> None:
    found = found_in(with_words(keeps_too_often), Settings.preset(mechanism))
    assert {ONE, SHARE} <= found
    assert not found & {UNIFORM, FRESH, FORK, FINITE}


def test_finds_a_blanket_a_tenth_too_small() -> None:
    """In `loudest` gamma is what carries epsilon: 0.9 gamma names loud rows too often."""

    def change(words: Words, settings: Settings) -> Words:
        lost = words[..., 3] % 10 == 0  # the unused word: independent of the coin
        words[lost, COIN_WORD] = np.uint64(WORD - 1)
        return words

    # epsilon is only 0.15 too large: it takes more reports than the other bugs
    found = found_in(with_words(change), Settings.preset("loudest"), samples=120_000)
    assert {ONE, SHARE} <= found


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_finds_one_coin_for_all_reports(mechanism: str) -> None:
    def one_coin(words: Words, settings: Settings) -> Words:
        words[..., COIN_WORD] = words[:, :1, COIN_WORD]
        return words

    assert PAIRS in found_in(with_words(one_coin), Settings.preset(mechanism))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_finds_a_coin_shared_by_two_neighbours(mechanism: str) -> None:
    """Each report is fine by itself, and so is any number of single events."""

    def shared(words: Words, settings: Settings) -> Words:
        words[:, 1:-1:2, COIN_WORD] = words[:, 0:-2:2, COIN_WORD]
        return words

    found = found_in(with_words(shared), Settings.preset(mechanism))
    assert PAIRS in found
    assert ONE not in found


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_finds_a_direction_taken_from_the_coin(mechanism: str) -> None:
    def reused(words: Words, settings: Settings) -> Words:
        words[..., DIRECTION] = words[..., COIN_WORD]
        return words

    assert COIN in found_in(with_words(reused), Settings.preset(mechanism))


@pytest.mark.parametrize("mechanism", ["coordinate", "hadamard"])
def test_finds_an_index_that_depends_on_the_history(mechanism: str) -> None:
    """Half of the reports are about the person's own item: the index alone tells."""

    def make(settings: Settings, n_items: int) -> Client:
        mechanism = settings.build(n_items)
        size = mechanism.n_directions

        def client(V: NDArray[np.float32], history: Sequence[int], k: int) -> NDArray[Any]:
            own = Histories.from_lists([history], n_items)
            words = os_words(1, k).copy()
            about_own = words[..., 3] % 2 == 0
            own_item = history[0] if history else 0
            own_index = WORD // size * own_item * settings.factors + 1
            words[about_own, DIRECTION] = np.uint64(own_index)
            return answer(mechanism, settings, V, own, words)

        return client

    assert {UNIFORM, SAME} <= found_in(make, Settings.preset(mechanism))


def test_finds_a_loud_set_whose_size_depends_on_the_history() -> None:
    """Each size is private by itself; the two are not private against each other."""

    def make(settings: Settings, n_items: int) -> Client:
        shape = settings.build(n_items).shape

        def client(V: NDArray[np.float32], history: Sequence[int], k: int) -> NDArray[Any]:
            own = Histories.from_lists([history], n_items)
            sized = Loudest(shape, settings.epsilon, settings.seed, loud=1 + sum(history) % 2)
            return answer(sized, settings, V, own, os_words(1, k))

        return client

    assert ONE in found_in(make, Settings.preset("loudest"))


def test_finds_a_tie_that_always_breaks_the_same_way() -> None:
    """Somebody without a history then names the same rows for ever: she is recognised by it."""

    def no_mask(words: Words, settings: Settings) -> Words:
        words[:, -1, DIRECTION] = 0
        return words

    assert SILENT in found_in(with_words(no_mask), Settings.preset("loudest"))


def seeded_when_made(settings: Settings, n_items: int) -> Client:
    """Every client begins with the same seed."""
    return _with_generator(settings, n_items, np.random.default_rng(7))


SHARED = np.random.default_rng(8)


def seeded_when_imported(settings: Settings, n_items: int) -> Client:
    """All clients of a process share one generator: only a fork repeats it."""
    return _with_generator(settings, n_items, SHARED)


def _with_generator(settings: Settings, n_items: int, generator: np.random.Generator) -> Client:
    mechanism = settings.build(n_items)

    def client(V: NDArray[np.float32], history: Sequence[int], k: int) -> NDArray[Any]:
        own = Histories.from_lists([history], n_items)
        words = generator.integers(0, WORD, (1, k + 1, 4), dtype=np.uint64)
        return answer(mechanism, settings, V, own, words)

    return client


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_finds_a_seeded_generator(mechanism: str) -> None:
    assert FRESH in found_in(seeded_when_made, Settings.preset(mechanism), samples=2000)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_finds_a_generator_that_survives_a_fork(mechanism: str) -> None:
    found = found_in(seeded_when_imported, Settings.preset(mechanism), samples=2000)
    assert FORK in found
    assert FRESH not in found


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_finds_nan_let_through(mechanism: str) -> None:
    def make(settings: Settings, n_items: int) -> Client:
        honest = live_client(settings, n_items)

        def client(V: NDArray[np.float32], history: Sequence[int], k: int) -> NDArray[Any]:
            return honest(np.nan_to_num(V, posinf=1, neginf=-1), history, k)

        return client

    assert found_in(make, Settings.preset(mechanism), samples=2000) == {FINITE}


def test_finds_the_wrong_kind_of_refusal() -> None:
    def make(settings: Settings, n_items: int) -> Client:
        honest = live_client(settings, n_items)

        def client(V: NDArray[np.float32], history: Sequence[int], k: int) -> NDArray[Any]:
            if not np.isfinite(V).all():
                raise ZeroDivisionError
            return honest(V, history, k)

        return client

    checks = judge(examine(make, Settings.preset("loudest"), 2000))
    (finite,) = (check for check in checks if check.check == FINITE)
    assert not finite.passed
    assert "ZeroDivisionError" in finite.measured


def test_finds_reports_that_cannot_be() -> None:
    def make(settings: Settings, n_items: int) -> Client:
        honest = live_client(settings, n_items)
        return lambda V, history, k: honest(V, history, k) + np.uint32(1000)

    assert RANGE in found_in(make, Settings.preset("loudest"), samples=2000)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_fork_that_breaks_is_no_answer() -> None:
    assert in_fork(lambda: b"said") == b"said"

    def fails() -> bytes:
        raise RuntimeError

    assert in_fork(fails) == b""


# The command


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer()
    app.command()(audit)
    return app


TINY = ["--data", "synthetic:N=60,M=30,seed=0", "--reports", "5", "--trials", "80", "--quick"]
TINY += ["--samples", f"{HONEST_SAMPLES}"]


def test_command_passes_and_writes_everything(
    app: typer.Typer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "sottovoce.experiments.audit.audit.judge", partial(judge, alpha=HONEST_ALPHA)
    )
    files = ["--json", str(tmp_path / "a.json"), "--plot", str(tmp_path / "a.png")]
    result = CliRunner().invoke(app, [*TINY, *files])
    assert result.exit_code == 0, result.output
    assert "Audit passed" in result.stdout
    content = json.loads((tmp_path / "a.json").read_text())
    assert content["passed"]
    assert {check["mechanism"] for check in content["checks"]} == set(MECHANISMS)
    assert [each["settings"]["mechanism"] for each in content["attacks"]] == list(MECHANISMS)
    assert all(0 <= p["linked"]["value"] <= 1 for p in content["attacks"][0]["points"])
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_command_fails_with_exit_code_1(app: typer.Typer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sottovoce.experiments.audit.audit.live_client", seeded_when_made)
    arguments = ["--mechanism", "hadamard", "--no-attack", "--samples", "2000"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1
    assert "FAIL" in result.stdout
    assert "Audit FAILED" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--plot", "x.png", "--no-attack"], "--no-attack"),
        (["--samples", "10"], "at least 1000"),
        (["--mechanism", "whisper"], "whisper"),
        (["--mechanism", "loudest", "--mechanism", "loudest"], "twice"),
        (["--epsilon", "-1"], "epsilon must be a finite number above 0"),
        (["--trials", "2"], "trials"),
        (["--clients", "1"], "at least 2"),
        (["--reports", "0"], "at least 1"),
    ],
)
def test_command_refuses(app: typer.Typer, arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, SettingsError)
    assert message in str(result.exception)


def test_plan_names_every_training() -> None:
    plan = AuditPlan(epsilon=1.0, reports=3, epochs=2, alpha=4.0)
    assert [settings.mechanism for settings in plan.settings()] == list(MECHANISMS)
    assert {(s.epsilon, s.reports, s.epochs, s.alpha) for s in plan.settings()} == {
        (1.0, 3, 2, 4.0)
    }


def test_densities_of_a_sign_are_the_coins() -> None:
    scene = scenes(Settings.preset("hadamard", epsilon=2.0))[0]
    keep = exp(2.0) / (1 + exp(2.0))
    assert sorted(set(np.round(scene.densities().ravel() / 2, 5))) == [
        pytest.approx(1 - keep, abs=1e-5),
        pytest.approx(keep, abs=1e-5),
    ]
