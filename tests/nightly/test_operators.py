"""The guide for operators works: every command, typed to one running system."""

import re
import tomllib
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import httpx
import pytest

from sottovoce.protocol import Catalogue
from sottovoce.protocol.panel import Panel
from sottovoce.proxy import ProxySettings
from sottovoce.sandbox.setup import set_values
from sottovoce.server import ServerSettings
from tests.nightly.follow import DOCS, Follower, follow
from tests.processes import wait_until

__all__ = ["follow"]
PAGE = "operators.md"


@pytest.mark.slow
def test_the_guide(
    follow: Callable[[str], Follower], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    person = follow(PAGE)

    def wait_for_metric(measured: str) -> None:
        metrics = f"http://127.0.0.1:{person.port('8091')}/metrics"
        what = re.compile(f"^sottovoce_server_{measured}$", re.MULTILINE)
        wait_until(lambda: what.search(httpx.get(metrics).text), measured)

    person.install()
    person.next()
    assert re.fullmatch("[0-9a-f]{64}\n", Path("key.txt").read_text())
    set_values(Path("my-server/server.toml"), {("", "heartbeat"): 0.5})
    person.start()
    assert "Settings written" in person.next()
    set_values(Path("my-proxy/proxy.toml"), {("", "poll_seconds"): 0.5})
    person.start()
    assert "20 live clients" in person.next()
    stands = person.next()
    # It is past its end if the clients took longer than the epoch.
    assert re.search("Epoch 2 of training 1 .*is (still )?open", stands)
    assert "ready" in stands

    person.stop(0)
    person.next()
    person.start()
    wait_for_metric(r'problem\{name="proxy"\} 1.0')
    text = person.next()
    assert "`sottovoce server go-beyond" in text
    assert "The next epoch has the number 3." in text
    wait_for_metric("epoch 3.0")
    wait_for_metric(r"overdue_seconds [1-9].*")
    assert "Epoch 3 is closed" in person.next()
    wait_for_metric("epoch 4.0")
    assert "Training 1 continues" in person.next()
    assert person.next().count("equal to the present catalogue") == 2
    assert "The new key is in" in person.next()

    (name,) = re.findall("terms --accept ([0-9a-f]{64})", person.next())
    person.know(NAME=name)
    assert "sent" in person.next().lower()
    person.next()
    items = Catalogue.decode(Path("films.json").read_bytes()).items
    rows = [f"{number % 3},{item.id}\n" for number, item in enumerate(items[:12])]
    Path("people.csv").write_text("user,item\n" + "".join(rows))
    person.next_python()
    assert len(Panel.decode(Path("panel.json").read_bytes()).people) == 3
    assert person.left == 0


def test_settings_that_are_shown_exist() -> None:
    blocks = re.findall("```toml\n(.*?)```", (DOCS / PAGE).read_text(encoding="utf-8"), re.DOTALL)
    names = {field.name for field in (*fields(ServerSettings), *fields(ProxySettings))}
    assert {name for block in blocks for name in tomllib.loads(block)} <= names
