"""`sottovoce bench` and what is below it: tables, JSON, and what is refused."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from sottovoce.cli.app import app
from sottovoce.errors import SettingsError
from tests.processes import make_caller

SMALL = ("--data", "synthetic:N=80,M=40,seed=0", "--reports", "4", "--repeats", "1")
COORDINATE = (*SMALL, "--mechanism", "coordinate")

bench = make_caller(app, "bench")


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without Ray and without a card."""
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setitem(sys.modules, "cupy", None)


def written(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def test_quick_is_small(tmp_path: Path) -> None:
    json_file = tmp_path / "bench.json"
    many = ("--data", "synthetic:N=1100,M=40,seed=0", "--repeats", "9")
    bench(*COORDINATE, *many, "--quick", "--json", json_file)
    content = written(json_file)
    assert content["data"]["users"] == 1000
    assert (content["plan"]["repeats"], content["plan"]["reference_users"]) == (2, 20)


def test_engines_side_by_side(tmp_path: Path) -> None:
    json_file = tmp_path / "engines.json"
    shown = bench(*COORDINATE, "--reference-users", "3", "--parts", "2", "--json", json_file)
    for words in (
        "cpu, 1 thread", "streamed, 2 parts", "streamed, 2 shards", "reference",
        "one iteration of ALS", "All engines give the same sums",
        "Left out: ray", "Left out: cuda", "3 users drawn at random",
    ):  # fmt: skip
        assert words in shown
    (found,) = written(json_file)["mechanisms"]
    assert found["mechanism"] == "coordinate"
    assert set(found["left_out"]) == {"ray", "cuda"}


def test_an_unknown_mechanism_is_refused() -> None:
    with pytest.raises(SettingsError):
        bench(*SMALL, "--mechanism", "louder")
