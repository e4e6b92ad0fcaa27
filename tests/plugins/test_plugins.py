"""A mechanism is a class, a kernel and a line; an engine is a folder and a line.

`whisper` and `echo` are registered here and go through everything: the contract suites, the
simulator, the manifest, the live system (devices, proxy, server), the audit and the benchmark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from sottovoce.data import synthetic_people
from sottovoce.experiments.audit import Client, examine, judge, live_client
from sottovoce.experiments.bench.comparison import BenchPlan, run_bench
from sottovoce.mechanism import MECHANISMS
from sottovoce.privacy import Crowd, account
from sottovoce.protocol import Manifest
from sottovoce.simulation import ENGINES, FederatedMF, SimulationPlan, simulate
from sottovoce.simulation.cpu.epoch import run_epoch
from sottovoce.training import Settings, all_settings, presets
from sottovoce.training.options import options
from tests.live import test_parity as live
from tests.mechanism import test_contract as mechanism_contract
from tests.plugins.whisper import Whisper
from tests.protocol.examples import manifest
from tests.simulation import test_engine as engine_contract

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MECHANISMS, Whisper.name, Whisper)
    monkeypatch.setitem(ENGINES, "echo", "tests.plugins.echo")


def test_the_mechanism_passes_the_contract_of_all() -> None:
    mechanism_contract.test_any_history_gives_k_reports_within_range("whisper")
    mechanism_contract.test_a_batch_is_its_users_one_by_one("whisper")
    mechanism_contract.test_the_estimate_is_linear_in_the_sums_and_zero_without_reports("whisper")
    mechanism_contract.test_densities_keep_what_the_accountant_is_told("whisper")
    mechanism_contract.test_whatever_a_server_may_publish_everybody_can_report("whisper")
    # Private, but of little use: signs of single entries say nothing about their size.
    with pytest.raises(AssertionError):
        mechanism_contract.test_many_people_point_down_the_gradient("whisper")


@pytest.mark.parametrize("engine", ["cpu", "reference", "echo"])
@pytest.mark.parametrize("mechanism", ["whisper", "loudest"])
def test_engines_agree_to_the_bit(engine: str, mechanism: str) -> None:
    engine_contract.test_reports_are_the_references(engine, mechanism, 127, 5, 20)
    engine_contract.test_shards_add_up_to_the_whole(engine, mechanism)
    engine_contract.test_an_engine_is_closed_by_its_block(engine)


def test_nothing_of_it_is_left_in_the_cache_of_compiled_loops() -> None:
    """Whoever has no such plug-in could not read that cache."""
    engine_contract.test_reports_are_the_references("cpu", "whisper", 3, 2, 5)
    assert not any("Whisper" in str(signature) for signature in run_epoch.signatures)


def test_it_is_a_preset_a_setting_and_a_plan() -> None:
    assert "whisper" in presets()
    assert Settings.preset("whisper") == Settings(mechanism="whisper")
    assert "whisper" in all_settings()["mechanism"].help
    assert options("whisper", 10.0, "local", None, 1e-6, 1000)
    assert account(Settings.preset("whisper").event(30), Crowd(1000)).training == 5000


def test_the_manifest_carries_it() -> None:
    one = manifest(mechanism="whisper", parameters={}, loud_fraction=0.5)
    assert Manifest.decode(one.encode()).build() == one.build()
    assert isinstance(one.build(), Whisper)


def test_the_simulator_trains_with_it() -> None:
    people = synthetic_people(n_users=150, n_items=60, seed=0)
    settings = Settings.preset("whisper", epochs=2, reports=20)
    runs = [simulate(people, SimulationPlan(settings, engine=name)) for name in ("cpu", "echo")]
    assert np.array_equal(runs[0].V, runs[1].V)
    model = FederatedMF(5, mechanism="whisper", epochs=1, engine="echo").fit(people.histories)
    assert model.item_factors.shape == (60, 5)


@pytest.mark.slow
def test_devices_proxy_and_server_train_with_it(tmp_path: Path) -> None:
    live.test_live_and_simulated_are_the_same_bits(tmp_path, "whisper", 60, 2, ("east",))


@pytest.mark.slow
def test_the_audit_passes_it_and_catches_a_bug_in_it() -> None:
    """One audit of an honest client in a million fails: `ALPHA`."""
    settings = Settings.preset("whisper")
    assert all(check.passed for check in judge(examine(live_client, settings, 60_000)))

    def louder(stated: Settings, n_items: int) -> Client:
        return live_client(stated.changed(epsilon=3.0), n_items)

    assert not all(check.passed for check in judge(examine(louder, settings, 60_000)))


@pytest.mark.slow
def test_the_benchmark_times_it() -> None:
    people = synthetic_people(n_users=100, n_items=50, seed=0)
    plan = BenchPlan(("whisper",), reports=5, repeats=1, reference_users=5, growth=False)
    (found,) = run_bench(people, plan).comparisons
    assert found.mechanism == "whisper"
