"""Items come, change and go while a service runs; what was learnt of those that stay, stays."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sottovoce.errors import SettingsError
from sottovoce.protocol import Catalogue, Item, SignedManifest, decode_items, move_rows
from sottovoce.server.administration import begin_training, update_catalogue
from sottovoce.server.catalogue import Difference, merge_catalogues
from tests.server.changes import change_catalogue, present, with_added, with_titles, without
from tests.server.world import ITEMS, MakeWorld, World

NEW = (Item("film-new", "New", {"genre": ("Horror",)}), Item("film-newer", "Newer"))


def model(world: World, signed: SignedManifest) -> NDArray[np.float32]:
    manifest = signed.manifest
    content = world.server.get_model(manifest.model)
    assert content is not None
    return decode_items(content, manifest.items, manifest.terms.factors)


def catalogue(world: World, signed: SignedManifest) -> Catalogue:
    content = world.server.get_catalogue(signed.manifest.catalogue)
    assert content is not None
    return Catalogue.decode(content)


def learn(world: World) -> SignedManifest:
    """An epoch with reports; the manifest after it."""
    signed = world.close_epoch()
    world.apply(signed, world.make_chunk(signed, 200))
    return world.get_signed()


@pytest.mark.parametrize("begun", [False, True])
def test_a_catalogue_of_other_items_begins_like_a_first_one(
    make_world: MakeWorld, sqlite_url: str, begun: bool
) -> None:
    """From zeros nobody's history says anything: an epoch would be paid for in vain."""
    world = make_world(sqlite_url)
    learn(world)
    others = Catalogue.from_items(Item(f"other-{number}", "Other") for number in range(30))
    update_catalogue(world.store, others, retire_many=True)
    if begun:
        begin_training(world.store, world.settings, random_start=False)
    world.apply(world.close_epoch())
    V = model(world, world.get_signed())
    assert len(V) == 30
    assert V.any(axis=1).all()


def test_another_catalogue_is_signed_for_lists_with_the_next_beat(world: World) -> None:
    learn(world)
    first = world.server.get_signed_shelf().shelf
    assert first.catalogue == present(world.store).catalogue.hash
    change_catalogue(world.store, lambda known: without(known, ["film-0"]))
    world.server.tick()
    then = world.server.get_signed_shelf().shelf
    assert then.catalogue == present(world.store).catalogue.hash != first.catalogue
    assert world.server.get_catalogue(then.catalogue) is not None
    assert then.published > first.published
    world.server.tick()
    assert world.server.get_signed_shelf().shelf == then, "nothing changed"


def test_what_the_running_epochs_terms_do_not_allow_waits_for_the_next_training(
    make_world: MakeWorld, sqlite_url: str
) -> None:
    """Devices would refuse such a shelf, and go on listing what was withdrawn with it."""
    world = make_world(sqlite_url)
    most = learn(world).manifest.terms.most_items
    terms = replace(world.settings.terms, most_items=10 * most)
    begin_training(world.store, replace(world.settings, terms=terms), random_start=False)
    many = [Item(f"x{number}", "X") for number in range(most)]
    with pytest.raises(SettingsError, match=str(most)):
        change_catalogue(world.store, lambda known: with_added(known, many))
    change_catalogue(world.store, lambda known: without(known, ["film-0"]))
    world.apply(world.close_epoch())
    change_catalogue(world.store, lambda known: with_added(known, many))
    world.server.tick()
    shelf = world.server.get_signed_shelf().shelf
    assert shelf.catalogue == present(world.store).catalogue.hash


def test_a_shelf_never_goes_back_whatever_the_clock_says(world: World) -> None:
    learn(world)
    first = world.server.get_signed_shelf().shelf
    world.now -= 500
    change_catalogue(world.store, lambda known: without(known, ["film-0"]))
    world.server.tick()
    assert world.server.get_signed_shelf().shelf.published == first.published + 1


def test_a_worker_signs_once_when_it_starts(world: World) -> None:
    """Its database may have been restored: devices have seen a later shelf than it has."""
    learn(world)
    world.now += 50
    other = world.add_worker()
    other.server.tick()
    shelf = world.server.get_signed_shelf().shelf
    assert shelf.published == int(world.now)
    other.server.tick()
    assert world.server.get_signed_shelf().shelf == shelf


def test_items_are_added_retired_and_renamed_from_the_next_epoch_on(world: World) -> None:
    before = learn(world)
    V = model(world, before)
    for change in (
        lambda known: with_added(known, NEW),
        lambda known: without(known, ["film-0", "film-7"]),
        lambda known: with_titles(known, {"film-3": "Another title"}),
    ):
        version, difference = change_catalogue(world.store, change)
        assert difference
    assert version == 4
    assert world.get_signed() == before, "an epoch that runs is not changed"
    signed = world.close_epoch()
    world.apply(signed)  # without reports: the model is as it was
    after = world.get_signed()
    assert after.manifest.items == ITEMS
    ids = [item.id for item in catalogue(world, after).items]
    kept = [n for n in range(ITEMS) if n not in (0, 7)]
    assert ids == [*(f"film-{n}" for n in kept), "film-new", "film-newer"]
    assert catalogue(world, after).items[ids.index("film-3")].title == "Another title"
    moved = model(world, after)
    assert np.array_equal(moved[:-2], V[kept])
    assert not moved[-2:].any(), "rows of new items are zero"


def test_the_terms_that_devices_agreed_to_stay(make_world: MakeWorld, sqlite_url: str) -> None:
    """However the catalogue grows or shrinks: no field becomes worse, none can be proved so."""
    world = make_world(sqlite_url)
    world.server.tick()
    agreed = world.get_signed().manifest.terms
    for size in (1, 2, 7, 19, 33, 40):
        wanted = Catalogue.from_items(Item(f"film-{n}", f"Film {n}") for n in range(size))
        update_catalogue(world.store, wanted, retire_many=True)
        world.apply(world.close_epoch())
        manifest = world.get_signed().manifest
        assert manifest.items == size
        assert agreed.list_worse_terms(manifest.terms) == []
        assert manifest.build().loud_fraction <= agreed.loud_fraction
    with pytest.raises(SettingsError, match=r"\b41\b.*\b40\b"):
        change_catalogue(world.store, lambda known: with_added(known, NEW[:1]))
    assert present(world.store).items == 40


def test_changes_that_mean_nothing_or_cannot_be_are_refused(world: World) -> None:
    world.server.tick()
    before = present(world.store)
    half = without(before.catalogue, [item.id for item in before.catalogue.items[: ITEMS // 2 + 1]])
    with pytest.raises(SettingsError, match="--retire-many"):
        update_catalogue(world.store, half)
    version, found = update_catalogue(world.store, half, dry_run=True)
    assert len(found.retired) == ITEMS // 2 + 1
    version, found = update_catalogue(world.store, before.catalogue)
    assert (version, bool(found)) == (1, False)
    assert present(world.store) == before


def test_what_old_epochs_needed_is_deleted(make_world: MakeWorld, sqlite_url: str) -> None:
    world = make_world(sqlite_url, keep_epochs=2)
    seen = []
    for n in range(3):
        seen.append(learn(world))
        change_catalogue(world.store, partial(with_titles, titles={"film-0": f"Film {n}!"}))
    first, *kept = seen
    assert world.server.get_model(first.manifest.model) is None
    for signed in kept:
        assert world.server.get_model(signed.manifest.model) is not None
        assert world.server.get_catalogue(signed.manifest.catalogue) is not None
    assert len(world.server.list_epochs()) == 4
    assert not world.get_sums(1).any()
    world.server.tick()
    assert catalogue(world, world.get_signed()).items[0].title == "Film 2!"


ids = st.lists(st.integers(0, 12), unique=True, min_size=1).map(
    lambda numbers: [Item(str(n), f"Title {n}") for n in numbers]
)


@given(ids, ids, st.integers(0, 2))
def test_rows_go_with_their_items(before: list[Item], wanted: list[Item], titles: int) -> None:
    """Whatever is added, retired or renamed, and in which order the file has it."""
    known = Catalogue.from_items(before)
    after = merge_catalogues(
        known, Catalogue.from_items(replace(item, title=f"{titles}") for item in wanted)
    )
    assert {item.id for item in after.items} == {item.id for item in wanted}
    stay = [item.id for item in known.items if item.id in after.numbers]
    assert [item.id for item in after.items][: len(stay)] == stay
    V = np.array([[1 + int(item.id), -1] for item in known.items], np.float32)
    moved = move_rows(V, known.items, after.items)
    for item, row in zip(after.items, moved, strict=True):
        expected = [1 + int(item.id), -1] if item.id in stay else [0, 0]
        assert row.tolist() == expected
    found = Difference.between(known, after)
    assert {item.id for item in found.added} == set(after.numbers) - set(known.numbers)
    assert {item.id for item in found.retired} == set(known.numbers) - set(after.numbers)
    assert [after.id for _, after in found.changed] == stay
