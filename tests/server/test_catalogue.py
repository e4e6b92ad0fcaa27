"""Items come, change and go while a service runs; what was learnt of those that stay, stays."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.errors import SettingsError
from sottovoce.protocol import Catalogue, Item, SignedManifest, move_rows
from sottovoce.protocol.patch import Patch
from sottovoce.server.administration import begin_training, update_catalogue
from sottovoce.server.catalogue import Difference, merge_catalogues
from sottovoce.server.status import ServerStatus
from sottovoce.training import Settings
from tests.server.changes import change_catalogue, read_pending
from tests.server.world import ITEMS, NAMING, MakeWorld, World, make_start, write_start

NEW_ITEMS = (Item("film-new", "New", {"genre": ("Horror",)}), Item("film-newer", "Newer"))


def load_catalogue(world: World, signed: SignedManifest) -> Catalogue:
    content = world.server.get_file(signed.manifest.catalogue, "catalogue")
    assert content is not None
    return Catalogue.decode(content)


@pytest.mark.parametrize("begun", [False, True])
def test_a_catalogue_of_other_items_begins_like_a_first_one(
    make_world: MakeWorld, sqlite_url: str, begun: bool
) -> None:
    # From zeros no history has a loud direction: people would pay for nothing.
    world = make_world(sqlite_url)
    world.run_epoch()
    others = Catalogue.from_items(Item(f"other-{number}", "Other") for number in range(30))
    update_catalogue(world.store, others, retire_many=True)
    if begun:
        begin_training(world.store, world.settings, random_start=False)
    world.apply(world.close_epoch())
    V = world.load_model()
    assert len(V) == 30
    assert V.any(axis=1).all()
    # Lists must not use a random model.
    assert not world.get_signed().manifest.has_model


def test_a_changed_catalogue_is_signed_for_lists_at_the_next_tick(world: World) -> None:
    world.run_epoch()
    first = world.server.get_signed_shelf().shelf
    assert first.catalogue == read_pending(world.store).catalogue.hash
    change_catalogue(world.store, remove=["film-0"])
    world.server.tick()
    second = world.server.get_signed_shelf().shelf
    assert second.catalogue == read_pending(world.store).catalogue.hash != first.catalogue
    assert world.server.get_file(second.catalogue, "catalogue") is not None
    assert second.published > first.published
    world.server.tick()
    assert world.server.get_signed_shelf().shelf == second, "nothing changed"


def test_patches_lead_from_earlier_catalogues_to_the_newest(world: World) -> None:
    world.run_epoch()
    versions = [read_pending(world.store).catalogue.raw]
    for n in range(2):
        change_catalogue(world.store, titles={"film-3": f"Title {n}"})
        versions.append(read_pending(world.store).catalogue.raw)
        world.server.tick()
    first = world.server.get_signed_shelf().shelf.patch
    apply_patch(world, first, versions[1:])
    world.apply(world.close_epoch())
    manifest = world.get_signed().manifest
    apply_patch(world, manifest.catalogue_patch, versions[1:])
    assert manifest.model_patch is None, "all numbers of a model of taste change"
    change_catalogue(world.store, titles={"film-9": "Another title"})
    world.server.tick()
    # Those of the newest manifest and of the shelf stay, and no others.
    shelf = world.server.get_signed_shelf().shelf
    apply_patch(world, manifest.catalogue_patch, versions[1:])
    apply_patch(world, shelf.patch, [versions[-1], read_pending(world.store).catalogue.raw])
    world.apply(world.close_epoch())
    assert world.server.get_file(manifest.catalogue_patch or b"", "patch") is None


def test_a_patch_leads_from_an_earlier_model_of_names(
    make_world: MakeWorld, sqlite_url: str, tmp_path: Path
) -> None:
    """Keep the factors of the start: a training of names changes only its first column."""
    start = write_start(tmp_path, make_start(factors=16))
    training = NAMING.copy_with(factors=17)
    world = make_world(sqlite_url, training=training, start=start)
    first = world.run_epoch().manifest
    second = world.run_epoch().manifest
    assert first.model != second.model
    models = [world.server.get_file(one.model, "model") or b"" for one in (first, second)]
    apply_patch(world, second.model_patch, models)


def apply_patch(world: World, name: bytes | None, versions: list[bytes]) -> None:
    """Make the last version from the first by a patch of the server."""
    patch = Patch.decode(world.server.get_file(name or b"", "patch") or b"")
    assert patch.apply(versions[0], 10**6) == versions[-1]


def test_a_catalogue_beyond_the_current_terms_waits_for_the_next_training(
    make_world: MakeWorld, sqlite_url: str
) -> None:
    # Devices would refuse such a shelf, and go on listing what was withdrawn with it.
    world = make_world(sqlite_url)
    max_items = world.run_epoch().manifest.terms.max_items
    terms = replace(world.settings.terms, max_items=10 * max_items)
    begin_training(world.store, replace(world.settings, terms=terms), random_start=False)
    many = [Item(f"x{number}", "X") for number in range(max_items)]
    with pytest.raises(SettingsError, match=str(max_items)):
        change_catalogue(world.store, add=many)
    change_catalogue(world.store, remove=["film-0"])
    world.apply(world.close_epoch())
    change_catalogue(world.store, add=many)
    world.server.tick()
    shelf = world.server.get_signed_shelf().shelf
    assert shelf.catalogue == read_pending(world.store).catalogue.hash


def test_a_shelf_never_goes_back_when_the_clock_does(world: World) -> None:
    world.run_epoch()
    first = world.server.get_signed_shelf().shelf
    world.now -= 500
    change_catalogue(world.store, remove=["film-0"])
    world.server.tick()
    assert world.server.get_signed_shelf().shelf.published == first.published + 1


def test_a_worker_signs_the_shelf_once_when_it_starts(world: World) -> None:
    # Its database may have been restored: devices have seen a later shelf than it has.
    world.run_epoch()
    world.now += 50
    other = world.add_worker()
    other.server.tick()
    shelf = world.server.get_signed_shelf().shelf
    assert shelf.published == int(world.now)
    other.server.tick()
    assert world.server.get_signed_shelf().shelf == shelf


def test_items_are_added_retired_and_renamed_from_the_next_epoch_on(world: World) -> None:
    before = world.run_epoch()
    V = world.load_model(before)
    change_catalogue(world.store, add=NEW_ITEMS)
    change_catalogue(world.store, remove=["film-0", "film-7"])
    version, difference, _ = change_catalogue(world.store, titles={"film-3": "Another title"})
    assert version == 4
    assert difference
    assert world.get_signed() == before, "the current epoch is not changed"
    # Without reports the model stays as it is.
    world.apply(world.close_epoch())
    after = world.get_signed()
    assert after.manifest.items == ITEMS
    items = load_catalogue(world, after).items
    ids = [item.id for item in items]
    staying = [n for n in range(ITEMS) if n not in (0, 7)]
    assert ids == [*(f"film-{n}" for n in staying), "film-new", "film-newer"]
    assert items[ids.index("film-3")].title == "Another title"
    moved = world.load_model(after)
    assert np.array_equal(moved[:-2], V[staying])
    assert not moved[-2:].any(), "rows of new items are zero"


@pytest.mark.parametrize(
    ("mechanism", "sizes"), [("loudest", (1, 2, 7, 19, 33, 40)), ("named", (1, 2, 7, 19, 23))]
)
def test_agreed_terms_hold_for_every_size_of_the_catalogue(
    make_world: MakeWorld, sqlite_url: str, mechanism: str, sizes: tuple[int, ...]
) -> None:
    settings = Settings.preset(mechanism, reports=5, epochs=9)
    world = make_world(sqlite_url, training=settings)
    world.server.tick()
    agreed = world.get_signed().manifest.terms
    for size in sizes:
        wanted = Catalogue.from_items(Item(f"film-{n}", f"Film {n}") for n in range(size))
        *_, items_left = update_catalogue(world.store, wanted, retire_many=True)
        assert items_left == sizes[-1] - size
        world.apply(world.close_epoch())
        manifest = world.get_signed().manifest
        assert manifest.items == size
        assert agreed.list_worse_terms(manifest.terms) == []
        assert manifest.build().loud_fraction <= agreed.loud_fraction
    full = sizes[-1]
    with pytest.raises(SettingsError, match=rf"\b{full + 1}\b.*\b{full}\b.*training begin"):
        change_catalogue(world.store, add=NEW_ITEMS[:1])
    assert read_pending(world.store).items == full


def test_a_nearly_full_catalogue_of_names_is_a_problem_until_a_training_has_room(
    make_world: MakeWorld, sqlite_url: str
) -> None:
    """Let 20 items grow to 23, of 24 outcomes; the next training has more, and loses nothing."""
    names = Settings.preset("named", epsilon=20.0, reports=2, half_life=1.0)
    world = make_world(sqlite_url, training=names)
    signed = world.close_epoch()
    world.apply(signed, world.make_chunk(signed, np.full(200, 4, np.uint32)))

    def find_problem() -> str | None:
        world.server.tick()
        return world.server.troubles["catalogue"]

    change_catalogue(world.store, add=[Item("new-0", "New"), Item("new-1", "New")])
    assert find_problem() is None
    change_catalogue(world.store, add=[Item("new-2", "New")])
    problem = find_problem()
    assert problem is not None
    assert "0 more" in problem
    status = ServerStatus.read(world.store, world.settings, world.now, "")
    assert problem in status.problems
    assert b"sottovoce_server_items_left 3.0" in world.server.render_metrics()
    begin_training(world.store, world.settings, random_start=False)
    assert find_problem() is None
    world.apply(world.close_epoch())
    assert b"sottovoce_server_items_left 2.0" in world.server.render_metrics()
    change_catalogue(world.store, add=[Item("new-3", "New")])
    # What was named in the training before is still the first of the list.
    assert world.load_model()[:, 0].argmax() == 3


def test_retiring_most_items_must_be_confirmed(world: World) -> None:
    world.server.tick()
    before = read_pending(world.store)
    less_than_half = Catalogue.from_items(before.catalogue.items[ITEMS // 2 + 1 :])
    with pytest.raises(SettingsError, match="--retire-many"):
        update_catalogue(world.store, less_than_half)
    version, difference, _ = update_catalogue(world.store, less_than_half, dry_run=True)
    assert len(difference.retired) == ITEMS // 2 + 1
    version, difference, _ = update_catalogue(world.store, before.catalogue)
    assert (version, bool(difference)) == (1, False)
    assert read_pending(world.store) == before


def test_models_and_catalogues_of_old_epochs_are_deleted(
    make_world: MakeWorld, sqlite_url: str
) -> None:
    world = make_world(sqlite_url, keep_epochs=2)
    manifests = []
    for n in range(3):
        manifests.append(world.run_epoch())
        change_catalogue(world.store, titles={"film-0": f"Film {n}!"})
    first, *others = manifests
    assert world.server.get_file(first.manifest.model, "model") is None
    for signed in others:
        assert world.server.get_file(signed.manifest.model, "model") is not None
        assert world.server.get_file(signed.manifest.catalogue, "catalogue") is not None
    assert len(world.server.list_epochs()) == 4
    assert not world.get_sums(1).any()
    world.server.tick()
    assert load_catalogue(world, world.get_signed()).items[0].title == "Film 2!"


item_lists = st.lists(st.integers(0, 12), unique=True, min_size=1).map(
    lambda numbers: [Item(str(n), f"Title {n}") for n in numbers]
)


@given(item_lists, item_lists, st.integers(0, 2))
def test_rows_move_with_their_items(before: list[Item], wanted: list[Item], titles: int) -> None:
    catalogue = Catalogue.from_items(before)
    after = merge_catalogues(
        catalogue, Catalogue.from_items(replace(item, title=f"{titles}") for item in wanted)
    )
    assert {item.id for item in after.items} == {item.id for item in wanted}
    staying = [item.id for item in catalogue.items if item.id in after.numbers]
    assert [item.id for item in after.items][: len(staying)] == staying
    V = np.array([[1 + int(item.id), -1] for item in catalogue.items], np.float32)
    moved = move_rows(V, catalogue.items, after.items)
    for item, row in zip(after.items, moved, strict=True):
        expected = [1 + int(item.id), -1] if item.id in staying else [0, 0]
        assert row.tolist() == expected
    difference = Difference.between(catalogue, after)
    assert {item.id for item in difference.added} == set(after.numbers) - set(catalogue.numbers)
    assert {item.id for item in difference.retired} == set(catalogue.numbers) - set(after.numbers)
    assert [after.id for _, after in difference.changed] == staying
