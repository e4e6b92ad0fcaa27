"""`sottovoce bench` and what is below it: tables, JSON, and what is refused."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from sottovoce.cli.app import app
from sottovoce.core import MECHANISMS
from sottovoce.errors import SettingsError
from sottovoce_lab.bench.live.live_bench import UnitCosts
from sottovoce_lab.cli.bench import PEOPLE, show_costs
from tests.processes import calling

SMALL = ("--data", "synthetic:N=80,M=40,seed=0", "--reports", "4", "--repeats", "1")
COORDINATE = (*SMALL, "--mechanism", "coordinate")
REFERENCE = ("--reference-users", "3")

bench = calling(app, "bench")


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without Ray and without a card."""
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setitem(sys.modules, "cupy", None)


def written(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def test_an_epoch_beside_als_and_the_reference(tmp_path: Path) -> None:
    json_file = tmp_path / "bench.json"
    shown = bench(*SMALL, *REFERENCE, "--threads", "1", "--json", json_file)
    for words in (
        "epoch / ALS iteration", "reference / epoch", "3 users drawn", "Growth", "Peak memory",
    ):  # fmt: skip
        assert words in shown
    content = written(json_file)
    assert [each["mechanism"] for each in content["comparisons"]] == list(MECHANISMS)
    assert {path.name for path in tmp_path.iterdir()} == {"bench.json"}


def test_one_mechanism_filtered_without_growth(tmp_path: Path) -> None:
    json_file = tmp_path / "bench.json"
    few = ("--mechanism", "loudest", "--no-growth", "--min-interactions", "3")
    assert "Growth" not in bench(*SMALL, *REFERENCE, *few, "--json", json_file)
    content = written(json_file)
    assert content["plan"]["mechanisms"] == ["loudest"]
    assert content["growth"] == []


@pytest.mark.parametrize("command", [("--no-growth",), ("engines",)])
def test_quick_is_small(command: tuple[str, ...], tmp_path: Path) -> None:
    json_file = tmp_path / "bench.json"
    many = ("--data", "synthetic:N=1100,M=40,seed=0", "--repeats", "9")
    bench(*command, *COORDINATE, *many, "--quick", "--json", json_file)
    content = written(json_file)
    assert content["data"]["users"] == 1000
    assert (content["plan"]["repeats"], content["plan"]["reference_users"]) == (2, 20)


def test_engines_side_by_side(tmp_path: Path) -> None:
    json_file = tmp_path / "engines.json"
    few = (*REFERENCE, "--parts", "2", "--json", json_file)
    shown = bench("engines", *COORDINATE, *few)
    for words in (
        "cpu, 1 thread", "streamed, 2 parts", "streamed, 2 shards", "reference",
        "All give the same sums", "Left out: ray", "Left out: cuda", "3 users drawn at random",
    ):  # fmt: skip
        assert words in shown
    (found,) = written(json_file)["mechanisms"]
    assert found["mechanism"] == "coordinate"
    assert set(found["left_out"]) == {"ray", "cuda"}


def test_scaling_table_and_json(tmp_path: Path) -> None:
    json_file = tmp_path / "scaling.json"
    shown = bench("scaling", *COORDINATE, "--json", json_file)
    for words in ("strong", "weak", "1 thread ", "efficiency", "Left out: ray workers"):
        assert words in shown
    assert [each["kind"] for each in written(json_file)["scalings"]] == ["strong", "weak"]


@pytest.mark.parametrize("command", [(), ("engines",), ("scaling",)])
def test_an_unknown_mechanism_is_refused(command: tuple[str, ...]) -> None:
    with pytest.raises(SettingsError):
        bench(*command, *SMALL, "--mechanism", "louder")


def test_costs_are_readable_in_80_columns() -> None:
    units = UnitCosts(
        reports=100, items=1000, opening=9e-5, intake=2e-4, mixing=1e-4, up=5256, down=21_000,
        catalogue=50_000,
    )  # fmt: skip
    console = Console(width=80, record=True, file=io.StringIO())
    show_costs(units, [units.of(number) for number in PEOPLE], console)
    shown = console.export_text()
    assert "90 us" in shown
    for whole in ("10,000,000", "1,000,000,000", "server's disk", "210 GB", "25 h", "52.6 GB"):
        assert re.search(rf"[ │┃]{re.escape(whole)} *[│┃]", shown), whole
