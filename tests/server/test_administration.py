"""Learning without an end, one training after another, closed and restored epochs."""

from dataclasses import replace

import numpy as np
import pytest

from sottovoce.core.bounds import round_items
from sottovoce.errors import RefusedError, SettingsError
from sottovoce.protocol.contact import CROWD_ENOUGH, CROWD_SHORT, Contact
from sottovoce.server.administration import begin_training, cancel_training, close_epoch, go_beyond
from tests.server.changes import read_pending
from tests.server.world import TRAINING, MakeWorld, World


def test_a_training_without_an_end_goes_on_and_forgets(
    make_world: MakeWorld, sqlite_url: str
) -> None:
    settings = replace(TRAINING, half_life=1.0, lifetime=2, rotate=False, regularization=1e-12)
    world = make_world(sqlite_url, training=settings)
    world.run_epoch()
    for _ in range(settings.epochs + 2):
        V = world.load_model()
        signed = world.close_epoch()
        manifest = signed.manifest
        assert manifest.public_key is not None
        assert (manifest.epochs_left, manifest.terms.epochs) == (0, 2)
        assert manifest.terms.share == pytest.approx(2 / 3)
        world.apply(signed, world.make_chunk(signed, 200))
        estimate = manifest.build().estimate(world.get_sums(manifest.epoch), 200)
        expected = 0.5 * V.astype(np.float64) - settings.rate * estimate
        assert np.array_equal(world.load_model(), round_items(expected.astype(np.float32)))


@pytest.mark.parametrize("random_start", [False, True])
def test_another_training_follows_the_current_epoch(world: World, random_start: bool) -> None:
    # A running worker needs no restart. Devices ask their owners about every worse term.
    before = world.run_epoch()
    V = world.load_model(before)
    changed = replace(TRAINING, factors=3, epsilon=4.0, epochs=5)
    settings = replace(world.settings, training=changed)
    with pytest.raises(SettingsError, match=r"training\.epsilon.*2\.5.*server training begin"):
        world.add_worker(training=changed).server.tick()
    training = begin_training(world.store, settings, random_start=random_start)
    assert training.number == 2
    with pytest.raises(SettingsError, match="server training begin --cancel"):
        begin_training(world.store, settings, random_start=random_start)
    assert world.get_signed() == before
    world.apply(world.close_epoch())
    after = world.get_signed().manifest
    assert after.epoch == before.manifest.epoch + 1
    assert after.terms.training == training.terms.training != before.manifest.terms.training
    assert (after.terms.factors, after.terms.epsilon, after.epochs_left) == (3, 4.0, 5)
    worse = before.manifest.terms.list_worse_terms(after.terms)
    assert worse[0] == "reports would go to another training"
    assert after.reports_behind == (0 if random_start else before.manifest.reports_behind)
    # The same model has other vectors, in another basis and with another factor. They are rounded.
    inherited = world.load_model().astype(np.float64)
    products, products_before = inherited @ inherited.T, V.astype(np.float64) @ V.T
    tolerance = 0.02 * np.abs(products_before).max()
    is_same_model = np.allclose(products, products_before, rtol=0, atol=tolerance)
    assert is_same_model is not random_start
    world.add_worker(training=changed).server.tick()


def test_a_training_without_an_epoch_may_still_be_changed(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.run_epoch()
    settings = replace(world.settings, training=replace(TRAINING, factors=3))
    training = begin_training(world.store, settings, random_start=False)
    world.add_worker(training=settings.training).server.prepare()
    assert read_pending(world.store).training == training, "a worker with the same file"
    assert "other settings" not in caplog.text
    later = world.add_worker(training=replace(TRAINING, factors=1))
    later.apply(later.close_epoch())
    assert "training 2, which has had no epoch yet, has other settings" in caplog.text
    terms = later.get_signed().manifest.terms
    assert terms.factors == 1
    assert terms.training != training.terms.training


@pytest.mark.parametrize("begun", [False, True])
def test_settings_that_no_manifest_can_express_are_refused_at_the_start(
    make_world: MakeWorld, sqlite_url: str, begun: bool
) -> None:
    # Otherwise the server would fail at every tick after the epoch is closed.
    world = make_world(sqlite_url)
    world.run_epoch()
    if begun:
        begin_training(world.store, world.settings, random_start=False)
    worker = world.add_worker(terms=replace(world.settings.terms, max_items=5))
    with pytest.raises(SettingsError, match=r"\b20\b.*\b5\b"):
        worker.server.prepare()
    before = world.get_signed().manifest.epoch
    world.apply(world.close_epoch())
    assert world.get_signed().manifest.epoch == before + 1


def test_an_old_file_does_not_undo_a_training_that_was_begun(world: World) -> None:
    world.run_epoch()
    settings = replace(world.settings, training=replace(TRAINING, epsilon=4.0))
    training = begin_training(world.store, settings, random_start=False)
    with pytest.raises(SettingsError, match="server training begin --cancel"):
        world.add_worker().server.tick()
    assert cancel_training(world.store) == 1
    world.add_worker().server.tick()
    with pytest.raises(SettingsError, match=r"\b1\b"):
        cancel_training(world.store)
    world.apply(world.close_epoch())
    assert world.get_signed().manifest.terms.training != training.terms.training


def test_an_operator_closes_an_epoch_that_waits_but_never_before_its_time(world: World) -> None:
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
    before = world.run_epoch()
    epoch = before.manifest.epoch
    for seen in (None, epoch - 1, epoch, epoch + 2**20 + 2, 2**32 - 2, 2**32 - 1):
        with pytest.raises(SettingsError):
            go_beyond(world.store, seen, world.now, world.settings.proxies)
    ahead = Contact(57, bytes(32), None, world.now, None)
    with pytest.raises(RefusedError, match="go-beyond 57"):
        world.server.handle_contact("east", ahead)
    # An attacker.
    with pytest.raises(RefusedError):
        world.server.handle_contact("west", replace(ahead, epoch=2**32 - 1))
    for _ in range(2):
        world.server.tick()
    assert caplog.text.count("it has seen epoch 57, but epoch 2 is the last one in this") == 1
    for seen in (epoch + 1, 56, epoch + 2**20 + 2, 2**32 - 1):
        with pytest.raises(SettingsError, match=r"57\.\."):
            go_beyond(world.store, seen, world.now, world.settings.proxies)
    number, contacts = go_beyond(world.store, None, world.now, world.settings.proxies)
    assert number == 58
    assert contacts["east"].epoch == 57
    world.server.tick()
    after = world.get_signed().manifest
    assert (after.epoch, after.model) == (58, before.manifest.model)
    with world.store.read() as transaction:
        assert transaction.find_wrapped_key(epoch) is None
    world.apply(world.close_epoch())
    assert world.get_signed().manifest.epoch == 59
