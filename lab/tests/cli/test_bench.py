"""`sottovoce bench`: its tables, its JSON file, and the options that it refuses."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from sottovoce.cli.app import app
from sottovoce.errors import SettingsError
from tests.processes import make_caller

SMALL_DATA = ("--data", "synthetic:N=80,M=40,seed=0", "--reports", "4", "--repeats", "1")
ONE_MECHANISM = (*SMALL_DATA, "--mechanism", "coordinate")

bench = make_caller(app, "bench")


@pytest.fixture(autouse=True)
def hide_slow_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide Ray and the card."""
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setitem(sys.modules, "cupy", None)


def read_json(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def test_quick_limits_people_and_rounds(tmp_path: Path) -> None:
    json_file = tmp_path / "bench.json"
    many = ("--data", "synthetic:N=1100,M=40,seed=0", "--repeats", "9")
    bench(*ONE_MECHANISM, *many, "--quick", "--json", json_file)
    content = read_json(json_file)
    assert content["data"]["users"] == 1000
    assert (content["plan"]["repeats"], content["plan"]["reference_users"]) == (2, 20)


def test_engines_are_compared_in_a_table_and_a_file(tmp_path: Path) -> None:
    json_file = tmp_path / "engines.json"
    output = bench(*ONE_MECHANISM, "--reference-users", "3", "--parts", "2", "--json", json_file)
    for words in (
        "cpu, 1 thread", "streamed, 2 parts", "streamed, 2 shards", "reference",
        "one iteration of ALS", "All engines give the same sums",
        "Left out: ray", "Left out: cuda", "3 users drawn at random",
    ):  # fmt: skip
        assert words in output
    (comparison,) = read_json(json_file)["mechanisms"]
    assert comparison["mechanism"] == "coordinate"
    assert set(comparison["left_out"]) == {"ray", "cuda"}


def test_an_unknown_mechanism_is_refused() -> None:
    with pytest.raises(SettingsError):
        bench(*SMALL_DATA, "--mechanism", "louder")
