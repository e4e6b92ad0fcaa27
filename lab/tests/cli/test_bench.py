"""`sottovoce bench` and what is below it: tables, JSON, and what is refused."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from sottovoce.cli.app import app
from sottovoce.core import MECHANISMS
from sottovoce.errors import SettingsError
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
