"""The benchmark and its command: it measures what it says, and on whom."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from sottovoce.cli.app import app
from sottovoce.data import synthetic_people
from sottovoce.errors import MissingExtraError, SettingsError
from sottovoce.experiments.bench import BenchPlan, Spread, run_bench
from sottovoce.experiments.bench.als import als_solver, one_blas_thread
from sottovoce.experiments.bench.epoch import ReferenceEpoch, TimedEpoch
from sottovoce.experiments.bench.timing import Contender, peak_memory, ratio, slope, take_turns
from sottovoce.mechanism import MECHANISMS
from sottovoce.model import Histories
from sottovoce.simulation.cpu.work import work_of
from sottovoce.training import Settings
from tests.processes import calling

if TYPE_CHECKING:
    from pathlib import Path

    from sottovoce.data import Interactions
    from sottovoce.experiments.bench import BenchResult
    from sottovoce.simulation import LocalEngine

PLAN = BenchPlan(repeats=2, reference_users=5, reports=8, threads=1)


@pytest.fixture(scope="module")
def people() -> Interactions:
    return synthetic_people(n_users=120, n_items=60, seed=0)


@pytest.fixture(scope="module")
def result(people: Interactions) -> BenchResult:
    return run_bench(people, PLAN)


def test_every_mechanism_has_positive_ratios(result: BenchResult) -> None:
    assert [each.mechanism for each in result.comparisons] == list(MECHANISMS)
    for each in result.comparisons:
        assert len(each.seconds) == PLAN.repeats
        for spread in (
            each.epoch_over_als,
            each.reference_over_epoch,
            each.client_epochs_per_second,
        ):
            assert 0 < spread.low <= spread.median <= spread.high < np.inf
        assert each.operations_per_second > 0
        assert each.reading_share > 0


def test_every_mechanism_grows_along_every_axis(result: BenchResult, people: Interactions) -> None:
    found = {(growth.mechanism, growth.axis) for growth in result.growth}
    assert found == {(m, axis) for m in MECHANISMS for axis in ("users", "items", "reports")}
    for growth in result.growth:
        last = growth.points[-1]
        assert last.interactions == people.histories.n_interactions
        assert (growth.slope_of_interactions is None) == (growth.axis == "reports")
        assert last.nanoseconds_per_interaction > 0
    sizes = {g.axis: [p.size for p in g.points] for g in result.growth}
    assert sizes == {"users": [15, 30, 60, 120], "items": [7, 15, 30, 60], "reports": [2, 4, 8, 16]}


def test_result_round_trips_through_json(result: BenchResult) -> None:
    content = result.as_dict()
    assert json.loads(json.dumps(content)) == content
    assert content["data"]["users"] == 120
    assert content["als_solver"].startswith("conjugate gradient")


def test_memory_is_a_peak(result: BenchResult) -> None:
    memory = result.memory
    if peak_memory() is None:
        pytest.skip("nobody counts memory here")
    assert memory.loaded is not None
    assert memory.epochs is not None
    assert memory.all is not None
    assert 0 < memory.loaded <= memory.epochs <= memory.all


def test_contenders_take_turns_in_a_rotating_order() -> None:
    ran: list[str] = []

    def contender(name: str) -> Contender:
        def run() -> float:
            ran.append(name)
            return float(len(ran))

        return Contender(name, run)

    seconds = take_turns([contender(name) for name in "abc"], 4, lambda _what: None)
    rounds = ["".join(ran[at : at + 3]) for at in range(0, 12, 3)]
    assert rounds == ["abc", "bca", "cab", "abc"]
    assert all(len(each) == 4 for each in seconds.values())


def test_ratios_are_taken_within_a_round() -> None:
    """The second round ran on a machine ten times slower; the ratio does not notice."""
    seconds = {"ours": [1.0, 10.0], "theirs": [4.0, 40.0]}
    assert ratio(seconds, "theirs", "ours") == Spread(4.0, 4.0, 4.0)


@pytest.mark.parametrize("exponent", [-1.0, 0.0, 0.5, 1.0, 2.0])
def test_slope_recovers_an_exponent(exponent: float) -> None:
    sizes = [1000, 2000, 4000, 8000]
    seconds = [3e-5 * size**exponent for size in sizes]
    assert slope(sizes, seconds) == pytest.approx(exponent, abs=1e-12)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_reference_is_timed_on_a_sample_and_extrapolated(
    people: Interactions, mechanism: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    epoch = TimedEpoch.warmed_up(people.histories, Settings.preset(mechanism, reports=5), 1)
    seen: list[LocalEngine] = []

    def parts(_: TimedEpoch, engine: LocalEngine) -> tuple[float, float]:
        seen.append(engine)
        return 3.0, 0.5

    monkeypatch.setattr(TimedEpoch, "parts", parts)
    assert ReferenceEpoch(epoch, np.arange(30)).run() == 3.0 * 120 / 30 + 0.5
    assert (seen[0].name, seen[0].histories.n_users) == ("reference", 30)


def test_work_is_counted() -> None:
    histories = Histories.from_lists([[0, 2], [1, 2, 299]], n_items=300)
    settings = Settings.preset("loudest", factors=2, reports=10, epsilon=1.0)
    work = work_of(histories, settings)
    assert work.index_bytes == 5 * 4
    assert work.butterflies == 2 * 512 // 2  # two users, blocks of 256 in parts of 128: one level
    assert work.dense == 2 * 512 * 2
    assert work.words == 2 * 11 * 4
    coordinate = work_of(histories, settings.changed(mechanism="coordinate"))
    assert (coordinate.butterflies, coordinate.table_rows) == (0, 5 + 2 * 10)
    normal_equations, predictions = 5 * (3 + 2), 5 * (2 - 1)
    assert work.additions == normal_equations + predictions + 5 * (128 + 1)
    assert work.vector_bytes == 0  # in an epoch they go from one loop to the next
    assert work.table_bytes == 300 * 2 * 4 + 512 * 2 * 4 + 300 * 2 * 4


@pytest.mark.parametrize(
    "wrong",
    [{"mechanisms": ("louder",)}, {"mechanisms": ()}, {"repeats": 0}, {"reference_users": 0}],
)
def test_a_plan_that_cannot_work_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(SettingsError, match=next(iter(wrong))):
        replace(PLAN, **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("module", ["implicit.cpu.als", "threadpoolctl"])
def test_a_missing_library_names_the_extra(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    package = module.partition(".")[0]
    with (
        pytest.raises(MissingExtraError, match=rf"{package}.*sottovoce\[bench\]"),
        one_blas_thread(),
    ):
        als_solver()


SMALL = (
    "--data", "synthetic:N=80,M=40,seed=0", "--reports", "4", "--repeats", "1",
    "--reference-users", "3", "--threads", "1",
)  # fmt: skip


run_command = calling(app, "bench", *SMALL)


@pytest.mark.slow  # matplotlib may have to look for fonts first
def test_tables_json_and_picture(tmp_path: Path) -> None:
    json_file, picture = tmp_path / "bench.json", tmp_path / "bench.png"
    shown = run_command("--json", json_file, "--plot", picture)
    for words in ("epoch / ALS iteration", "reference / epoch", "3 users drawn", "Peak memory"):
        assert words in shown
    content = json.loads(json_file.read_text())
    assert [each["mechanism"] for each in content["comparisons"]] == list(MECHANISMS)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert {path.name for path in tmp_path.iterdir()} == {"bench.json", "bench.png"}


def test_one_mechanism_filtered_without_growth(tmp_path: Path) -> None:
    json_file = tmp_path / "bench.json"
    few = ("--mechanism", "loudest", "--no-growth", "--min-interactions", "3")
    assert "Growth" not in run_command(*few, "--json", json_file)
    content = json.loads(json_file.read_text())
    assert content["plan"]["mechanisms"] == ["loudest"]
    assert content["growth"] == []


def test_quick_is_small(tmp_path: Path) -> None:
    json_file = tmp_path / "bench.json"
    few = ("--quick", "--mechanism", "coordinate", "--no-growth", "--repeats", "9")
    run_command(*few, "--data", "synthetic:N=1100,M=40,seed=0", "--json", str(json_file))
    content = json.loads(json_file.read_text())
    assert content["data"]["users"] == 1000
    assert len(content["als_seconds"]) == 2


def test_picture_needs_growth(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no-growth"):
        run_command("--no-growth", "--plot", str(tmp_path / "bench.png"))


def test_picture_needs_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"sottovoce\[plot\]"):
        run_command("--plot", str(tmp_path / "bench.png"))
