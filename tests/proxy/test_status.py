"""`sottovoce proxy status`: read while a proxy runs, which does not notice."""

from dataclasses import replace
from pathlib import Path

import pytest
from starlette.exceptions import HTTPException

from sottovoce.cli.proxy import describe_status
from sottovoce.errors import SettingsError, StoreError, UnknownProxyError
from sottovoce.protocol.panel import Panel, Panellist
from sottovoce.proxy.status import ProxyStatus
from sottovoce.proxy.store import open_snapshot
from sottovoce.service.page import Page
from sottovoce.service.watch import ProcessState
from tests.proxy.world import CATALOGUE, CLOSES, ENDS, HOLD, World, signed


def look(world: World) -> tuple[str, list[str]]:
    """Return the text of the status and its problems."""
    status = ProxyStatus.read(world.settings, world.server, world.clock.now, ProcessState(0.0))
    assert status.to_dict()["problems"] == status.problems
    return "\n".join(describe_status(status, world.settings)), status.problems


def test_status_has_the_open_epoch_and_its_crowd(world: World) -> None:
    world.send(2)
    text, problems = look(world)
    assert "is open since 1970-01-01 02:46:40Z (1 s ago)" in text
    assert "Waiting batches: 2; a crowd is 3, so these are too few yet. Dummies" in text
    assert "The server answers at https://server.example, with epoch 1." in text
    assert "GB are free in" in text
    assert problems == []


def test_unknown_secret_is_a_problem(world: World) -> None:
    def refuse(call: str) -> None:
        if call == "contact":
            raise UnknownProxyError("the server answered 401")

    world.server.before = refuse
    text, problems = look(world)
    assert ["401" in problem for problem in problems] == [True]
    assert "The server answers at" in text


def test_status_changes_no_file(world: World) -> None:
    # It changes neither the database nor its log, which can be emptied afterwards.
    files = [world.folder / name for name in ("proxy.sqlite3", "proxy.sqlite3-wal")]
    world.send(2)
    before = [path.read_bytes() for path in files]
    look(world)
    assert [path.read_bytes() for path in files] == before
    world.send(1)
    world.end_epoch()
    assert world.server.commits == {1: (3, 12)}


def test_panel_of_another_catalogue_is_a_problem(world: World, tmp_path: Path) -> None:
    path = tmp_path / "panel.json"
    world.settings = replace(world.settings, page=Page(serve=True, panel=path))
    people = (Panellist((0,), 1, (2,)),)
    for catalogue, is_told in ((CATALOGUE.hash, False), (bytes(32), True)):
        path.write_bytes(Panel(catalogue, people).encode())
        text, problems = look(world)
        assert ("panel of the page was made for another catalogue" in text) is is_told
        assert problems == []
    world.settings = replace(world.settings, page=Page(serve=False, panel=path))
    assert "another catalogue" not in look(world)[0]


def test_status_has_reports_that_are_not_delivered(world: World) -> None:
    world.send(3)
    world.close_epoch()
    world.server.before = lambda call: _fail() if call == "put_chunk" else None
    with pytest.raises(OSError, match="cut"):
        world.proxy.tick()
    text, problems = look(world)
    assert "is over on this proxy" in text
    assert "Not sent yet: 12 reports of epoch 1; the server has 0 of 3 chunks." in text
    assert problems == []


def _fail() -> None:
    raise OSError("cut")


def test_disagreement_with_the_server_is_a_problem(world: World) -> None:
    world.send(1)
    world.server.reachable = False
    assert look(world)[1] == ["no route"]
    world.server.reachable = True
    world.clock.now = CLOSES + 1
    assert look(world)[1] == []
    world.clock.now = ENDS + 61
    assert look(world)[1] == ["epoch 1 is over and was not ended here: does the proxy run?"]
    world.server.go_on(signed(3, opens=ENDS, closes=2 * ENDS))
    assert look(world)[1] == ["the server is at epoch 3, and this proxy is at 1: does it run?"]
    world.proxy.tick()
    assert look(world)[1] == []
    world.server.now = signed(2)
    (problem,) = look(world)[1]
    assert "`sottovoce server go-beyond 3`" in problem


def test_crowd_that_is_too_small_is_a_problem(tmp_path: Path) -> None:
    world = World(tmp_path, signed(opens=CLOSES - HOLD // 2))
    world.proxy.tick()
    world.clock.now = CLOSES + HOLD // 2 + 1
    text, problems = look(world)
    assert "it is discarded at" in text
    assert ["than 3, which terms and min_clients" in problem for problem in problems] == [True]
    assert "rate.per_epoch" not in problems[0]
    rate = replace(world.settings.rate, per_epoch=2)
    world.settings = replace(world.settings, rate=rate)
    assert "more than 2 come from one address (rate.per_epoch)?" in look(world)[1][0]


def test_key_that_did_not_sign_the_manifest_is_a_problem(world: World) -> None:
    world.settings = replace(world.settings, verification_key="ab" * 32)
    with pytest.raises(SettingsError, match="leave the server's first key there"):
        look(world)


def test_an_epoch_without_reports(tmp_path: Path) -> None:
    for accounts, why in (
        (False, ": the training is finished, or the server wants no reports."),
        (True, ": nobody has a token for it, the training is finished, or the server wants no "),
    ):
        terms = replace(signed().manifest.terms, accounts=accounts)
        world = World(tmp_path / str(accounts), signed(public_key=None, terms=terms))
        world.proxy.tick()
        assert f"(1 s ago){why}" in look(world)[0]


def test_a_full_disk(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sottovoce.storage.files.MIN_FREE_BYTES", 1 << 62)
    assert "MB are free on the disk" in look(world)[1][0]
    world.proxy.tick()
    assert "MB are free on the disk" in world.proxy.troubles.texts[0]


def test_batches_that_the_address_limit_refused_are_shown(world: World) -> None:
    assert world.proxy.metrics.list_notes() == []
    world.proxy.metrics.count_refusal(HTTPException(429))
    (note,) = world.proxy.metrics.list_notes()
    status = ProxyStatus.read(world.settings, world.server, 0.0, ProcessState(0.0, notes=(note,)))
    assert "Batches refused for their address ([rate]) since the start: 1." in list(
        describe_status(status, world.settings)
    )


def test_a_folder_without_a_database(tmp_path: Path) -> None:
    with (
        pytest.raises(StoreError, match="sottovoce proxy create-database"),
        open_snapshot(tmp_path),
    ):
        pass
    assert not list(tmp_path.iterdir())


def test_before_the_first_epoch(tmp_path: Path) -> None:
    world = World(tmp_path)
    assert "No epoch yet" in look(world)[0]
