"""`sottovoce client`, over a real socket, from the first command to the last."""

import json
import re
import shlex
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from sottovoce.cli.client import app
from sottovoce.client import TermsError
from sottovoce.errors import SettingsError, StoreError
from tests.client.world import COST, FakeProxy, World, item
from tests.loopback import LoopbackServer, serve

runner = CliRunner(env={"COLUMNS": "200"})


class Device:
    """The command line in one folder, and a proxy whose epoch is open now."""

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
        """Set up, and accept the terms."""
        self.init()
        name = self.proxy.signed.manifest.terms.name
        assert name in self("terms").stdout
        assert "Accepted" in self("terms", "--accept", name, "--limit", "25").stdout

    def sync(self, *arguments: str) -> Result:
        return self("sync", "--jitter", "0", *arguments)


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Device]:
    with LoopbackServer() as server:
        yield Device(tmp_path / "client", server)


def test_commands_of_a_client_from_first_to_last(device: Device, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    assert str(device.folder) in device.init().stdout.replace("\n", "")
    asking = device.proxy
    device.proxy = FakeProxy(device.world, **device.open_now, public_key=None)
    device.server.answer = serve(device.proxy)
    assert "--accept" not in device("terms").stdout, "nobody is asked where nothing leaves"
    device.proxy, device.server.answer = asking, serve(asking)
    assert "--accept" in device("terms").stdout
    assert "not been accepted yet" in device.sync().stdout
    device("terms", "--accept", device.proxy.signed.manifest.terms.name, "--limit", "25")
    device("set", "--pause", "--limit", "40")
    assert "paused" in device.sync().stdout
    assert "of 40 " in device("status").stdout
    device("set", "--resume", "--limit", "25")
    assert device.proxy.received == []
    output = device("record", item(3), item(7), "unheard-of").stdout
    assert output.startswith("New items: 3\nNot in the catalogue of this device: unheard-of.")
    synced = device.sync("--json", str(out))
    assert "The batch of epoch 1 was sent." in synced.stdout
    assert json.loads(out.read_text())["outcome"] == "sent"
    assert json.loads(out.read_text())["spent"] == COST
    assert "had been sent before" in device.sync().stdout
    shown = device("recommend", "-n", "3", "--json", str(out))
    recommendations = json.loads(out.read_text())["recommendations"]
    assert len(recommendations) == 3
    assert all(entry["id"] in shown.stdout for entry in recommendations)
    reasons = [reason for entry in recommendations for reason in entry["reasons"]]
    assert {reason["id"] for reason in reasons if "id" in reason} <= {item(3), item(7)}
    assert all(0 < reason["share"] <= 1 for reason in reasons)
    assert len(device.proxy.received) == 1


def test_status_as_text_and_as_json(device: Device, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    device.begin()
    assert "none yet" in device("status").stdout
    assert "no catalogue on this device yet" in device("record", item(3), "unheard-of").stdout
    device.sync()
    output = device("status", "--json", str(out)).stdout
    assert f"epsilon {COST:g} of 25 " in output
    assert f"Your limit of 25, of which {25 - COST:g} is left" in output
    assert "unheard-of" in output
    status = json.loads(out.read_text())
    assert (status["in_catalogue"], status["unknown_items"]) == (1, ["unheard-of"])
    assert status["terms"]["mechanism"] == "loudest"
    with closing(sqlite3.connect(device.folder / "client.db", isolation_level=None)) as db:
        db.execute("DELETE FROM ledger WHERE record = 2")
    assert "client.db" not in output
    assert "client.db" in device("status").stdout, "the damaged ledger is named"


def test_recorded_items_are_listed_and_removed(device: Device, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    device.begin()
    device("record", item(7), "unheard-of")
    device("record", item(3))
    assert item(3) in device("status", "--history").stdout
    device.sync()
    output = device("status", "--history", "--json", str(out)).stdout
    listed = re.findall(r"secret-item-\d+|unheard-of", output.partition("Title 7")[0])
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


def test_question_is_short_and_figures_are_details(device: Device) -> None:
    device.init()
    short, whole = device("terms").stdout, device("terms", "--details").stdout
    asked = device.proxy.signed.manifest.terms
    within = int(25 / COST)
    lines = asked.promise(turns=within).summarize(within * asked.reports)
    assert short.splitlines()[:3] == whole.splitlines()[:3] == lines
    assert asked.training.hex() not in short
    assert all(
        f" {label} " in whole for label, _ in [*asked.describe(), *asked.promise().list_figures()]
    )


def test_new_terms_need_consent(device: Device) -> None:
    device.begin()
    device.sync()
    device.proxy.publish(device.world.signed(2, reports=5, **device.open_now))
    refused = device.sync().exception
    assert isinstance(refused, TermsError)
    name = device.proxy.signed.manifest.terms.name
    assert "`sottovoce client terms`" in str(refused)
    assert "asks for other terms" in device("status").stdout
    typo = device("terms", "--accept", name[:-1], "--limit", "25").exception
    assert isinstance(typo, SettingsError)
    shown = device("terms").stdout
    (pasted,) = re.findall(
        f"sottovoce client (terms --accept {name} --limit 25.0 --folder .*)", shown
    )
    assert "Accepted" in runner.invoke(app, shlex.split(pasted)).stdout
    assert "asks for other terms" not in device("status").stdout
    assert "was sent" in device.sync().stdout


def test_consent_is_for_the_limit_that_was_shown(device: Device) -> None:
    device.init()
    shown = device("terms").stdout
    (pasted,) = re.findall("sottovoce client (terms --accept .* --limit 25.0 .*)", shown)
    device("set", "--limit", "500")  # after the sentences were shown
    assert "Accepted" in runner.invoke(app, shlex.split(pasted)).stdout
    assert "of 25 " in device("status").stdout
    name = device.proxy.signed.manifest.terms.name
    for options in (("--accept", name), ("--limit", "25")):
        assert isinstance(device("terms", *options).exception, SettingsError)


def test_forgetting_needs_confirmation(device: Device) -> None:
    device.begin()
    device("record", item(1))
    device.sync()
    assert isinstance(device("forget", "--all").exception, SettingsError)
    deleted = device("forget", "--all", "--yes").stdout
    assert "except the ledger" in deleted
    assert "set --pause" in deleted
    device("set", "--pause")
    assert "set --pause" not in device("forget", "--all", "--yes").stdout, "paused already"
    assert isinstance(device("recommend").exception, StoreError)
    assert f"epsilon {COST:g} of 25 " in device("status").stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["init", "--proxy", "http://proxy.example", "--key", "00" * 32, "--limit", "5"],
        ["init", "--proxy", "https://proxy.example", "--key", "xyz", "--limit", "5"],
        ["init", "--proxy", "https://proxy.example", "--key", "00" * 32, "--limit", "nan"],
        ["record"], ["record", "a", "--csv", "b.csv"], ["record", "a", "--time", "when"],
        ["forget"], ["forget", "a", "--all"], ["set"],
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused(tmp_path: Path, arguments: list[str]) -> None:
    command, *rest = arguments
    result = runner.invoke(app, [command, "--folder", str(tmp_path / "client"), *rest])
    assert isinstance(result.exception, SettingsError)
