"""`server status`, `server backup` and `proxy status` as they are typed: exit codes and files.

What they say is tested beside the services (`tests/server/test_status.py`, `tests/proxy`).
"""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from sottovoce.cli.app import app
from sottovoce.errors import SettingsError, StoreError
from sottovoce.proxy import ProxyStore
from sottovoce.server import ServerStore
from tests.processes import calling

if TYPE_CHECKING:
    from pathlib import Path

call = calling(app)


@pytest.fixture
def server(tmp_path: Path) -> Path:
    shop = tmp_path / "shop.csv"
    shop.write_text("item,title\n1,Tea\n2,Cup\n3,Spoon\n")
    call("server", "init", tmp_path / "server", "--catalogue", shop)
    return tmp_path / "server" / "server.toml"


def attention(*arguments: object) -> None:
    with pytest.raises(SystemExit) as ended:
        call(*arguments)
    assert ended.value.code == 1


def test_the_servers_exit_codes(server: Path, tmp_path: Path) -> None:
    written = tmp_path / "status.json"
    asked = ("server", "status", "--config", server, "--json", written)
    assert call(*asked).endswith("All is well.\n")
    assert json.loads(written.read_text())["next"] == {
        "training": 1,
        "catalogue_version": 1,
        "items": 3,
    }
    (server.parent / "keys.json").unlink()
    attention(*asked)
    assert "cannot be read" in json.loads(written.read_text())["problems"][0]
    (server.parent / "server.sqlite").unlink()
    with pytest.raises(SettingsError, match="no such database"):  # exit code 2
        call(*asked)
    assert not (server.parent / "server.sqlite").exists()


def test_a_backup_of_the_server(server: Path, tmp_path: Path) -> None:
    copy = tmp_path / "monday.sqlite"
    assert "monday.sqlite is the database" in call("server", "backup", "--config", server, copy)
    with closing(ServerStore(f"sqlite:///{copy}")) as store, store.read() as transaction:
        assert transaction.training() is not None


def test_the_proxys_exit_codes(tmp_path: Path) -> None:
    """Nobody listens where its server should be."""
    secret, written = tmp_path / "secret", tmp_path / "status.json"
    secret.write_text("s3cret\n")
    given = ("--server", "http://127.0.0.1:9", "--key", "ab" * 32, "--secret-file", secret)
    call("proxy", "init", tmp_path / "proxy", *given)
    asked = ("proxy", "status", "--config", tmp_path / "proxy" / "proxy.toml", "--json", written)
    with pytest.raises(StoreError, match="`sottovoce proxy run` makes it"):  # exit code 2
        call(*asked)
    ProxyStore.open(tmp_path / "proxy" / "data").close()
    attention(*asked)
    found = json.loads(written.read_text())
    assert found["epoch"] is None
    assert "cannot be reached" in found["problems"][0]
