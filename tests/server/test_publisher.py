"""Which reports make the next model, and on which terms the next epoch opens."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sottovoce.core import count_reports, sum_signs
from sottovoce.core.recommending import estimate_popularity
from sottovoce.errors import DataError, SettingsError, UnavailableError
from sottovoce.protocol import SEALED_BYTES, Catalogue, Item, encode_items
from sottovoce.protocol.contact import CROWD_ENOUGH
from sottovoce.server.administration import begin_training, cancel_training, update_catalogue
from sottovoce.server.publisher import LearntModel, sum_crowds
from sottovoce.training import (
    NameCounts,
    Participation,
    Settings,
    compute_next_items,
    make_first_items,
    make_items_from_start,
)
from sottovoce.training.items import DEFAULT_ROW_LIMIT
from sottovoce.training.start import Start
from tests.protocol.examples import manifest as make_manifest
from tests.server.changes import read_pending
from tests.server.world import (
    ITEMS,
    NAMING,
    TRAINING,
    MakeWorld,
    World,
    make_start,
    seal,
    to_chunk,
    write_start,
)

# People in a crowd, each with the reports of `TRAINING`.
CROWD_SIZE = 3
N_DUMMIES = 7

CROWD_TERMS = Participation(min_clients=CROWD_SIZE, hold=1000)


def make_noise(reports: int) -> bytes:
    return os.urandom(SEALED_BYTES * reports)


@pytest.mark.parametrize(
    ("east", "west", "counted", "crowdless"),
    [
        (lambda valid: valid[0] + valid[1] + valid[2], b"", 15, 0),
        (lambda valid: valid[0] + valid[1] + valid[2][SEALED_BYTES:] + make_noise(1), b"", 0, 14),
        (lambda valid: valid[0] + make_noise(10), b"", 0, 5),
        (lambda valid: valid[0] * 3, b"", 0, 5),
        (
            lambda valid: valid[0] + valid[1] + valid[2],
            lambda valid: valid[3] + make_noise(10),
            15,
            5,
        ),
        (lambda valid: valid[0] + valid[1], lambda valid: valid[2] + valid[3], 0, 20),
    ],
    ids=["a crowd", "one report less", "noise", "copies", "each proxy", "not together"],
)
def test_only_reports_that_open_make_a_crowd(
    make_world: MakeWorld, url: str, east: Any, west: Any, counted: int, crowdless: int
) -> None:
    # The proxy's word is not enough. From fewer reports nothing is learnt or stored.
    world = make_world(url, terms=CROWD_TERMS)
    signed = world.close_epoch()
    valid = [seal(world.draw_reports(5, seed), signed) for seed in range(4)]
    for proxy, make in (("east", east), ("west", west)):
        chunks = [to_chunk(make(valid), signed)] if callable(make) else []
        for chunk in chunks:
            world.send(proxy, chunk)
        world.commit(proxy, signed, chunks)
    world.server.tick()
    applied, following = world.server.list_epochs()
    assert (applied.reports, applied.crowdless) == (counted, crowdless)
    assert following.epochs_done == bool(counted)
    assert bool(world.get_sums(1).any()) is bool(counted)
    manifest = world.get_signed().manifest
    assert (manifest.model == signed.manifest.model) is not bool(counted)
    assert manifest.reports_behind == counted
    metrics = world.server.render_metrics().decode()
    assert f"sottovoce_server_applied_crowdless {crowdless}.0" in metrics


@pytest.mark.parametrize(
    ("east", "west", "counted", "crowdless"),
    [
        (15 + N_DUMMIES, 0, 15, 0),
        (14 + N_DUMMIES, 0, 0, 14 + N_DUMMIES),
        (15, 15, 0, 30),
        (15 + N_DUMMIES, 15 + N_DUMMIES, 30, 0),
        (20 + N_DUMMIES, 14 + N_DUMMIES, 20, 14 + N_DUMMIES),
        (14 + N_DUMMIES, 14 + N_DUMMIES, 0, 28 + 2 * N_DUMMIES),
    ],
)
def test_a_proxy_counts_with_a_crowd_and_its_dummies(
    make_world: MakeWorld, sqlite_url: str, east: int, west: int, counted: int, crowdless: int
) -> None:
    # The model moves by all reports that count, dummies too, as of the people's reports.
    settings = replace(TRAINING, dummies=N_DUMMIES)
    world = make_world(sqlite_url, training=settings, terms=CROWD_TERMS)
    signed = world.close_epoch()
    assert signed.manifest.terms.dummies == N_DUMMIES
    mechanism = signed.manifest.build()
    V, sums = make_first_items(settings, ITEMS), np.zeros(mechanism.n_directions, np.int64)
    for seed, (proxy, number) in enumerate((("east", east), ("west", west))):
        reports = world.draw_reports(number, seed)
        chunks = [world.make_chunk(signed, reports)] if number else []
        for chunk in chunks:
            world.send(proxy, chunk)
        world.commit(proxy, signed, chunks)
        if number >= CROWD_SIZE * settings.reports + N_DUMMIES:
            sums += sum_signs(reports, mechanism.n_directions)
    world.server.tick()
    applied = world.server.list_epochs()[0]
    assert (applied.reports, applied.crowdless, applied.capped) == (counted, crowdless, 0)
    assert world.get_signed().manifest.reports_behind == counted
    assert np.array_equal(world.get_sums(1), sums if counted else [])
    if counted:
        V = compute_next_items(
            V, sums, counted, 1, settings, mechanism, row_limit=DEFAULT_ROW_LIMIT
        )
    assert np.array_equal(world.load_model(), V)


@pytest.mark.parametrize(
    ("dummies", "committed", "is_counted"), [(0, (), True), (5, (), False), (5, ("east",), True)]
)
def test_a_proxy_with_dummies_counts_only_after_its_commit(
    dummies: int, committed: tuple[str, ...], is_counted: bool
) -> None:
    # Before it nobody knows how many of its dummies came.
    manifest = make_manifest(dummies=dummies, min_clients=1)
    counts = {"east": np.full(2 * manifest.build().n_directions, 9, np.int64)}
    total, crowdless, dummies_counted = sum_crowds(counts, manifest, committed)
    assert bool(total.any()) == (crowdless == 0) == is_counted
    assert dummies_counted == dummies * is_counted


def test_a_flood_on_one_direction_is_capped(make_world: MakeWorld, sqlite_url: str) -> None:
    # A third of all people send the same report, as often as they can.
    world = make_world(sqlite_url)
    signed = world.close_epoch()
    flood = np.full(1000, 5 << 1 | 1, np.uint32)
    reports = np.concatenate([world.draw_reports(2000), flood])
    world.apply(signed, world.make_chunk(signed, reports))
    applied = world.server.list_epochs()[0]
    assert applied.reports + applied.capped == 3000
    assert 500 < applied.capped < 1000
    assert world.get_signed().manifest.reports_behind == applied.reports
    assert 0 < world.get_sums(1)[5] < 600


def test_an_item_that_attackers_push_is_limited_by_default(
    make_world: MakeWorld, sqlite_url: str
) -> None:
    # They send both directions of its row, neither more often than chance could.
    settings = replace(TRAINING, epochs=20, options={"block": 1, "loud": 1})
    lengths = []
    for name, changes in (("limited", {}), ("free", {"row_limit": 0.0})):
        world = make_world(f"{sqlite_url}-{name}", training=settings, **changes)
        signed = world.close_epoch()
        pushed = np.repeat(np.array([29, 31], np.uint32), 150)
        reports = np.concatenate([world.draw_reports(4000), pushed])
        world.apply(signed, world.make_chunk(signed, reports))
        lengths.append(np.linalg.norm(world.load_model(), axis=1))
        assert world.server.list_epochs()[0].capped == 0
    limited, free = lengths
    assert limited.max() < 0.2 * free.max()
    assert limited[free.argmax()] == pytest.approx(np.quantile(free, 0.75), rel=2**-7)


def test_the_first_epoch_is_opened_with_the_first_model(world: World) -> None:
    world.server.prepare()
    with pytest.raises(UnavailableError):
        world.get_signed()
    world.server.tick()
    signed = world.get_signed()
    manifest = signed.manifest
    assert (manifest.epoch, manifest.opens, manifest.closes) == (1, 1000, 1100)
    assert (manifest.reports_behind, manifest.epochs_left) == (0, TRAINING.epochs)
    model = world.server.get_file(manifest.model, "model")
    assert model == encode_items(make_first_items(TRAINING, ITEMS))
    assert (
        world.server.get_file(manifest.catalogue, "catalogue")
        == world.settings.catalogue.read_bytes()
    )
    assert world.server.get_file(manifest.model, "catalogue") is None
    world.server.tick()
    assert world.get_signed() == signed


def test_applying_is_the_papers_update_and_the_last_manifest_asks_for_nothing(
    world: World,
) -> None:
    V = make_first_items(TRAINING, ITEMS)
    for epoch in range(1, TRAINING.epochs + 1):
        signed = world.close_epoch()
        assert signed.manifest.epoch == epoch
        assert signed.manifest.epochs_left == TRAINING.epochs - epoch + 1
        reports = world.draw_reports(200, seed=epoch)
        world.apply(signed, world.make_chunk(signed, reports))
        mechanism = signed.manifest.build()
        sums = sum_signs(reports, mechanism.n_directions)
        V = compute_next_items(
            V, sums, 200, epoch, TRAINING, mechanism, row_limit=DEFAULT_ROW_LIMIT
        )
        manifest = world.get_signed().manifest
        assert manifest.reports_behind == 200
        assert np.array_equal(world.load_model(), V)
        assert manifest.regularization == TRAINING.compute_user_ridge(V)
        assert signed.manifest.regularization != manifest.regularization
    last = world.get_signed()
    assert last.manifest.public_key is None
    assert last.manifest.epochs_left == 0
    assert world.contact("east", last, CROWD_ENOUGH) == "applied"
    world.now += 10_000
    world.server.tick()
    assert world.get_signed() == last
    more = replace(TRAINING, epochs=TRAINING.epochs + 1)
    with pytest.raises(SettingsError, match=r"\b4\b.*\b3\b.*training\.lifetime"):
        world.add_worker(training=more).server.tick()
    longer = world.add_worker(training=replace(more, lifetime=3))
    longer.server.tick()
    manifest = longer.get_signed().manifest
    assert manifest.public_key is not None
    assert manifest.epochs_left == 1
    assert manifest.epoch == TRAINING.epochs + 2


BASE_TERMS = Participation(min_clients=40, hold=1000)
LIFETIME_TRAINING = replace(TRAINING, epochs=4, lifetime=2)


@pytest.mark.parametrize(
    ("before", "worse", "pattern"),
    [
        ({"terms": BASE_TERMS}, {"terms": replace(BASE_TERMS, min_clients=39)}, "39"),
        ({"terms": BASE_TERMS}, {"terms": replace(BASE_TERMS, hold=1001)}, "1001"),
        (
            {"terms": replace(BASE_TERMS, max_items=50)},
            {"terms": replace(BASE_TERMS, max_items=51)},
            "51",
        ),
        (
            {"training": LIFETIME_TRAINING},
            {"training": replace(LIFETIME_TRAINING, lifetime=3)},
            r"\b3\b",
        ),
        (
            {"training": LIFETIME_TRAINING},
            {"training": replace(LIFETIME_TRAINING, epochs=2)},
            r"\b1\.0\b",
        ),
    ],
)
def test_terms_never_become_worse_while_a_training_runs(
    make_world: MakeWorld,
    sqlite_url: str,
    before: dict[str, Any],
    worse: dict[str, Any],
    pattern: str,
) -> None:
    world = make_world(sqlite_url, **before)
    world.server.tick()
    with pytest.raises(SettingsError, match=pattern):
        world.add_worker(**worse).server.tick()
    world.add_worker().server.tick()
    if "training" in before:
        world.add_worker(training=replace(LIFETIME_TRAINING, epochs=8)).server.tick()


def test_terms_that_became_better_stay_better(make_world: MakeWorld, sqlite_url: str) -> None:
    # People who joined meanwhile have agreed only to the better terms.
    terms = Participation(min_clients=1, hold=1000)
    world = make_world(sqlite_url, terms=terms)
    world.server.tick()
    better = world.add_worker(terms=replace(terms, hold=60))
    better.apply(better.close_epoch())
    assert better.get_signed().manifest.terms.hold == 60
    with pytest.raises(SettingsError, match=r"\b2\b.*\b60\b"):
        world.add_worker().server.tick()


def test_the_crowd_grows_at_most_to_ten_times_the_first(
    make_world: MakeWorld, sqlite_url: str
) -> None:
    # People who accepted the first terms refuse more, however slowly it grew.
    world = make_world(sqlite_url, terms=Participation(min_clients=2, hold=1000))
    for min_clients in (2, 20):
        grown = world.add_worker(terms=Participation(min_clients=min_clients, hold=1000))
        grown.now = world.now
        grown.apply(grown.close_epoch())
        world.now = grown.now
    worker = world.add_worker(terms=Participation(min_clients=21, hold=1000))
    with pytest.raises(SettingsError, match=r"\b1\b.*\b21\b"):
        worker.server.tick()
    assert grown.now > 1100


# A training of names.


def test_names_are_counted_with_a_memory(make_world: MakeWorld, url: str) -> None:
    world = make_world(url, training=NAMING)
    names, no_factors = NameCounts.make_empty(ITEMS), np.zeros((ITEMS, 1), np.float32)
    for seed in range(3):
        signed = world.close_epoch()
        assert np.array_equal(
            world.load_model(signed), names.update_items(np.zeros((ITEMS, 1), np.float32))
        )
        mechanism, reports = signed.manifest.build(), world.draw_reports(300, seed)
        world.apply(signed, world.make_chunk(signed, reports))
        counts = count_reports(reports, mechanism.n_directions)
        assert np.array_equal(world.get_sums(seed + 1), counts)
        names = names.add_epoch(mechanism, counts, 300, fade=0.5)
    assert np.array_equal(world.load_model(), names.update_items(no_factors))


def test_counts_of_names_move_with_their_items() -> None:
    items = [Item(name, name) for name in "abc"]
    table = np.arange(12.0).reshape(4, 3)
    model = LearntModel(np.array([[1], [2], [3]], np.float32), NameCounts(table))
    moved = model.move(items, [items[2], Item("new", "new"), items[0]])
    assert moved.V.ravel().tolist() == [3, 0, 1]
    assert moved.names is not None
    assert moved.names.table.tolist() == [[row[2], 0, row[0]] for row in table.tolist()]


def test_names_and_tastes_inherit_popularity_from_each_other() -> None:
    V = np.random.default_rng(0).random((6, 2)).astype(np.float32)
    named = LearntModel(V, None).inherit(NAMING)
    assert named.names is not None
    order = np.argsort(estimate_popularity(V.astype(float)))
    assert np.array_equal(np.argsort(named.V[:, 0]), order)
    assert named.inherit(NAMING).names is named.names
    taste = named.inherit(TRAINING)
    assert taste.names is None
    assert np.array_equal(np.argsort(estimate_popularity(taste.V.astype(float))), order)


def test_taste_with_more_factors_than_its_start_begins_them_as_noise() -> None:
    start = make_start()
    rows = start.select_items(f"film-{number}" for number in range(ITEMS))
    names = NameCounts.from_items(rows)
    V = make_items_from_start(replace(NAMING, factors=rows.shape[1] + 1), rows)
    model = LearntModel(V, names, start.provenance)
    more = model.inherit(replace(TRAINING, factors=rows.shape[1] + 3, rotate=False))
    assert more.V.any(axis=0).all()


# A public start.


NAMING_WITH_START = replace(NAMING, factors=3)


@pytest.mark.parametrize("training", [TRAINING, NAMING_WITH_START], ids=["taste", "names"])
def test_a_training_begins_with_its_start(
    make_world: MakeWorld, url: str, tmp_path: Path, training: Settings
) -> None:
    # After `init`, everything is in the database: the file may be gone.
    path = write_start(tmp_path)
    world = make_world(url, training=training, start=path)
    world.server.tick()
    path.unlink()
    rows = make_start().select_items(f"film-{number}" for number in range(ITEMS))
    V = make_items_from_start(training, rows)
    first = world.close_epoch()
    manifest = first.manifest
    assert (manifest.start, manifest.reports_behind) == (make_start().provenance, 0)
    assert np.array_equal(world.load_model(), V)
    assert not V[-4:].any()
    mechanism, reports = manifest.build(), world.draw_reports(300)
    worker = world.add_worker()
    worker.now = world.now
    worker.server.prepare()
    worker.apply(first, world.make_chunk(first, reports))
    if training.asks_for_names:
        counts = count_reports(reports, mechanism.n_directions)
        names = NameCounts.from_items(rows).add_epoch(mechanism, counts, 300, fade=0.5)
        expected = names.update_items(V)
        assert np.array_equal(expected[:, 1:], V[:, 1:])
    else:
        sums = sum_signs(reports, mechanism.n_directions)
        expected = compute_next_items(
            *(V, sums, 300, 1, training, mechanism), row_limit=DEFAULT_ROW_LIMIT, has_start=True
        )
    assert np.array_equal(world.load_model(), expected)
    assert world.get_signed().manifest.start == manifest.start


@pytest.mark.parametrize("training", [TRAINING, NAMING_WITH_START], ids=["taste", "names"])
@pytest.mark.parametrize("following", [TRAINING, NAMING_WITH_START, NAMING])
def test_the_next_training_inherits_the_start(
    make_world: MakeWorld, sqlite_url: str, tmp_path: Path, training: Settings, following: Settings
) -> None:
    world = make_world(sqlite_url, training=training, start=write_start(tmp_path))
    world.run_epoch()
    V = world.load_model()
    settings = replace(world.settings, training=following)
    begin_training(world.store, settings, random_start=False)
    world.run_epoch()
    manifest, inherited = world.get_signed().manifest, world.load_model()
    assert manifest.start == make_start().provenance
    if following.factors == 1:
        assert inherited.any()
        return
    # The same tastes, perhaps in another basis and of another length, and rounded.
    before, after = (
        matrix[:, int(named) :].astype(float)
        for matrix, named in (
            (V, training.asks_for_names),
            (inherited, following.asks_for_names),
        )
    )
    before, after = before @ before.T, after @ after.T
    assert np.allclose(before / np.linalg.norm(before), after / np.linalg.norm(after), atol=2e-3)


def test_a_new_model_begins_with_the_start_in_the_settings(
    make_world: MakeWorld, sqlite_url: str, tmp_path: Path
) -> None:
    world = make_world(sqlite_url)
    world.run_epoch()
    assert world.get_signed().manifest.start is None
    settings = replace(world.settings, start=write_start(tmp_path))
    begin_training(world.store, settings, random_start=True)
    world.run_epoch()
    manifest = world.get_signed().manifest
    assert (manifest.start, manifest.reports_behind) == (make_start().provenance, 0)
    begin_training(world.store, settings, random_start=True)
    with pytest.raises(SettingsError, match=r"training\.factors must be at least 2"):
        world.add_worker(training=replace(TRAINING, factors=1)).server.prepare()
    world.add_worker(training=replace(TRAINING, factors=3)).server.prepare()
    cancel_training(world.store)
    begin_training(world.store, world.settings, random_start=True)
    world.run_epoch()
    assert world.get_signed().manifest.start is None


def test_a_start_that_does_not_fit_is_refused_and_one_without_items_is_gone(
    make_world: MakeWorld, sqlite_url: str, tmp_path: Path
) -> None:
    start = make_start()
    world = make_world(sqlite_url, start=write_start(tmp_path))
    world.run_epoch()
    unusable: list[tuple[type[Exception], str, Start]] = [
        (
            *(DataError, "none of the 20 items"),
            replace(start, item_ids=tuple(f"other-{item}" for item in start.item_ids)),
        ),
        (SettingsError, r"training\.factors must be at least 5", make_start(factors=5)),
        (
            *(SettingsError, "control character"),
            replace(start, provenance=replace(start.provenance, name="\x1b[31m")),
        ),
    ]
    for error, pattern, content in unusable:
        write_start(tmp_path, content)
        with pytest.raises(error, match=pattern):
            begin_training(world.store, world.settings, random_start=True)
    assert read_pending(world.store).training.number == 1
    wanted = Catalogue.from_items([Item("new", "New"), Item("newer", "Newer")])
    update_catalogue(world.store, wanted, retire_many=True)
    world.run_epoch()
    assert world.get_signed().manifest.start is None


def test_names_forget_a_start_whose_items_have_left(
    make_world: MakeWorld, sqlite_url: str, tmp_path: Path
) -> None:
    world = make_world(sqlite_url, training=NAMING_WITH_START, start=write_start(tmp_path))
    world.run_epoch()
    items = read_pending(world.store).catalogue.items
    started = set(make_start().item_ids)
    for remaining, start in (
        ([item for item in items if item.id != items[0].id], make_start().provenance),
        ([item for item in items if item.id not in started], None),
    ):
        update_catalogue(world.store, Catalogue.from_items(remaining), retire_many=True)
        world.run_epoch()
        assert world.get_signed().manifest.start == start
    assert world.load_model().any(), "people's names stay"


def test_a_server_may_ask_nobody_for_reports(
    make_world: MakeWorld, url: str, tmp_path: Path
) -> None:
    world = make_world(url, start=write_start(tmp_path), collect_reports=False)
    for _ in range(3):
        world.server.tick()
        world.now += 10_000
    (epoch,) = world.server.list_epochs()
    manifest = world.get_signed().manifest
    assert (epoch.state, manifest.public_key) == ("applied", None)
    assert manifest.start is not None
    asking = world.add_worker(collect_reports=True)
    asking.now = world.now
    asking.server.tick()
    assert asking.get_signed().manifest.public_key is not None
