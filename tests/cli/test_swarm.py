"""The command's own part: what it refuses, and how a result is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from sottovoce.cli.app import app
from sottovoce.cli.swarm import show
from sottovoce.data import synthetic_people
from sottovoce.errors import SettingsError, UnavailableError
from sottovoce.privacy import account
from sottovoce.protocol import Catalogue, Item
from sottovoce.sandbox.devices import choose_people
from sottovoce.sandbox.swarm import Noise, Round, SwarmPlan, SwarmResult
from sottovoce.training import Settings
from tests.processes import calling

call = calling(app, "swarm")
KEY = "ab" * 32


@pytest.mark.parametrize(
    "arguments",
    [
        (), ("--proxy", "http://127.0.0.1:1"), ("--up", ".", "--key", KEY),
        ("--proxy", "http://127.0.0.1:1", "--key", KEY),
        ("--proxy", "http://127.0.0.1:1", "--key", "12"), ("--up", "nowhere"),
        ("--proxy", "http://proxy.example", "--key", KEY, "--data", "synthetic:N=30,M=20"),
        ("--proxy", "http://127.0.0.1:1", "--key", KEY, "--data", "synthetic:N=30,M=20"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises((SettingsError, UnavailableError)):
        call("--clients", 3, *arguments)


def make_result(compare_runs: int) -> SwarmResult:
    data = synthetic_people(n_users=30, n_items=20)
    catalogue = Catalogue.of(Item(str(number), "A film") for number in data.item_ids)
    people = choose_people(data, catalogue, 10, split="random", seed=0)
    settings = Settings(epochs=1)
    noise = {"hr@10": Noise.of([0.3, 0.4, 0.5])} if compare_runs else {}
    outcomes = {"sent": 9, "too late": 1}
    seconds = {"sync": 2.0, "wait": 1.0}
    return SwarmResult(
        plan=SwarmPlan("http://127.0.0.1:1", bytes(32), 10, 1, 2, compare_runs=compare_runs),
        people=people,
        settings=settings,
        rounds=[Round(4, outcomes, 0, 900, seconds, {"hr@10": 0.55}, noise)],
        popularity={"hr@10": 0.25},
        spent=250.0,
        problems=["the proxy was away"],
        account=account(settings.event(20), 9),
        seconds={"make": 1.0, "drive": 3.0, "compare": 0.0},
    )


def test_a_result_shows_both_sides_and_what_went_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    show(make_result(compare_runs=3))
    shown = " ".join(capsys.readouterr().out.split())
    for words in (
        "0.5500",
        "0.4000 ± 0.1000",
        "+1.5 sd",
        "Epoch 4, not sent: 1 too late",
        "the proxy was away",
        "Clients sent at once, without jitter: for demos and tests.",
    ):
        assert words in shown
    assert "Popularity, not private: 0.2500" in shown
    assert "Not promised" in shown
