"""`sottovoce server catalogue|training|keys|go-beyond`: what changes while a service runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from subprocess import PIPE

import pytest
from typer.testing import CliRunner

from sottovoce.cli.server import app
from sottovoce.cli.server_options import opened
from sottovoce.errors import DataError, SettingsError
from sottovoce.protocol import Catalogue, Item, SignedManifest
from sottovoce.server import InProcess, Keys, Server, ServerSettings, ServerStore
from sottovoce.server.administration import present
from sottovoce.training import Settings
from tests.processes import PATIENCE, calling

call = calling(app)
WHEN_TOLD = "from sottovoce.cli.server import app; print('ready', flush=True); input(); app()"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A server whose first epoch is open."""
    films = tmp_path / "films.json"
    films.write_bytes(Catalogue.of(Item(f"f{n}", f"Film {n}") for n in range(12)).raw)
    call("init", tmp_path / "s", "--catalogue", films, "--epoch-seconds", 1)
    path = tmp_path / "s" / "server.toml"
    beat(path)
    return path


def beat(config: Path) -> SignedManifest:
    settings = ServerSettings.read(config)
    store = ServerStore(settings.database)
    server = Server(store, Keys.read(settings.keys), settings, opener=InProcess())
    server.tick()
    signed = server.signed_manifest()
    store.close()
    return signed


def items(config: Path) -> dict[str, str]:
    store = ServerStore(ServerSettings.read(config).database)
    found = present(store).catalogue.items
    store.close()
    return {item.id: item.title for item in found}


def changed(config: Path, *arguments: object) -> str:
    command, *rest = arguments
    return call("catalogue", command, "--config", config, *rest)


def test_items_are_added_from_a_table_of_ones_own(config: Path, tmp_path: Path) -> None:
    table = tmp_path / "new.csv"
    table.write_text("sku,name,kind,note\n007,Bond,Thriller|Action,x\n7,Seven,Thriller,y\n")
    shown = changed(config, "add", table, "--columns", "item=sku,title=name,genre=kind")
    assert "2 added\n  007: Bond\n  7: Seven\n" in shown
    assert "Version 2 holds from the next epoch on" in shown
    assert items(config)["007"] == "Bond"
    assert len(items(config)) == 14
    again = changed(config, "add", table, "--columns", "item=sku,title=name,genre=kind")
    assert "nothing changes" in again
    with pytest.raises(DataError, match=r"no column 'price'; the columns are 'sku', 'name'"):
        changed(config, "add", table, "--columns", "item=sku,cost=price")
    with pytest.raises(SettingsError, match="'007' is in the catalogue with another title"):
        changed(config, "add", table, "--columns", "item=sku,title=kind")


def test_items_are_renamed_and_retired(config: Path) -> None:
    assert "f3: Film 3 -> Another title" in changed(config, "rename", "f3", "Another title")
    assert "2 retired\n  f0: Film 0\n  f1: Film 1\n" in changed(config, "retire", "f0", "f1")
    with pytest.raises(SettingsError, match="not in the catalogue: 'f0'; nothing was changed"):
        changed(config, "retire", "f2", "f0")
    assert items(config) == {f"f{n}": f"Film {n}" for n in range(2, 12)} | {"f3": "Another title"}
    assert "Version 3: 10 items, at most 24 in this training" in changed(config, "show")


def test_a_whole_catalogue_is_compared_and_then_taken(config: Path, tmp_path: Path) -> None:
    wanted = tmp_path / "all.tsv"
    lines = [f"f{n}\tFilm {n}\t{1990 + n}" for n in reversed(range(3, 12))]
    wanted.write_text("\n".join(["item\ttitle\tyear", *lines, "new\tNew\t2001"]))
    shown = changed(config, "diff", wanted)
    assert "1 added\n  new: New\n9 changed\n  f3: Film 3, other tags\n" in shown
    assert "3 retired\n  f0: Film 0\n" in shown
    assert "Version" not in shown
    assert len(items(config)) == 12
    assert "Version 2" in changed(config, "update", wanted)
    assert list(items(config)) == [*(f"f{n}" for n in range(3, 12)), "new"]
    kept = tmp_path / "kept.json"
    changed(config, "show", "--output", kept)
    assert Catalogue.decode(kept.read_bytes()).items[0].tags == {"year": 1993}


def test_an_export_that_broke_off_retires_nothing(config: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.csv"
    broken.write_text("item\n" + "\n".join(f"f{n}" for n in range(5)))
    with pytest.raises(SettingsError, match="retires 7 of the 12 items"):
        changed(config, "update", broken)
    assert len(items(config)) == 12
    assert "7 retired" in changed(config, "update", broken, "--retire-many")


def test_half_of_the_items_may_be_retired_and_more_only_if_it_is_meant(config: Path) -> None:
    many = [f"f{n}" for n in range(7)]
    with pytest.raises(SettingsError, match=r"retires 7 of the 12 items.*nothing was changed"):
        changed(config, "retire", *many)
    assert len(items(config)) == 12
    assert "6 retired" in changed(config, "retire", *many[:6])
    with pytest.raises(SettingsError, match="retires 4 of the 6 items"):
        changed(config, "retire", *(f"f{n}" for n in range(6, 10)))
    assert "4 retired" in changed(config, "retire", "--retire-many", "f6", "f7", "f8", "f9")
    assert list(items(config)) == ["f10", "f11"]


def test_more_items_than_devices_agreed_to_are_refused(config: Path, tmp_path: Path) -> None:
    many = tmp_path / "many.csv"
    many.write_text("item\n" + "\n".join(f"n{n}" for n in range(13)))
    with pytest.raises(SettingsError, match="25 items, the terms allow 24"):
        changed(config, "add", many)
    assert len(items(config)) == 12


def test_another_training_begins_after_a_yes(config: Path) -> None:
    before = beat(config).manifest.terms.training
    asked = CliRunner().invoke(app, ["training", "begin", "--config", str(config)], input="n\n")
    assert asked.exit_code == 1
    assert "Every device will ask its owner again" in asked.output
    text = config.read_text()
    assert "\nepsilon" not in text
    config.write_text(text.replace("[training]\n", "[training]\nepsilon = 3.5\n"))
    with pytest.raises(SettingsError, match="begin another training"):
        beat(config)
    shown = " ".join(call("training", "begin", "--config", config, "--yes").split())
    assert "Training 2," in shown
    assert "follows the present epoch" in shown
    assert beat(config).manifest.terms.training == before, "the present epoch goes on"
    old = config.with_name("old.toml")
    old.write_text(text)
    call("epoch", "--config", old)
    with opened(config) as (_, store):
        assert present(store).training.settings.epsilon == 3.5, "who only looks changes nothing"
    assert ServerSettings.read(config).training.epsilon == 3.5


def test_the_signing_key_is_replaced(config: Path) -> None:
    path = ServerSettings.read(config).keys
    before = Keys.read(path)
    shown = call("keys", "rotate", "--config", config)
    after = Keys.read(path)
    assert shown.strip().endswith(after.verification_key.hex())
    assert (after.first, after.wrapping) == (before.first, before.wrapping)
    assert after.verification_key != before.verification_key
    assert before.signing.hex() not in path.read_text()
    assert beat(config).key == before.verification_key, "what is published stays"
    assert [file.name for file in path.parent.glob(".keys*")] == []


def test_processes_that_replace_the_key_at_once_make_one_chain(config: Path) -> None:
    path = ServerSettings.read(config).keys
    before = Keys.read(path)
    command = [sys.executable, "-c", WHEN_TOLD, "keys", "rotate", "--config", str(config)]
    running = [subprocess.Popen(command, stdin=PIPE, stdout=PIPE, text=True) for _ in range(4)]
    for each in running:
        assert each.stdout is not None
        assert each.stdout.readline() == "ready\n"
    for each in running:
        assert each.stdin is not None
        each.stdin.write("\n")
        each.stdin.flush()
    shown = {each.communicate(timeout=PATIENCE)[0].split()[-1] for each in running}
    assert [each.returncode for each in running] == [0] * 4
    after = Keys.read(path)
    assert after.first == before.verification_key
    assert {each.key.hex() for each in after.statements} == shown
    assert len(shown) == 4
    beat(config)  # a worker starts with it


def test_a_key_that_was_lost_before_it_signed_is_replaced(config: Path) -> None:
    path = ServerSettings.read(config).keys
    before = path.read_bytes()
    call("keys", "rotate", "--config", config)
    path.write_bytes(before)
    with pytest.raises(SettingsError, match=r"newest verification key, \w+, is not in the keys"):
        call("keys", "rotate", "--config", config)
    assert path.read_bytes() == before
    call("keys", "rotate", "--config", config, "--newest-is-lost")
    assert len(Keys.read(path).statements) == 1
    beat(config)


def test_a_restored_database_goes_beyond(config: Path) -> None:
    assert "The next epoch has the number 41" in call("go-beyond", "--config", config, 40)
    assert beat(config).manifest.epoch == 41
    with pytest.raises(SettingsError, match="has the number 42 already"):
        call("go-beyond", "--config", config, 41)


def test_learning_goes_on_unless_it_is_to_end(tmp_path: Path) -> None:
    films = tmp_path / "films.csv"
    films.write_text("item,title\na,A\nb,B\n")
    folder = tmp_path / "on"
    call("init", folder, "--catalogue", films)
    training = ServerSettings.read(folder / "server.toml").training
    assert training.half_life == Settings().endless().half_life == 4
    call("init", tmp_path / "off", "--catalogue", films, "--ends", "--epochs", 7)
    ends = ServerSettings.read(tmp_path / "off" / "server.toml").training
    assert (ends.half_life, ends.epochs) == (0, 7)
    with pytest.raises(SettingsError, match="--columns is for tables"):
        call("init", tmp_path / "x", "--catalogue", tmp_path / "a.json", "--columns", "item=a")
