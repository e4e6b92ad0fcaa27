"""The first pages that a person reads do what they say."""

import json
import re
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.lacking import leave_out
from tests.nightly.follow import ROOT, Follower, follow

__all__ = ["follow"]
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))


def test_the_readme_s_python(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall("```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(code, "README.md", "exec"), names)
    assert len(names["items"]) == 10  # type: ignore[arg-type]
    assert "50 for the whole training" in capsys.readouterr().out


@pytest.mark.slow
def test_the_researcher_s(follow: Callable[[str], Follower], tmp_path: Path) -> None:
    person = follow("tutorials/researcher.md")
    person.install()
    assert "67,020" in person.next()
    assert "by itself it protects nobody" in " ".join(person.next().split())
    planned = person.next()
    assert "epsilon 8.334, reports 1 in each of 6 epochs" in planned
    assert (tmp_path / "curve.png").stat().st_size > 10_000
    assert (tmp_path / "run.json").exists()
    assert "50,000" in person.next()
    assert "The planner takes" in person.next()
    assert len(person.next_python()["items"]) == 5  # type: ignore[arg-type]
    assert "SMOKE RUN" in person.next()
    assert (tmp_path / "paper-report" / "report.html").exists()
    assert person.left == 0


@pytest.mark.slow
def test_data_formats(follow: Callable[[str], Follower]) -> None:
    person = follow("data.md")
    assert "bundled" in person.next()
    assert re.search(r"interactions +│ 6 ", person.next())
    assert person.next_python()["data"].n_items == 3  # type: ignore[attr-defined]
    assert re.search(r"interactions +│ 6 ", person.next())
    person.next()
    shown = person.next()
    assert re.search(r"shards +│ 2 ", shown)
    assert re.search(r"tags +│ kind 4, price 4 ", shown)
    assert "566 users" in person.next()
    assert person.left == 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:OpenBLAS is configured")  # implicit's advice
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_prints_what_it_shows(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if "implicit" in path.read_text(encoding="utf-8") and find_spec("implicit") is None:
        leave_out(f"the notebook {path.stem} (needs implicit, which the laboratory brings)")
    monkeypatch.setenv("MPLBACKEND", "Agg")
    names: dict[str, object] = {}
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    for cell in (each for each in cells if each["cell_type"] == "code"):
        exec(compile("".join(cell["source"]), path.name, "exec"), names)
        printed = (each for each in cell["outputs"] if each["output_type"] == "stream")
        assert capsys.readouterr().out == "".join(line for each in printed for line in each["text"])
