"""The contract of the server, on every database: each report counts once, each epoch is applied
once, and what is over is over.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from sottovoce.core import sum_signs
from sottovoce.errors import (
    ClosedError,
    NotFoundError,
    ProtocolError,
    RefusedError,
    SettingsError,
    StoreError,
    TooEarlyError,
    UnavailableError,
)
from sottovoce.protocol import (
    SEALED,
    decode_items,
    encode_items,
    new_epoch_key,
    public_key_of,
    seal_reports,
)
from sottovoce.protocol.batch import ENOUGH
from sottovoce.server import Keys
from sottovoce.server.epochs import LONGEST
from sottovoce.training import DEFAULT, Settings, first_items, next_items, presets
from tests.server.world import ITEMS, TRAINING, World, chunk_of, chunks_of, sealed

if TYPE_CHECKING:
    from tests.server.conftest import MakeWorld


def test_the_first_epoch_is_opened_with_the_first_model(world: World) -> None:
    with pytest.raises(StoreError):
        world.signed()
    world.server.prepare()
    with pytest.raises(UnavailableError, match="no manifest yet"):
        world.signed()
    world.server.tick()
    manifest = world.signed().manifest
    assert (manifest.epoch, manifest.opens, manifest.closes) == (1, 1000, 1100)
    assert (manifest.reports_behind, manifest.epochs_left) == (0, TRAINING.epochs)
    model = world.server.model(manifest.model)
    assert model == encode_items(first_items(TRAINING, ITEMS))
    assert world.server.catalogue(manifest.catalogue) == world.settings.catalogue.read_bytes()
    assert world.server.catalogue(manifest.model) is None
    before = world.signed().encode()
    world.server.tick()
    assert world.signed().encode() == before


def test_sums_are_the_sums_of_signs(world: World) -> None:
    signed = world.closed()
    reports = world.reports(300)
    for chunk in chunks_of(sealed(reports, signed), signed, 70):
        assert world.send("east", chunk) is True
    assert np.array_equal(world.sums(1), sum_signs(reports, world.n_directions()))
    assert world.counts(1) == (5, 300, 0, 0)


def test_a_chunk_counts_once_and_duplicates_once(world: World) -> None:
    signed = world.closed()
    reports = world.reports(60)
    data = sealed(reports, signed)
    first = chunk_of(data[: 40 * SEALED] + data[: 10 * SEALED], signed)  # ten twice in one chunk
    second = chunk_of(data[20 * SEALED :], signed)  # twenty again in another
    other_worker = world.another()
    assert world.send("east", first) is True
    assert world.send("east", first) is False
    assert other_worker.send("west", second) is True
    assert other_worker.send("east", first) is False
    assert world.send("west", second) is False
    assert np.array_equal(world.sums(1), sum_signs(reports, world.n_directions()))
    assert world.counts(1) == (2, 60, 30, 0)


def test_what_does_not_open_is_counted_and_does_no_harm(world: World) -> None:
    """Another key, another epoch, a damaged byte, noise, a direction that is not there."""
    signed = world.closed()
    reports = world.reports(10)
    good = sealed(reports, signed)
    other_key = seal_reports(reports, public_key_of(new_epoch_key()), signed.hash)
    assert signed.manifest.public_key is not None
    other_epoch = seal_reports(reports, signed.manifest.public_key, bytes(32))
    beyond = sealed(np.array([2 * world.n_directions()], np.uint32), signed)
    damaged = bytearray(sealed(reports[:1], signed))
    damaged[-1] ^= 1
    noise = np.random.default_rng(0).bytes(5 * SEALED)
    everything = other_key + good + other_epoch + bytes(damaged) + beyond + noise + bytes(SEALED)
    assert world.send("east", chunk_of(everything, signed)) is True
    assert world.counts(1) == (1, 10, 0, 28)
    assert np.array_equal(world.sums(1), sum_signs(reports, world.n_directions()))


def test_a_report_of_an_earlier_epoch_never_counts_again(world: World) -> None:
    first = world.closed()
    data = sealed(world.reports(5), first)
    world.apply(first, chunk_of(data, first))
    second = world.closed()
    assert second.manifest.epoch == 2
    assert world.send("east", chunk_of(data, second)) is True
    assert world.counts(2) == (1, 0, 0, 5)


def test_chunks_are_refused_with_the_reason(world: World) -> None:
    world.server.tick()
    signed = world.signed()
    chunk = world.chunk(signed, 3)
    with pytest.raises(TooEarlyError, match="epoch 1 is still open"):
        world.send("east", chunk)
    with pytest.raises(TooEarlyError):
        world.commit("east", signed)
    world.closed()
    with pytest.raises(RefusedError, match="no proxy is called 'north'"):
        world.send("north", chunk)
    with pytest.raises(ProtocolError, match="name is not the SHA-256"):
        world.server.take_chunk("east", 1, "0" * 64, chunk.encode())
    with pytest.raises(ProtocolError, match="of epoch 1, sent to 2"):
        world.server.take_chunk("east", 2, chunk.name, chunk.encode())
    with pytest.raises(NotFoundError, match="no epoch 7"):
        world.send("east", replace(chunk, epoch=7))
    with pytest.raises(RefusedError, match="has the manifest"):
        world.send("east", replace(chunk, manifest_hash=bytes(32)))
    for broken in (b"", b"SVC2", chunk.encode()[:-1], chunk.encode() + b"x"):
        with pytest.raises(ProtocolError):
            world.server.take_chunk("east", 1, hashlib.sha256(broken).hexdigest(), broken)
    assert world.counts(1) == (0, 0, 0, 0)
    world.apply(signed)
    with pytest.raises(ClosedError, match="epoch 1 is over"):
        world.send("east", chunk)
    with pytest.raises(ClosedError):
        world.server.commit("east", 1, signed.hash, 1, 3)


def test_a_commit_must_name_what_was_received(world: World) -> None:
    signed = world.closed()
    chunks = chunks_of(sealed(world.reports(12), signed), signed, 6)
    world.send("east", chunks[0])
    with pytest.raises(RefusedError, match="received 1 chunks with 6 reports of epoch 1, not 2"):
        world.commit("east", signed, chunks)
    with pytest.raises(RefusedError, match="has the manifest"):
        world.server.commit("east", 1, bytes(32), 1, 6)
    with pytest.raises(NotFoundError):
        world.server.commit("east", 5, signed.hash, 0, 0)
    world.send("east", chunks[1])
    world.commit("east", signed, chunks)
    world.commit("east", signed, chunks)
    assert world.send("east", chunks[0]) is False
    late = chunk_of(sealed(world.reports(2, seed=9), signed), signed)
    with pytest.raises(RefusedError, match="has committed"):
        world.send("east", late)
    world.server.tick()
    assert world.signed().manifest.epoch == 1, "west is still waited for"
    world.commit("west", signed)
    world.server.tick()
    assert world.signed().manifest.epoch == 2
    world.commit("east", signed, chunks)  # the answer was lost: the same again is well


def test_applying_is_the_papers_update_and_the_last_manifest_asks_for_nothing(
    world: World,
) -> None:
    plan = TRAINING
    V = first_items(plan, ITEMS)
    for epoch in range(1, plan.epochs + 1):
        signed = world.closed()
        assert signed.manifest.epoch == epoch
        assert signed.manifest.epochs_left == plan.epochs - epoch + 1
        reports = world.reports(200, seed=epoch)
        chunk = chunk_of(sealed(reports, signed), signed)
        world.apply(signed, chunk)
        mechanism = signed.manifest.build()
        sums = sum_signs(reports, mechanism.n_directions)
        V = next_items(V, sums, 200, epoch, plan, mechanism)
        manifest = world.signed().manifest
        assert manifest.reports_behind == 200
        content = world.server.model(manifest.model)
        assert content is not None
        assert np.array_equal(decode_items(content, ITEMS, plan.factors), V)
        assert manifest.regularization == plan.user_ridge(V)
        assert signed.manifest.regularization != manifest.regularization
    assert world.signed().manifest.public_key is None
    assert world.signed().manifest.epochs_left == 0
    assert world.server.waiting("east", plan.epochs + 1, ENOUGH) == "applied"
    last = world.signed().encode()
    world.now += 10_000
    world.server.tick()
    assert world.signed().encode() == last
    more = replace(TRAINING, epochs=plan.epochs + 1)
    with pytest.raises(SettingsError, match=r"would have 4 epochs, not 3.*set training\.lif"):
        world.another(training=more).server.tick()
    longer = world.another(training=replace(more, lifetime=3))
    longer.server.tick()
    assert longer.signed().manifest.public_key is not None
    assert longer.signed().manifest.epochs_left == 1
    assert longer.signed().manifest.epoch == plan.epochs + 2


def test_an_epoch_without_reports_changes_nothing(world: World) -> None:
    first = world.closed()
    world.apply(first)
    second = world.signed().manifest
    assert (second.epoch, second.model, second.reports_behind) == (2, first.manifest.model, 0)
    assert second.epochs_left == first.manifest.epochs_left, "it is held again"
    assert second.public_key not in (None, first.manifest.public_key)
    assert world.server.epochs()[1].epochs_done == 0


def test_slow_proxies_are_waited_for_until_grace_is_over(world: World) -> None:
    signed = world.closed()
    chunk = world.chunk(signed, 9)
    world.send("east", chunk)
    world.commit("east", signed, [chunk])
    world.now += world.settings.grace_seconds - 1
    world.server.tick()
    assert world.signed().manifest.epoch == 1
    world.now += 1
    world.server.tick()
    assert world.signed().manifest.epoch == 2
    assert world.signed().manifest.reports_behind == 9


def test_grace_begins_anew_with_every_chunk_that_any_worker_counts(world: World) -> None:
    """A large epoch is not ended while it comes."""
    signed = world.closed()
    grace, other = world.settings.grace_seconds, world.another()
    for n, worker in enumerate((world, other, world)):
        world.now += grace - 1
        other.now = world.now
        worker.send("east", chunk_of(sealed(world.reports(9, n), signed), signed))
        for each in (world, other):
            each.server.tick()
        assert world.state(1) == "closed"
    other.now += grace
    other.server.tick()
    assert world.signed().manifest.reports_behind == 27


def test_a_chunk_that_is_known_brings_no_new_grace(world: World) -> None:
    signed = world.closed()
    chunk = world.chunk(signed, 9)
    world.send("east", chunk)
    world.now += world.settings.grace_seconds - 1
    assert world.send("east", chunk) is False
    assert world.send("west", chunk) is False
    world.now += 1
    world.server.tick()
    assert world.state(1) == "applied"


def test_a_proxy_that_is_silent_has_no_grace_from_another(world: World) -> None:
    signed = world.closed()
    world.now += world.settings.grace_seconds
    chunk = world.chunk(signed, 9)
    world.send("east", chunk)
    world.server.tick()
    assert world.state(1) == "closed"
    world.commit("east", signed, [chunk])
    world.server.tick()
    assert world.state(1) == "applied"


def test_a_proxy_that_drips_holds_no_epoch_for_ever(world: World) -> None:
    signed = world.closed()
    end = world.now + LONGEST * world.settings.grace_seconds
    sent = 0
    while world.now < end:
        assert world.state(1) == "closed"
        world.send("east", chunk_of(sealed(world.reports(1, sent), signed), signed))
        sent += 1
        world.now += world.settings.grace_seconds / 2
        world.server.tick()
    assert world.state(1) == "applied"
    assert world.signed().manifest.reports_behind == sent, "what came counts"


@pytest.mark.parametrize("name", ["epsilon", "reports", "factors", "seed", "learning_rate"])
def test_a_running_training_does_not_silently_change(world: World, name: str) -> None:
    world.server.tick()
    changed = {"epsilon": 3.0, "reports": 6, "factors": 3, "seed": 1, "learning_rate": 7.0}
    other = world.another(training=replace(TRAINING, **{name: changed[name]}))  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match=rf"training\.{name} was .* set it back"):
        other.server.tick()


def test_until_the_first_epoch_the_training_may_be_chosen_anew(world: World) -> None:
    world.server.prepare()
    other = world.another(training=Settings.preset("coordinate", factors=3))
    other.server.tick()
    terms = other.signed().manifest.terms
    assert (terms.mechanism, terms.factors) == ("coordinate", 3)
    again = world.another()
    with pytest.raises(SettingsError, match="set it back"):
        again.server.tick()


def test_the_keys_belong_to_the_database(world: World) -> None:
    world.server.tick()
    stranger = World(world.settings, Keys.generate())
    with pytest.raises(SettingsError, match="not in the keys file"):
        stranger.server.tick()
    stranger.close()


def test_what_may_change_holds_from_the_next_epoch(world: World) -> None:
    signed = world.closed()
    other = world.another(
        epoch_seconds=7, grace_seconds=0.0, terms=replace(world.settings.terms, least_clients=10)
    )
    other.server.tick()
    manifest = other.signed().manifest
    assert signed.manifest.terms.least_clients == 1
    assert (manifest.epoch, manifest.terms.least_clients) == (2, 10)
    assert manifest.closes - manifest.opens == 7
    assert manifest.terms.training == signed.manifest.terms.training


def test_settings_that_no_device_could_use_are_refused(world: World) -> None:
    other = world.another(training=Settings.preset(DEFAULT, factors=2000))
    with pytest.raises(SettingsError, match="factors"):
        other.server.prepare()
    missing = world.another(catalogue=world.settings.catalogue.parent / "nowhere.json")
    with pytest.raises(SettingsError, match=r"nowhere\.json: no catalogue"):
        missing.server.prepare()


@pytest.mark.parametrize("preset", presets())
def test_every_mechanism_is_served(make_world: MakeWorld, sqlite_url: str, preset: str) -> None:
    world = make_world(sqlite_url, training=Settings.preset(preset))
    signed = world.closed()
    chunk = world.chunk(signed, 20)
    assert world.send("east", chunk) is True
    assert world.counts(1) == (1, 20, 0, 0)
