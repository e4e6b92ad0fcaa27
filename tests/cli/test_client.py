"""`sottovoce client`, over a real socket, from the first command to the last."""

from __future__ import annotations

import json
import re
import shlex
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from sottovoce.cli.client import app
from sottovoce.client import Reason, TermsError
from sottovoce.errors import DataError, SettingsError, StoreError
from sottovoce.protocol import Catalogue, Item
from tests.client.world import COST, ITEMS, FakeProxy, World, item
from tests.loopback import LoopbackServer, serve

runner = CliRunner(env={"COLUMNS": "200"})


class Device:
    """The command line in one folder, beside a proxy whose epoch is open now."""

    def __init__(self, folder: Path, server: LoopbackServer):
        self.world, self.folder, self.server = World(), folder, server
        now = int(time.time())
        self.open_now = {"opens": now - 60, "closes": now + 3600}
        self.proxy = FakeProxy(self.world, **self.open_now)
        server.answer = serve(self.proxy)

    def __call__(self, command: str, *arguments: str) -> Result:
        return runner.invoke(app, [command, "--folder", str(self.folder), *arguments])

    def init(self) -> Result:
        key = self.world.verification_key.hex()
        return self("init", "--proxy", self.server.url, "--key", key, "--limit", "25")

    def begin(self) -> None:
        """Set up, and accept what is asked for."""
        self.init()
        name = self.proxy.signed.manifest.terms.name
        assert name in self("terms").stdout
        assert "Accepted" in self("terms", "--accept", name).stdout

    def sync(self, *arguments: str) -> Result:
        return self("sync", "--jitter", "0", *arguments)


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Device]:
    with LoopbackServer() as server:
        yield Device(tmp_path / "client", server)


def test_a_life_on_the_command_line(device: Device, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    assert str(device.folder) in device.init().stdout.replace("\n", "")
    assert "not been accepted yet" in device.sync().stdout
    assert device.proxy.received == []
    device("terms", "--accept", device.proxy.signed.manifest.terms.name)
    assert device("record", item(3), item(7), "unheard-of").stdout == "New items: 3\n"
    synced = device.sync("--json", str(out))
    assert "The batch of epoch 1 was sent." in synced.stdout
    assert json.loads(out.read_text())["outcome"] == "sent"
    assert json.loads(out.read_text())["spent"] == COST
    assert "had been sent before" in device.sync().stdout
    found = device("recommend", "-n", "3", "--json", str(out))
    listed = json.loads(out.read_text())["recommendations"]
    assert len(listed) == 3
    assert all(each["id"] in found.stdout for each in listed)
    reasons = [reason for each in listed for reason in each["because"]]
    assert {reason["id"] for reason in reasons if "id" in reason} <= {item(3), item(7)}
    assert all(0 < reason["share"] <= 1 for reason in reasons)
    assert len(device.proxy.received) == 1


def test_status_for_people_and_machines(device: Device, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    device.begin()
    assert "none yet" in device("status").stdout
    device("record", item(3), "unheard-of")
    device.sync()
    told = device("status", "--json", str(out)).stdout
    assert f"epsilon {COST:g} of 25 " in told
    assert f"Your limit of 25, of which {25 - COST:g} is left" in told
    assert "unheard-of" in told
    status = json.loads(out.read_text())
    assert (status["known"], status["unknown"]) == (1, ["unheard-of"])
    assert status["terms"]["mechanism"] == "loudest"
    with closing(sqlite3.connect(device.folder / "client.db", isolation_level=None)) as db:
        db.execute("DELETE FROM ledger WHERE record = 2")
    assert "the ledger is damaged" in device("status").stdout


def test_every_number_of_a_status_is_written_alike(device: Device) -> None:
    changed = {"least_clients": 1, "reports": 1, "epsilon": 2.5, **device.open_now}
    device.proxy.publish(device.world.signed(1, **changed))
    device.begin()
    told = device("status").stdout
    assert "1 report of epsilon 2.5 an epoch" in told
    assert "at least 1 device " in told
    assert ".0 " not in told


def test_what_was_recorded_is_listed_and_removed(device: Device, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    device.begin()
    device("record", item(7), "unheard-of")
    device("record", item(3))
    assert item(3) in device("status", "--history").stdout
    device.sync()
    told = device("status", "--history", "--json", str(out)).stdout
    listed = re.findall(r"secret-item-\d+|unheard-of", told.partition("Title 7")[0])
    assert listed[-1:] == [item(7)], "the first that was recorded"
    assert out.stat().st_mode & 0o777 == 0o600
    assert json.loads(out.read_text())["history"] == [
        {"id": item(7), "title": "Title 7"},
        {"id": "unheard-of", "title": None},
        {"id": item(3), "title": "Title 3"},
    ]
    assert device("forget", item(7), "never-there").stdout == "Removed items: 1\n"
    assert item(7) not in device("status", "--history").stdout
    files = b"".join(file.read_bytes() for file in device.folder.iterdir())
    assert b"unheard-of" in files
    assert device("forget", "unheard-of").stdout == "Removed items: 1\n"
    files = b"".join(file.read_bytes() for file in device.folder.iterdir())
    assert b"unheard-of" not in files


def test_another_limit(device: Device) -> None:
    device.init()
    assert "is now epsilon 40" in device("set", "--limit", "40").stdout
    assert "of 40 " in device("status").stdout


def test_a_csv_file(device: Device, tmp_path: Path) -> None:
    device.init()
    file = tmp_path / "watched.csv"
    file.write_text(f"movieId,when\n{item(1)},2020\n{item(2)},2021\n")
    result = device("record", "--csv", str(file), "--column", "movieId")
    assert result.stdout == "New items: 2\n"
    assert isinstance(device("record", "--csv", str(file)).exception, DataError)


def test_a_csv_file_with_times_is_recorded_in_their_order(device: Device, tmp_path: Path) -> None:
    device.init()
    file = tmp_path / "watched.csv"
    file.write_text(f"item,when\n{item(1)},2021-05-01\n{item(2)},2020-05-01\n{item(3)},1e9\n")
    assert device("record", "--csv", str(file), "--time", "when").stdout == "New items: 3\n"
    with closing(sqlite3.connect(device.folder / "client.history.db")) as db:
        kept = db.execute("SELECT item FROM interactions ORDER BY moment").fetchall()
    assert kept == [(item(3),), (item(2),), (item(1),)]
    file.write_text(f"item,when\n{item(4)},2021-05-01\n{item(5)},yesterday\n")
    refused = device("record", "--csv", str(file), "--time", "when").exception
    assert isinstance(refused, DataError)
    assert "line 3" in str(refused)
    assert "3; there is no catalogue yet" in device("status").stdout


def tagged_catalogue() -> Catalogue:
    """Odd items are horror, even ones are for children; ten of each year."""
    return Catalogue.of(
        Item(
            item(number),
            f"Title [{number}]",
            {"genre": ("Horror" if number % 2 else "Children",), "year": 1990 + number // 10},
        )
        for number in range(ITEMS)
    )


def test_reasons_are_items_and_tags(device: Device, tmp_path: Path) -> None:
    out, world = tmp_path / "out.json", device.world
    world.catalogue = tagged_catalogue()
    world.add(world.catalogue.raw)
    device.proxy.publish(world.signed(1, **device.open_now))
    device.begin()
    device("record", *(item(number) for number in (1, 3, 5, 7, 21, 23)))
    device.sync()
    told = device("recommend", "--json", str(out)).stdout
    listed = json.loads(out.read_text())["recommendations"]
    assert [each["id"] for each in listed] == re.findall(r"secret-item-\d{4}", told)
    reasons = [reason for each in listed for reason in each["because"]]
    tags = [reason for reason in reasons if reason["kind"] == "tag"]
    items = [reason for reason in reasons if reason["kind"] == "item"]
    assert tags
    assert items
    assert all(set(reason) == {"kind", "tag", "name", "share"} for reason in tags)
    assert all(set(reason) == {"kind", "id", "title", "share"} for reason in items)
    assert {reason["name"] for reason in tags if reason["tag"] == "genre"} <= {"Horror"}
    first, words = listed[0]["because"][0], " ".join(told.split())
    name = first.get("title") or f"{first['tag']}: {first['name']}"
    assert f"{name} ({first['share']:.0%})" in words


def test_pause_and_resume(device: Device) -> None:
    device.begin()
    device("set", "--pause")
    assert "paused" in device.sync().stdout
    assert device.proxy.received == []
    device("set", "--resume")
    assert "was sent" in device.sync().stdout


def test_new_terms_are_asked_about(device: Device) -> None:
    device.begin()
    device.sync()
    device.proxy.publish(device.world.signed(2, reports=5, **device.open_now))
    refused = device.sync().exception
    assert isinstance(refused, TermsError)
    name = device.proxy.signed.manifest.terms.name
    assert "`sottovoce client terms`" in str(refused)
    assert "error.asked" not in str(refused), "no Python on the command line"
    assert "a question waits" in device("status").stdout
    typo = device("terms", "--accept", name[:-1]).exception
    assert f"{name[:-1]} is not the name of the terms" in str(typo)
    assert "now asks" not in str(typo)
    shown = device("terms").stdout
    assert "5 of four bytes in an epoch" in shown
    (pasted,) = re.findall(f"sottovoce client (terms --accept {name} --folder .*)", shown)
    assert "Accepted" in runner.invoke(app, shlex.split(pasted)).stdout
    assert "a question waits" not in device("status").stdout
    assert "was sent" in device.sync().stdout


def test_a_question_that_was_taken_back_waits_no_more(device: Device) -> None:
    device.begin()
    device.proxy.publish(device.world.signed(2, reports=5, **device.open_now))
    device.sync()
    assert "a question waits" in device("status").stdout
    device.proxy.publish(device.world.signed(3, **device.open_now))
    device.sync()
    assert "a question waits" not in device("status").stdout


def test_at_its_limit_a_device_says_what_an_epoch_costs(device: Device) -> None:
    device.begin()
    device("set", "--limit", f"{COST - 1}")
    told = device.sync().stdout
    assert "does not allow another batch" in told
    assert f"left: {COST - 1:g}; an epoch costs {COST:g}." in told


@pytest.mark.parametrize(
    ("reports_behind", "mine", "said"),
    [
        (0, "unheard-of", "None of your items .* and this is the catalogue's order"),
        (0, item(1), "^The model is young: no reports .* and lists go by tags alone"),
        (9, "unheard-of", "None of your items .* These are popular ones. .* 9 reports"),
        (10**6, "unheard-of", "None of your items .* These are popular ones.$"),
    ],
)
def test_what_a_list_is_made_from(
    device: Device, reports_behind: int, mine: str, said: str
) -> None:
    world = device.world
    world.catalogue = tagged_catalogue()
    world.add(world.catalogue.raw)
    device.proxy.publish(world.signed(1, reports_behind=reports_behind, **device.open_now))
    device.begin()
    device("record", mine)
    device.sync()
    found = device("recommend", "-n", "3")
    told = " ".join(found.stderr.split())
    assert re.search(said, told), told
    assert ("order" in told) == (item(0) in found.stdout and item(2) in found.stdout)


def test_reasons_of_next_to_nothing_are_not_listed(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    device.begin()
    device("record", item(3))
    device.sync()
    assert "%)" in device("recommend").stdout
    monkeypatch.setattr("sottovoce.client.recommending.Personal.reasons", almost_nothing)
    assert "(0%)" not in device("recommend").stdout
    assert "(1%)" in device("recommend").stdout


def almost_nothing(*_: object) -> tuple[Reason, ...]:
    return Reason(Item("a", "A"), 0.006), Reason(Item("b", "B"), 0.004)


def test_terms_that_changed_since_they_were_shown_are_not_accepted(device: Device) -> None:
    device.begin()
    shown = device.proxy.signed.manifest.terms.name
    device.proxy.publish(device.world.signed(2, reports=5, **device.open_now))
    refused = device("terms", "--accept", shown).exception
    assert isinstance(refused, SettingsError)
    assert "nothing was accepted" in str(refused)
    assert isinstance(device.sync().exception, TermsError)


def test_after_another_training_the_promise_counts_both(device: Device, tmp_path: Path) -> None:
    """And so does what the limit allows: of 30, 20 are spent."""

    def asked(epoch: int, training: int) -> None:
        changes = {"training": bytes([training]) * 16, "epochs": 2, **device.open_now}
        device.proxy.publish(device.world.signed(epoch, **changes))

    def told(command: str) -> tuple[str, dict[str, Any]]:
        out = tmp_path / "out.json"
        said = device(command, "--json", str(out)).stdout.replace("\n", " ")
        return said, json.loads(out.read_text())

    asked(1, training=1)
    device.begin()
    device("set", "--limit", "30")
    device.sync()
    asked(2, training=1)
    device.sync()
    said, found = told("status")
    assert "at most e^20 times" in said
    assert "one device, not for one person" in said
    assert found["promise"]["clients"] == 100
    assert (found["spent"], found["promise"]["local"], found["turns_left"]) == (20.0, 20.0, 0)
    asked(3, training=2)
    terms = device.proxy.signed.manifest.terms
    said, found = told("terms")
    assert "at most e^40 times" in said
    assert "limit of 30, of which 10 is left, allows 1 of the 2 epochs left" in said
    assert (found["promise"]["local"], found["within_limit"]) == (40.0, 1)
    assert found["promise"]["central"] > terms.promise().central
    device("terms", "--accept", terms.name)
    device.sync()
    said, found = told("status")
    assert "at most e^40 times" in said
    assert (found["spent"], found["promise"]["local"], found["within_limit"]) == (30.0, 40.0, 0)


def test_a_damaged_ledger_promises_nothing(device: Device, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    device.begin()
    device.sync()
    with closing(sqlite3.connect(device.folder / "client.db")) as db, db:
        db.execute("UPDATE ledger SET clients = 1000000 WHERE record = 2")
    for command in ("terms", "status"):
        said = device(command, "--json", str(out)).stdout
        assert ("damaged" in said, "times as likely" in said) == (True, False)
        assert json.loads(out.read_text())["promise"] is None


def test_it_says_until_when_it_waits(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("sottovoce.cli.client.time.sleep", slept.append)
    monkeypatch.setattr("sottovoce.cli.client.LONG", 0.0)  # one wait in sixty is short
    device.begin()
    told = device("sync", "--jitter", "600").stdout
    assert "Waiting until" in told
    assert 0 < sum(slept[:1]) <= 600 + 60
    assert "was sent" in told


def test_forgetting_is_asked_for(device: Device) -> None:
    device.begin()
    device("record", item(1))
    device.sync()
    assert isinstance(device("forget", "--all").exception, SettingsError)
    assert "stays spent" in device("forget", "--all", "--yes").stdout
    assert isinstance(device("recommend").exception, StoreError)
    assert f"epsilon {COST:g} of 25 " in device("status").stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["init", "--proxy", "http://proxy.example", "--key", "00" * 32, "--limit", "5"],
        ["init", "--proxy", "https://proxy.example", "--key", "xyz", "--limit", "5"],
        ["init", "--proxy", "https://proxy.example", "--key", "00" * 32, "--limit", "nan"],
        ["record"],
        ["record", "a", "--csv", "b.csv"],
        ["record", "a", "--time", "when"],
        ["forget"],
        ["forget", "a", "--all"],
        ["set"],
    ],
)
def test_what_cannot_work_is_refused(tmp_path: Path, arguments: list[str]) -> None:
    command, *rest = arguments
    result = runner.invoke(app, [command, "--folder", str(tmp_path / "client"), *rest])
    assert isinstance(result.exception, SettingsError)


def test_the_folder_among_the_users_own_data(
    device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platformdirs.user_data_dir", lambda name: str(tmp_path / "data" / name))
    key = device.world.verification_key.hex()
    runner.invoke(app, ["init", "--proxy", device.server.url, "--key", key, "--limit", "5"])
    assert (tmp_path / "data" / "sottovoce" / "client" / "client.db").exists()


def test_through_the_whole_program_an_error_is_one_line_and_code_2(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sottovoce", "client", "status", "--folder", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("sottovoce: ")
    assert "there is no client; begin one first" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
