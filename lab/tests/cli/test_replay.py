"""`sottovoce replay`: its output, its files, and the options that it refuses."""

import json
from pathlib import Path

import pytest

from lab.tests.replay.living import make_living_people
from sottovoce.cli.app import app
from sottovoce.errors import SottovoceError
from tests.processes import make_caller

call = make_caller(app)


@pytest.fixture(scope="module")
def diary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write people and items that arrive over a hundred days to a file."""
    data = make_living_people(300, 40)
    assert data.timestamps is not None
    histories = data.histories
    rows = zip(histories.users_of_entries(), histories.indices, data.timestamps, strict=True)
    path = tmp_path_factory.mktemp("diary") / "diary.csv"
    lines = [f"{user},{item},{time}\n" for user, item, time in rows]
    path.write_text("user,item,timestamp\n" + "".join(lines))
    return path


def list_arguments(path: Path) -> list[str]:
    few = ["--epsilon", "8", "--reports", "4", "--factors", "3", "--budget", "320"]
    return ["replay", "--data", str(path), "--learn", "taste", *few, "--negatives", "20"]


def test_a_replay_prints_tables_and_writes_files(diary: Path, tmp_path: Path) -> None:
    out, picture = tmp_path / "replay.json", tmp_path / "replay.svg"
    files = ["--json", str(out), "--plot", str(picture)]
    options = ["--periods", "8", "--switch-at", "4", "--seeds", "2", *files]
    output = call(*list_arguments(diary), *options)
    content = json.loads(out.read_text())
    half_life = content["settings"]["half_life"]
    assert half_life > 0
    for words in (
        "in 8 periods",
        f"has half its weight after {half_life:g} epoch",
        "popularity lately",
        "new items",
    ):
        assert words in output
    assert content["settings"]["known"] == "time"
    assert content["settings"]["switch_at"] == content["settings"]["frozen_at"] == 4
    periods = content["runs"][0]["periods"]
    assert [period["epochs"] for period in periods] == list(range(8))
    assert periods[0]["quality"] == {}
    assert periods[0]["items"] < periods[-1]["items"] == 40
    assert periods[:4] == content["switched"][0]["periods"][:4]
    assert [run["seed"] for run in content["runs"]] == [0, 1]
    later = [
        sum(p["quality"]["model"]["hr@10"] for p in run["periods"][5:]) / 3
        for run in content["runs"]
    ]
    assert content["later"]["model"]["hr@10"]["mean"] == pytest.approx(sum(later) / 2)
    assert content["differences"]["reference"] == "popularity lately, once alone"
    compared = {(one["model"], one["metric"]) for one in content["differences"]["models"]}
    assert {("model", "hr@10"), ("DP-ALS", "ndcg@100")} <= compared
    assert "Differences from popularity lately, once alone" in output
    assert 0 < content["later"]["model"]["off chart@10"]["mean"] < 10
    assert content["recovery"]["model"]["missing"][0] == 1.0
    assert sum(row["cases"] for row in content["new_items"]["by_touched"]) > 0
    assert picture.exists()
    # Settings of the baselines are chosen on periods that no figure is from.
    assert "chosen by NDCG@100 in the whole catalogue on periods 2, 3, 4" in output
    assert "results of periods 5 to 7" in output
    for name in ("popularity lately", "popularity lately, once", "EASE", "ALS", "DP-ALS"):
        choice, shown = content["chosen"][name], content["later"][name]
        gains = [tried["ndcg@100"] for tried in choice["tried"]]
        best = choice["tried"][gains.index(max(gains))]
        assert choice["setting"] | {"ndcg@100": max(gains)} == best
        assert {"hr@10", "hr@50", "ndcg@100", "hr@10 sampled"} <= set(shown)
        assert name not in content["choosing"]
    assert set(content["choosing"]["model"]) == set(content["later"]["model"])


def test_a_half_life_in_the_options_is_used(diary: Path, tmp_path: Path) -> None:
    out = tmp_path / "replay.json"
    options = ["--periods", "4", "--half-life", "3", "--json", str(out), "--no-baseline-models"]
    assert "has half its weight after 3 epochs" in call(*list_arguments(diary), *options)
    content = json.loads(out.read_text())
    assert content["recovery"] == {}
    assert set(content["chosen"]) == {"popularity lately", "popularity lately, once"}


@pytest.mark.parametrize(
    "options",
    [["--switch-at", "5"], ["--half-life", "0"], ["--negatives", "0"]],
)
def test_wrong_options_are_refused(diary: Path, options: list[str]) -> None:
    with pytest.raises(SottovoceError):
        call(*list_arguments(diary), "--periods", "5", *options)
