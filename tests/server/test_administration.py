"""Learning without an end, one training after another, and signing keys that change."""

from dataclasses import replace

import numpy as np
import pytest

from sottovoce.errors import RefusedError, SettingsError
from sottovoce.protocol.contact import CROWD_ENOUGH, CROWD_SHORT, Contact
from sottovoce.server.administration import begin_training, cancel_training, close_epoch, go_beyond
from tests.server.changes import present
from tests.server.test_catalogue import learn, model
from tests.server.world import TRAINING, MakeWorld, World


def test_learning_without_an_end(make_world: MakeWorld, sqlite_url: str) -> None:
    """More epochs than it has, each with a key, and old estimates fade."""
    settings = replace(TRAINING, half_life=1.0, lifetime=2, rotate=False, regularization=1e-12)
    world = make_world(sqlite_url, training=settings)
    before = learn(world)
    for _ in range(settings.epochs + 2):
        V = model(world, before)
        signed = world.close_epoch()
        manifest = signed.manifest
        assert manifest.public_key is not None
        assert (manifest.epochs_left, manifest.terms.epochs) == (0, 2)
        assert manifest.terms.share == pytest.approx(2 / 3)
        world.apply(signed, world.make_chunk(signed, 200))
        before = world.get_signed()
        estimate = manifest.build().estimate(world.get_sums(manifest.epoch), 200)
        faded = 0.5 * V.astype(np.float64) - settings.rate * estimate
        assert np.allclose(model(world, before), faded, rtol=1e-5)


@pytest.mark.parametrize("anew", [False, True])
def test_another_training_follows_the_present_epoch(world: World, anew: bool) -> None:
    """A running worker needs no restart; its devices are asked, for every field that got worse."""
    before = learn(world)
    V = model(world, before)
    changed = replace(TRAINING, factors=3, epsilon=4.0, epochs=5)
    other = replace(world.settings, training=changed)
    with pytest.raises(SettingsError, match=r"training\.epsilon.*2\.5.*server training begin"):
        world.add_worker(training=changed).server.tick()
    begun = begin_training(world.store, other, random_start=anew)
    assert begun.number == 2
    with pytest.raises(SettingsError, match="server training begin --cancel"):
        begin_training(world.store, other, random_start=anew)
    assert world.get_signed() == before
    world.apply(world.close_epoch())
    after = world.get_signed().manifest
    assert after.epoch == before.manifest.epoch + 1
    assert after.terms.training == begun.terms.training != before.manifest.terms.training
    assert (after.terms.factors, after.terms.epsilon, after.epochs_left) == (3, 4.0, 5)
    worse = before.manifest.terms.list_worse_terms(after.terms)
    assert worse[0] == "reports would go to another training"
    assert after.reports_behind == (0 if anew else before.manifest.reports_behind)
    inherited = model(world, world.get_signed())
    products = inherited.astype(np.float64) @ inherited.T.astype(np.float64)
    before_it = V.astype(np.float64) @ V.T.astype(np.float64)
    same = np.allclose(products, before_it, rtol=0, atol=1e-5 * np.abs(before_it).max())
    assert same is not anew, "in another basis, and with another factor, the same model"
    world.add_worker(training=changed).server.tick()


def test_a_training_that_has_not_begun_may_still_be_changed(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    learn(world)
    begun = begin_training(
        world.store,
        replace(world.settings, training=replace(TRAINING, factors=3)),
        random_start=False,
    )
    world.add_worker(training=replace(TRAINING, factors=3)).server.prepare()
    assert present(world.store).training == begun, "a worker with the same file changes nothing"
    assert "other settings" not in caplog.text
    later = world.add_worker(training=replace(TRAINING, factors=1))
    later.apply(later.close_epoch())
    assert "training 2, which has had no epoch yet, has other settings" in caplog.text
    terms = later.get_signed().manifest.terms
    assert terms.factors == 1
    assert terms.training != begun.terms.training


@pytest.mark.parametrize("begun", [False, True])
def test_settings_that_no_manifest_could_have_are_refused_at_the_start(
    make_world: MakeWorld, sqlite_url: str, begun: bool
) -> None:
    """Not when the epoch is closed already: then the server would fail at every beat."""
    world = make_world(sqlite_url)
    learn(world)
    if begun:
        begin_training(world.store, world.settings, random_start=False)
    small = world.add_worker(terms=replace(world.settings.terms, most_items=5))
    with pytest.raises(SettingsError, match=r"\b20\b.*\b5\b"):
        small.server.prepare()
    before = world.get_signed().manifest.epoch
    world.apply(world.close_epoch())
    assert world.get_signed().manifest.epoch == before + 1


def test_an_old_file_does_not_undo_a_training_that_was_begun(world: World) -> None:
    learn(world)
    changed = replace(TRAINING, epsilon=4.0)
    begun = begin_training(
        world.store, replace(world.settings, training=changed), random_start=False
    )
    with pytest.raises(SettingsError, match="server training begin --cancel"):
        world.add_worker().server.tick()
    assert cancel_training(world.store) == 1
    world.add_worker().server.tick()
    with pytest.raises(SettingsError, match=r"\b1\b"):
        cancel_training(world.store)
    world.apply(world.close_epoch())
    assert world.get_signed().manifest.terms.training != begun.terms.training


def test_an_epoch_that_waits_for_its_crowd_can_be_closed_and_never_before_its_time(
    world: World,
) -> None:
    world.server.tick()
    signed = world.get_signed()
    world.now = signed.manifest.closes - 61
    with pytest.raises(SettingsError, match="0:01:01"):
        close_epoch(world.store, world.now)
    world.now = signed.manifest.closes
    world.report_crowds(signed, east=CROWD_ENOUGH, west=CROWD_SHORT)
    assert world.get_state(1) == "open"
    assert close_epoch(world.store, world.now) == (1, {"east": CROWD_ENOUGH, "west": CROWD_SHORT})
    assert world.get_state(1) == "closed"
    with pytest.raises(SettingsError, match="closed already"):
        close_epoch(world.store, world.now)
    world.apply(signed)
    assert world.get_signed().manifest.epoch == 2


def test_a_restored_database_goes_beyond_what_others_have_seen(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    before = learn(world)
    epoch = before.manifest.epoch
    for seen in (None, epoch - 1, epoch, epoch + 2**20 + 2, 2**32 - 2, 2**32 - 1):
        with pytest.raises(SettingsError):
            go_beyond(world.store, seen, world.now, world.settings.proxies)
    ahead = Contact(57, bytes(32), None, world.now, None)
    with pytest.raises(RefusedError, match="go-beyond 57"):
        world.server.handle_contact("east", ahead)
    with pytest.raises(RefusedError):  # a liar
        world.server.handle_contact("west", replace(ahead, epoch=2**32 - 1))
    for _ in range(2):
        world.server.tick()
    assert caplog.text.count("it has seen epoch 57, and this database ends with 2") == 1
    for seen in (epoch + 1, 56, epoch + 2**20 + 2, 2**32 - 1):
        with pytest.raises(SettingsError, match=r"57\.\."):
            go_beyond(world.store, seen, world.now, world.settings.proxies)
    number, heard = go_beyond(world.store, None, world.now, world.settings.proxies)
    assert number == 58
    assert heard["east"].epoch == 57
    world.server.tick()
    after = world.get_signed().manifest
    assert (after.epoch, after.model) == (58, before.manifest.model)
    with world.store.read() as transaction:
        assert transaction.find_wrapped_key(epoch) is None
    world.apply(world.close_epoch())
    assert world.get_signed().manifest.epoch == 59
