"""`sottovoce server catalogue|training|keys|go-beyond`, and tables of items."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from subprocess import PIPE

import pytest
from typer.testing import CliRunner

from sottovoce.cli.server import app, catalogue_in, opened
from sottovoce.errors import DataError, SettingsError
from sottovoce.protocol import Catalogue, Item, SignedManifest
from sottovoce.server import InProcess, Keys, Server, ServerSettings, ServerStore
from sottovoce.training import Settings
from tests.processes import PATIENCE, calling
from tests.server.changes import present

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


def update(config: Path, *arguments: object) -> str:
    return call("catalogue", "update", "--config", config, *arguments)


def test_a_whole_catalogue_is_compared_and_then_taken(config: Path, tmp_path: Path) -> None:
    wanted = tmp_path / "all.tsv"
    lines = [f"f{n}\tFilm {n}\t{1990 + n}" for n in reversed(range(3, 12))]
    wanted.write_text("\n".join(["item\ttitle\tyear", *lines, "new\tNew\t2001"]))
    shown = update(config, wanted, "--dry-run")
    assert "1 added\n  new: New\n9 changed\n  f3: Film 3, other tags\n" in shown
    assert "3 retired\n  f0: Film 0\n" in shown
    assert "Version" not in shown
    assert len(items(config)) == 12
    assert "Version 2 holds from the next epoch on." in update(config, wanted)
    assert list(items(config)) == [*(f"f{n}" for n in range(3, 12)), "new"]
    assert "nothing changes" in update(config, wanted)
    kept = tmp_path / "kept.json"
    said = call("status", "--config", config, "--catalogue", kept)
    assert "Version 2, 10 items, follows with the next epoch." in said
    assert Catalogue.decode(kept.read_bytes()).items[0].tags == {"year": 1993}
    wanted.write_text("item\ttitle\n" + "\n".join(f"f{n}\tF {n}" for n in range(3, 12)))
    assert "f3: Film 3 -> F 3" in update(config, wanted)


def test_an_export_that_broke_off_retires_nothing(config: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.csv"
    broken.write_text("item\n" + "\n".join(f"f{n}" for n in range(5)))
    with pytest.raises(SettingsError, match="retires 7 of the 12 items"):
        update(config, broken)
    assert len(items(config)) == 12
    assert "7 retired" in update(config, broken, "--dry-run")
    assert "7 retired" in update(config, broken, "--retire-many")


def test_more_items_than_devices_agreed_to_are_refused(config: Path, tmp_path: Path) -> None:
    many = tmp_path / "many.csv"
    many.write_text("item\n" + "\n".join(f"f{n}" for n in range(25)))
    with pytest.raises(SettingsError, match="25 items, the terms allow 24"):
        update(config, many)
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
    CliRunner().invoke(app, ["status", "--config", str(old)])
    with opened(config) as (_, store):
        assert present(store).training.settings.epsilon == 3.5, "who only looks changes nothing"
    assert "Training 1 goes on." in call("training", "begin", "--config", config, "--cancel")
    with opened(config) as (_, store):
        assert present(store).training.settings.epsilon != 3.5


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


SHOP = "sku,name,price\nA,Tea,4.5\nB,   ,3\n"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    path = tmp_path / "shop.csv"
    path.write_text(SHOP)
    return path


def test_an_item_without_a_title_is_called_by_its_id(shop: Path) -> None:
    found = catalogue_in(shop, "item=sku,title=name").items
    assert [(item.id, item.title) for item in found] == [("A", "Tea"), ("B", "B")]


@pytest.mark.parametrize("columns", ["item=sku,item=name", "item:sku", "title=name", None])
def test_columns_are_named_once_and_the_item_is_one_of_them(
    shop: Path, columns: str | None
) -> None:
    with pytest.raises(DataError):
        catalogue_in(shop, columns)


def test_a_table_that_makes_no_catalogue_is_named(tmp_path: Path) -> None:
    path = tmp_path / "shop.csv"
    path.write_text(f"item\n{'x' * 600}\n")
    with pytest.raises(DataError, match=r"shop\.csv: catalogue: id: a string of 1\.\.512"):
        catalogue_in(path)


def test_text_among_numbers_is_refused(shop: Path, tmp_path: Path) -> None:
    columns = ("--columns", "item=sku,title=name,price=price")
    call("init", tmp_path / "s", "--catalogue", shop, *columns)
    shop.write_text(SHOP + "C,Pot,n/a\n")
    for asked in (
        ("init", tmp_path / "t", "--catalogue", shop),
        ("catalogue", "update", "--config", tmp_path / "s" / "server.toml", shop),
    ):
        with pytest.raises(DataError, match=r"shop\.csv, line 4: column 'price'"):
            call(*asked, *columns)
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    ("row", "column"),
    [
        ('a,"\x1b]0;PWNED\x07\x1b[2Jred",x\n', "title"),
        ('a,"line1\nAccepted terms: epsilon 0",x\n', "title"),
        ("a\u202eb,A,x\n", "item"),
        ("a,A,x\u2066\n", "genre"),
    ],
)
def test_control_characters_are_refused_with_item_and_column(
    tmp_path: Path, row: str, column: str
) -> None:
    table = tmp_path / "items.csv"
    table.write_text(f"item,title,genre\n{row}", newline="")
    with pytest.raises(DataError, match=f"column '{column}' of item 'a.*has a control character"):
        catalogue_in(table)
