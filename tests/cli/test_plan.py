import json
import shlex
from pathlib import Path

import pytest

from sottovoce.cli.app import app
from sottovoce.errors import SettingsError
from sottovoce.server.settings import ServerSettings
from sottovoce.simulation import outlook
from tests.processes import make_caller

call = make_caller(app)
SMALL = ["plan", "--people", "200", "--history", "6"]


TASTE = ["--learn", "taste"]
NAMES = ["--people", "7000", "--newcomers", "3500"]


@pytest.mark.parametrize(
    ("kind", "central"),
    [
        ([*TASTE, "--people", "1000"], ["--central-budget", "5", "--accounts"]),
        ([*NAMES, "--items", "60"], []),
    ],
)
def test_printed_command_sets_up_the_planned_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: list[str], central: list[str]
) -> None:
    """Run the command that it prints: it plans the same training."""
    monkeypatch.setattr(outlook, "SHOP_KINDS", ((3, 0.8),))
    out, shop, folder = tmp_path / "plan.json", tmp_path / "a shop.csv", tmp_path / "server"
    shop.write_text("sku,title\n" + "".join(f"{n},Item {n}\n" for n in range(60)))
    # The first plan knows the catalogue, the second one only how many items it has.
    catalogue = ["--catalogue", shop, "--columns", "item=sku,title=title"]
    items = [] if "--items" in kind else catalogue
    shown = call(*SMALL, "--budget", "60", *kind, *central, *items, "--json", out)
    content = json.loads(out.read_text())
    assert content["sentence"] in shown
    assert content["verdict"] == "yes"
    assert content["privacy"]["spans"][-1]["pure"] <= 60
    assert content["shop"]["items"] == 60
    days = content.get("epoch_days", 7)
    if central:
        assert len(content["hr@10_by_epoch"]) == content["settings"]["epochs"]
    else:
        assert days < 7
        assert content["settings"]["mechanism"] == "named"
    assert bool(content["settings"]["dummies"]) == bool(central)
    assert ("times in 100 for one account, or" in " ".join(shown.split())) == bool(central)
    line = next(line for line in shown.splitlines() if "server init" in line)
    columns = [] if items else ["--columns", "item=sku,title=title"]
    command = shlex.split(line.partition(": sottovoce ")[2])
    call(*(str({"FOLDER": folder, "FILE": shop}.get(word, word)) for word in command), *columns)
    server = ServerSettings.read(folder / "server.toml")
    assert server.training.as_dict() == content["settings"]
    assert server.terms.min_clients == content["min_clients"]
    assert server.terms.accounts == bool(central)
    assert server.epoch_seconds == days * 86_400
    assert bool(server.training.half_life) == (not central)


def test_no_says_what_would_be_enough_and_prints_no_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outlook, "SHOP_KINDS", ((3, 0.8),))
    monkeypatch.setattr(outlook, "MIN_PEOPLE_TRIED", 100)
    out, shop = tmp_path / "plan.json", tmp_path / "products_export.csv"
    rows = "".join(f"item-{n},Item {n},Kind {n % 3},{n}.50,true\n" for n in range(60))
    shop.write_text(f"Handle,Title,Type,Variant Price,Published\n{rows}")
    options = ["--budget", "20", "--catalogue", shop, "--json", out]
    names = call(*SMALL, *options, "--newcomers", "1")
    content = json.loads(out.read_text())
    assert content["enough_newcomers"] > 1
    assert content["enough_volunteers"] == 50
    assert "3 of type, 10 of price" in names
    taste = call(*SMALL, *options, *TASTE)
    content = json.loads(out.read_text())
    assert content["verdict"] == "no"
    assert content["enough_people"] > 200
    assert content["hr@10"]["tags_alone"]["mean"] > content["hr@10"]["chance"]["mean"]
    assert "server init" not in names + taste
    for wrong in (
        [],
        ["--items", "60", "--catalogue", shop],
        ["--items", 60, "--columns", "item=x"],
    ):
        with pytest.raises(SettingsError, match="--catalogue FILE"):
            call(*SMALL, *TASTE, *wrong)


@pytest.mark.parametrize(
    ("newcomers", "answer", "days", "epochs"),
    [(0, "No: ", 28, 20), (30, "Barely: ", 28, 20), (700, "Yes: ", 5, 12), (7_000, "Yes: ", 1, 1)],
)
def test_names_need_new_people(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    newcomers: int,
    answer: str,
    days: int,
    epochs: int,
) -> None:
    """Let each new person send two reports of epsilon 5, one of 66 outcomes each."""
    monkeypatch.setattr(outlook, "SHOP_KINDS", ((3, 0.8),))
    out = tmp_path / "plan.json"
    people = ["--people", "7000", "--newcomers", newcomers]
    shown = call(*SMALL, "--items", "60", *people, "--budget", "10", "--json", out)
    assert shown.startswith(answer)
    assert ("server init" in shown) == (answer != "No: ")
    content = json.loads(out.read_text())
    assert content["epoch_days"] == days
    assert content["reports_in_an_epoch"] == pytest.approx(2 * newcomers / 7 * days)
    # The 7,000 people who are there at the beginning send two reports each in as many epochs as
    # people stay.
    assert content["first_reports_in_an_epoch"] == pytest.approx(14_000 / epochs)
    assert content["settings"]["epochs"] == epochs


def test_names_are_planned_with_a_local_budget_unless_taste_is_asked_for() -> None:
    few_items = ["plan", "--people", "200", "--items", "10", "--history", "2"]
    for taste in (["--central-budget", "1"], ["--budget", "60", *TASTE]):
        with pytest.raises(SettingsError, match="lists of 10"):
            call(*few_items, *taste)
    assert "--learn names" in call(*few_items, "--budget", "60", *NAMES)


@pytest.mark.parametrize(
    "arguments",
    [
        [], ["--budget", "nan"], ["--budget", "10", "--people", "0"],
        ["--budget", "10", "--people", "-3"], ["--budget", "10", "--history", "nan"],
        ["--budget", "10", "--learn", "taste", "--history", "61"],
        ["--budget", "10", "--newcomers", "-1"], ["--budget", "10", "--newcomers", "nan"],
        ["--budget", "10", "--newcomers", "201"],
        ["--central-budget", "1", "--learn", "names", *NAMES],
    ],
)  # fmt: skip
def test_impossible_plans_are_refused(arguments: list[str]) -> None:
    with pytest.raises((SettingsError, SystemExit)):
        call(*SMALL, "--items", "60", *arguments)
