"""`sottovoce bench engines`, `scaling` and `roofline`: tables, files, and what is refused."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from sottovoce.cli.app import app
from sottovoce.errors import MissingExtraError, SettingsError
from tests.processes import calling

if TYPE_CHECKING:
    from pathlib import Path

SMALL = ("--data", "synthetic:N=80,M=40,seed=0", "--reports", "4", "--repeats", "1")
COORDINATE = (*SMALL, "--mechanism", "coordinate")

bench = calling(app, "bench")


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without Ray and without a card."""
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setitem(sys.modules, "cupy", None)


def test_engines_side_by_side(tmp_path: Path) -> None:
    json_file = tmp_path / "engines.json"
    few = ("--reference-users", "3", "--parts", "2", "--json", json_file)
    shown = bench("engines", *COORDINATE, *few)
    for words in ("cpu, 1 thread", "streamed, 2 parts", "streamed, 2 shards", "reference"):
        assert words in shown
    assert "All give the same sums" in shown
    assert "Left out: ray: the ray engine needs Ray" in shown
    assert "Left out: cuda: the cuda engine needs CuPy" in shown
    assert "3 users drawn at random" in shown
    (found,) = json.loads(json_file.read_text())["mechanisms"]
    assert found["mechanism"] == "coordinate"
    assert set(found["left_out"]) == {"ray", "cuda"}


def test_quick_engines_are_few_people(tmp_path: Path) -> None:
    json_file = tmp_path / "engines.json"
    data = ("--data", "synthetic:N=1100,M=40,seed=0", "--repeats", "9", "--quick")
    bench("engines", *COORDINATE, *data, "--json", json_file)
    content = json.loads(json_file.read_text())
    assert content["data"]["users"] == 1000
    assert content["plan"]["repeats"] == 2
    assert content["plan"]["reference_users"] == 20


@pytest.mark.slow  # matplotlib may have to look for fonts first
def test_scaling_table_json_and_picture(tmp_path: Path) -> None:
    json_file, picture = tmp_path / "scaling.json", tmp_path / "scaling.png"
    shown = bench("scaling", *COORDINATE, "--json", json_file, "--plot", picture)
    for words in ("strong", "weak", "1 thread ", "efficiency", "Left out: ray workers"):
        assert words in shown
    kinds = [each["kind"] for each in json.loads(json_file.read_text())["scalings"]]
    assert kinds == ["strong", "weak"]
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_roofline_table_json_and_picture(tmp_path: Path) -> None:
    json_file, picture = tmp_path / "roofline.json", tmp_path / "roofline.png"
    few = ("--threads", "1", "--json", json_file, "--plot", picture)
    shown = bench("roofline", *COORDINATE, *few)
    for words in ("solving", "ranking", "coordinate", "This machine, 1 thread", "bound by"):
        assert words in shown
    content = json.loads(json_file.read_text())
    assert [each["kernel"] for each in content["kernels"]] == ["solving", "ranking", "coordinate"]
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("command", ["scaling", "roofline"])
def test_a_picture_needs_matplotlib(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"sottovoce\[plot\]"):
        bench(command, *SMALL, "--plot", tmp_path / "bench.png")


@pytest.mark.parametrize("command", ["engines", "scaling", "roofline"])
def test_an_unknown_mechanism_is_refused(command: str) -> None:
    with pytest.raises(SettingsError, match="louder"):
        bench(command, *SMALL, "--mechanism", "louder")
