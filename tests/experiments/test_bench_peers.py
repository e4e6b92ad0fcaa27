"""Other simulators beside ours: refused if they compute something else, left out if not there."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from sottovoce.cli.app import app
from sottovoce.data import synthetic_people
from sottovoce.errors import MissingExtraError, SettingsError, SottovoceError
from sottovoce.experiments.bench import Spread
from sottovoce.experiments.bench.epoch import TimedEpoch
from sottovoce.experiments.bench.peers import PEERS, PeersPlan, registry
from sottovoce.experiments.bench.peers.comparison import draw_sample, rate_of, run_peers
from sottovoce.experiments.bench.peers.registry import Peer
from sottovoce.experiments.bench.peers.sample import PeerEpoch, check_sums
from sottovoce.mechanism import MECHANISMS, sum_signs
from sottovoce.simulation import Collected
from sottovoce.training import next_items
from tests.processes import calling

if TYPE_CHECKING:
    from sottovoce.experiments.bench.peers.registry import PeerModule
    from sottovoce.experiments.bench.peers.sample import Sample, Work

ROOT = Path(__file__).parents[2]
PLAN = PeersPlan(people=12, reports=6, repeats=2, threads=1)
DATA = synthetic_people(n_users=60, n_items=50, seed=0)


def sample_of(mechanism: str = "loudest") -> Sample:
    plan = replace(PLAN, mechanism=mechanism)
    return draw_sample(TimedEpoch.warmed_up(DATA.histories, plan.settings(), 1), plan)


def one_by_one(sample: Sample, work: Work) -> Collected:
    said = np.stack([sample.reports(place, sample.V, work) for place in range(len(sample))])
    n_directions = sample.settings.build(sample.histories.n_items).n_directions
    return Collected(sum_signs(said, n_directions), said.size)


class Loop:
    """The smallest simulator; it may forget a device, and says what it was asked."""

    def __init__(self, forgets: int = 0, slow: float = 1.0):
        self.forgets, self.slow = forgets, slow
        self.asked: list[str] = []

    def run(self, sample: Sample, work: Work, cores: int) -> PeerEpoch:
        self.asked.append(work)
        found = one_by_one(sample, work)
        return PeerEpoch(self.slow, replace(found, n_reports=found.n_reports - self.forgets))


@dataclass(frozen=True)
class LoopPeer(Peer):
    loop: Loop

    @property
    def is_installed(self) -> bool:
        return True

    @property
    def version(self) -> str:
        return "1.0"

    def driver(self) -> PeerModule:
        return self.loop


def peer(loop: Loop) -> LoopPeer:
    return LoopPeer("Loop", "", (), "", loop)


ABSENT = Peer("Absent", "", ("no_such_package",), "pip install absent")


@pytest.mark.parametrize("work", ["reference", "cpu"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_people_one_by_one_are_the_cpu_engine_s_epoch(mechanism: str, work: Work) -> None:
    sample = sample_of(mechanism)
    check_sums("one by one", one_by_one(sample, work), sample.expected())


def test_a_sample_keeps_everybody_s_number() -> None:
    sample = sample_of()
    assert len(sample) == PLAN.people
    assert len({*sample.numbers}) == PLAN.people
    assert sample.numbers[-1] >= PLAN.people  # drawn among all, not the first of them
    for place, number in enumerate(sample.numbers):
        assert np.array_equal(sample.histories[place], DATA.histories[int(number)])


def test_the_server_s_update_is_that_of_a_training() -> None:
    sample, settings = sample_of(), PLAN.settings()
    found, mechanism = sample.expected(), settings.build(DATA.histories.n_items)
    expected = next_items(sample.V, found.sums, found.n_reports, 2, settings, mechanism)
    assert np.array_equal(sample.update(found), expected)


def test_other_sums_are_refused() -> None:
    right = Collected(np.array([1, -1, 0]), 2)
    check_sums("Loop", right, right)
    for wrong in (replace(right, sums=np.array([1, 0, -1])), replace(right, n_reports=3)):
        with pytest.raises(SottovoceError, match="Loop does not compute the same epoch"):
            check_sums("Loop", wrong, right)


def test_a_peer_that_computes_something_else_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = Loop(forgets=1)
    monkeypatch.setattr(registry, "PEERS", (peer(loop),))
    with pytest.raises(SottovoceError, match="Loop, reference does not compute the same"):
        run_peers(DATA, PLAN)
    assert loop.asked == ["reference"]


def test_sums_are_compared_before_anything_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = Loop(slow=0.5)
    monkeypatch.setattr(registry, "PEERS", (peer(loop), ABSENT))
    result = run_peers(DATA, PLAN)
    assert loop.asked[:2] == ["reference", "cpu"]
    assert sorted(loop.asked[2:]) == sorted(["reference", "cpu", "nothing"] * PLAN.repeats)
    assert [each.work for each in result.rates] == ["reference", "cpu", "nothing"]
    for each in result.rates:
        assert each.client_epochs_per_second == Spread(24.0, 24.0, 24.0)
        assert each.ours_over_peer.median > 0
    assert result.left_out == {"Absent": "pip install absent"}


def test_rates_are_divided_within_a_round() -> None:
    """The second round ran on a machine ten times slower; the ratio does not notice."""
    found = rate_of(peer(Loop()), "cpu", [2.0, 20.0], 100, np.array([5000.0, 500.0]))
    assert found.client_epochs_per_second == Spread(27.5, 5.0, 50.0)
    assert found.ours_over_peer == Spread(100.0, 100.0, 100.0)


run_command = calling(
    app, "bench", "peers", "--data", "synthetic:N=60,M=50,seed=0", "--reports", "4", "--people", 5,
    "--repeats", "1", "--threads", "1",
)  # fmt: skip


def test_table_and_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "PEERS", (peer(Loop()), ABSENT))
    shown = run_command("--json", tmp_path / "peers.json", "--mechanism", "coordinate")
    for words in ("Loop 1.0", "numpy reference", "our compiled engine", "nothing: zeros"):
        assert words in shown
    assert "Absent is not installed and was left out: pip install absent" in shown
    content = json.loads((tmp_path / "peers.json").read_text())
    assert (content["sample"], content["plan"]["mechanism"]) == (5, "coordinate")
    assert [each["client_epochs_per_second"]["median"] for each in content["rates"]] == [5.0] * 3


def test_without_any_peer_the_command_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tuple(replace(each, needs=("no_such_package",)) for each in PEERS)
    monkeypatch.setattr(registry, "PEERS", gone)
    with pytest.raises(MissingExtraError, match=r"flwr\[simulation\].*pip install pfl"):
        run_command()


def test_a_plan_that_cannot_work_is_refused() -> None:
    with pytest.raises(SettingsError, match="people"):
        replace(PLAN, people=0)


def compare(name: str) -> None:
    """The real peer of this name, in a process of its own: what Ray leaves behind ends with it."""
    real, sample = next(each for each in PEERS if each.name == name), sample_of()
    check_sums(name, real.driver().run(sample, "reference", 1).found, sample.expected())


@pytest.mark.slow
@pytest.mark.parametrize("real", PEERS, ids=lambda each: each.name)
def test_a_real_peer_computes_the_same_epoch(real: Peer) -> None:
    if not real.is_installed:
        pytest.skip(f"{real.name} is not installed: {real.install}")
    code = f"from {__name__} import compare; compare({real.name!r})"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=300)
