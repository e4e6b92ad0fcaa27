"""The first pages that a person reads work as written."""

import json
import re
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.lacking import leave_out
from tests.nightly.follow import ROOT, Follower, follow

__all__ = ["follow"]
NOTEBOOK_PATHS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))


@pytest.mark.slow
def test_start(
    follow: Callable[[str], Follower],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    person = follow("start.md")
    person.install()
    few = person.next()
    assert "566 users x 1,286 items, 67,020 interactions" in few
    assert "named: epsilon 10, reports 1 in each of 5 of 20 epochs" in few
    assert parse_hit_ratios(few) == ["0.401", "0.362", "0.599", "0.428"]
    assert parse_hit_ratios(person.next())[:2] == ["0.645", "0.595"]
    assert (tmp_path / "curve.png").stat().st_size > 10_000
    assert len(person.next_python()["items"]) == 5  # type: ignore[arg-type]
    assert "50 for the whole training" in capsys.readouterr().out
    assert "HR@10 is always 1 here" in person.next()
    assert person.next_python()["sales"].n_items == 3  # type: ignore[attr-defined]
    person.next_python()
    sampled, whole = capsys.readouterr().out.splitlines()[-1].split()
    assert (sampled[:5], whole[:5]) == ("0.401", "0.118")
    assert len(person.next_python()["result"].people) == 26  # type: ignore[attr-defined]
    assert capsys.readouterr().out.count("'ndcg@100'") == 3
    assert parse_hit_ratios(person.next())[:3] == ["0.599", "0.465", "0.477"]
    assert "The planner chooses" in person.next()
    assert "SMOKE RUN" in person.next()
    assert (tmp_path / "paper-report" / "report.html").exists()
    assert "The page: http" in person.start("Ctrl-C stops everything")
    person.stop(0)
    person.start()
    assert "200 live clients" in person.next()
    assert person.left == 0


def parse_hit_ratios(shown: str) -> list[str]:
    """Return HR@10 of the columns of a table, as rounded on the page."""
    (row,) = re.findall(r"│ HR@10 +│(.*)", shown)
    return [f"{float(cell):.3f}" for cell in re.findall(r"[\d.]+", row)]


@pytest.mark.slow
def test_data_formats(follow: Callable[[str], Follower]) -> None:
    person = follow("reference/data.md")
    assert "bundled" in person.next()
    assert re.search(r"interactions +│ 6 ", person.next())
    person.next()
    shown = person.next()
    assert re.search(r"shards +│ 2 ", shown)
    assert "Tags that devices use for recommendations: 2 of kind" in shown
    assert person.left == 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:OpenBLAS is configured")  # implicit's advice
@pytest.mark.parametrize("path", NOTEBOOK_PATHS, ids=lambda path: path.stem)
def test_a_notebook_prints_what_it_shows(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if "implicit" in path.read_text(encoding="utf-8") and find_spec("implicit") is None:
        leave_out(f"the notebook {path.stem} (needs implicit, which the laboratory brings)")
    monkeypatch.setenv("MPLBACKEND", "Agg")
    names: dict[str, object] = {}
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    for cell in (cell for cell in cells if cell["cell_type"] == "code"):
        exec(compile("".join(cell["source"]), path.name, "exec"), names)
        printed = (cell for cell in cell["outputs"] if cell["output_type"] == "stream")
        assert capsys.readouterr().out == "".join(line for cell in printed for line in cell["text"])
