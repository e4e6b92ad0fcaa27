import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sottovoce.cli import output
from sottovoce.cli.app import app
from sottovoce.data import load, synthetic_people
from sottovoce.errors import DataError, SettingsError, SottovoceError
from tests.processes import make_caller

call = make_caller(app)
SMALL = [
    *("simulate", "--data", "synthetic:N=300,M=80,seed=1"),
    *("--epsilon", "2.5", "--epochs", "2", "--reports", "10"),
]


def test_json_and_plot_are_written(tmp_path: Path) -> None:
    out, picture = tmp_path / "run.json", tmp_path / "curve.png"
    shown = call(*SMALL, "--json", str(out), "--plot", str(picture))
    assert "HR@10" in shown
    content = json.loads(out.read_text())
    assert set(content) == {
        "data", "people", "settings", "epochs", "final", "model_only", "popularity",
        "informed_popularity", "privacy", "seconds",
    }  # fmt: skip
    assert [record["epoch"] for record in content["epochs"]] == [1, 2]
    assert content["epochs"][-1]["hr@10"] == content["final"]["hr@10"]
    metrics = {"hr@2", "hr@5", "hr@10", "ndcg@10", "mrr@10", "coverage@10"}
    for who in ("final", "model_only", "popularity", "informed_popularity"):
        assert set(content[who]) == metrics
    assert 0 < content["popularity"]["coverage@10"] < content["final"]["coverage@10"] <= 1
    assert content["privacy"]["spans"][2]["pure"] == 2 * 10 * 2.5
    assert content["settings"]["mechanism"] == "loudest"
    assert content["data"]["users"] == 300
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_named_metrics_are_computed(tmp_path: Path) -> None:
    out, names = tmp_path / "run.json", "ndcg@20,novelty@5,map@3"
    shown = call(*SMALL, "--metrics", names, "--json", str(out), "--plot", str(tmp_path / "a.png"))
    assert "NOVELTY@5" in shown
    content = json.loads(out.read_text())
    for who in ("final", "model_only", "popularity", "informed_popularity"):
        assert set(content[who]) == set(names.split(","))
    for wrong in ("auc@10", "coverage@10", ","):
        with pytest.raises(SettingsError):
            call(*SMALL, "--metrics", wrong)


def test_progress_is_written_if_output_is_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "SECONDS_PER_LINE", 0.001)
    shown = CliRunner().invoke(app, SMALL).stderr
    assert re.search(r"seed 0: \d of 2, .* \(\d+ s\)", shown)


def test_settings_are_planned_for_a_budget(tmp_path: Path) -> None:
    out = tmp_path / "run.json"
    people = ["simulate", "--data", "synthetic:N=300,M=80,seed=1", "--json", str(out)]
    shown = call(*people, "--budget", "6")
    content = json.loads(out.read_text())
    assert content["privacy"]["spans"][-1]["pure"] <= 6
    assert f"epsilon {content['settings']['epsilon']:.4g}" in shown
    call(*people, "--central-budget", "2", "--factors", "2")
    content = json.loads(out.read_text())
    assert content["privacy"]["spans"][-1]["central"] <= 2
    assert content["settings"]["factors"] == 2
    noted = CliRunner().invoke(app, people).stderr
    assert "epsilon 10 in a lifetime" in noted
    assert json.loads(out.read_text())["privacy"]["spans"][-1]["pure"] == 10
    call(*people, "--preset", "strong")
    assert json.loads(out.read_text())["privacy"]["spans"][-1]["pure"] <= 10
    with pytest.raises(SettingsError):
        call(*people, "--budget", "6", "--epsilon", "2", "--reports", "9", "--epochs", "1")


def test_run_continues_from_its_checkpoint(tmp_path: Path) -> None:
    folder, first, second = tmp_path / "ck", tmp_path / "a.json", tmp_path / "b.json"
    common = [*SMALL, "--checkpoint", str(folder)]
    call(*common, "--json", str(first))
    assert (folder / "seed-0.safetensors").exists()
    call(*common, "--json", str(second))
    a, b = json.loads(first.read_text()), json.loads(second.read_text())
    assert a["epochs"] == b["epochs"]


def outcome(folder: Path, *options: str) -> tuple[dict[str, Any], str]:
    out = folder / "run.json"
    shown = call(*SMALL, *options, "--json", str(out))
    return json.loads(out.read_text()), " ".join(shown.split())


@pytest.mark.parametrize(
    "arguments",
    [
        ["--engine", "tpu"],
        ["--epsilon", "0"],
        ["--mechanism", "shout"],
        ["--data", "nowhere.csv"],
        ["--min-interactions", "1000"],  # nothing is left
        ["--items", "nowhere.csv"],
    ],
)
def test_what_cannot_work_is_refused(arguments: list[str]) -> None:
    """That this is one line and code 2: `test_app.py`."""
    with pytest.raises(SottovoceError):
        call(*SMALL, *arguments)


def test_shards_give_the_result_of_their_source(tmp_path: Path) -> None:
    data, folder = "synthetic:N=600,M=80,seed=1", str(tmp_path / "shards")
    call("data", "shard", data, folder, "--rows", "10000")
    options = ("--epochs", "2", "--reports", "10", "--engine", "cpu", "--threads", "1")
    from_shards, from_data = (
        call("simulate", "--data", source, *options).replace(source, "")
        for source in (folder, data)
    )
    assert from_shards == from_data
    assert "600 users x 80 items" in from_shards
    for changed in ("--min-interactions=5", "--columns=user=a,item=b", "--sample-users=9"):
        with pytest.raises(SettingsError):
            call("simulate", "--data", folder, changed)
    with pytest.raises(SettingsError):
        call("simulate", "--data", folder, "--resample", "1000")


def test_side_information_is_read_from_a_file_or_left_out(tmp_path: Path) -> None:
    path = tmp_path / "films.csv"
    films = synthetic_people(1, 80).item_ids.tolist()
    rows = "".join(f"{film},{'odd' if film % 2 else 'even'}\n" for film in films)
    path.write_text(f"film,parity\n{rows}")
    tagged, shown = outcome(tmp_path)
    assert f"loudest with {tagged['settings']['side_information']}" in shown
    assert "loudest alone" in shown
    plain, shown = outcome(tmp_path, "--no-tags")
    assert plain["final"] == plain["model_only"] == tagged["model_only"] != tagged["final"]
    assert "alone" not in shown
    timed, shown = outcome(tmp_path, "--no-tags", "--split", "latest", "--negatives", "0")
    assert timed["settings"]["side_information"] == "time"
    assert "whole catalogue" in shown
    untimed, _ = outcome(tmp_path, "--split", "latest", "--no-time", "--items", str(path))
    assert untimed["settings"]["side_information"] == "2 tags"
    assert timed["privacy"] == plain["privacy"] == tagged["privacy"] == untimed["privacy"]


def test_a_start_is_learnt_from_a_table(tmp_path: Path) -> None:
    catalogue = tmp_path / "items.csv"
    table = "synthetic:N=90,M=80,seed=2"
    ids = load(table).item_ids.tolist()
    catalogue.write_text("sku,name\n" + "".join(f"{item},A film\n" for item in ids[10:]))
    file = tmp_path / "start.safetensors"
    command = ("start", table, "--catalogue", str(catalogue), "--licence", "CC0", "--out")
    with pytest.raises(DataError):
        call(*command, str(file))
    with pytest.raises(SettingsError):
        call(*command, str(tmp_path / "start.csv"), "--catalogue-columns", "item=sku")
    shown = call(*command, str(file), "--catalogue-columns", "item=sku")
    assert re.search(r"of 70 items of the catalogue have a row, learnt from [\d,]+ inter", shown)
    assert re.search(r"Not in the catalogue: 10 of 80 items", shown)
    # The first data are younger than the table, the second are the table itself.
    for data, source in ((SMALL[2], table), (SMALL[2], str(file)), (table, str(file))):
        out = tmp_path / "run.json"
        options = ["--data", data, *SMALL[3:], "--start", source, "--json", str(out)]
        ended = CliRunner().invoke(app, ["simulate", *options])
        assert json.loads(out.read_text())["settings"]["factors"] == 8
        assert ("may be younger than what is tested" in ended.stderr) == (data == table)
