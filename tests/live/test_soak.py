"""200 epochs of a service that lives: nothing lost, nothing twice, and it learns as simulated."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from sottovoce.mechanism import count_reports, sums_of
from sottovoce.model import Histories, user_vectors
from sottovoce.protocol import Catalogue, decode_items
from sottovoce.server.catalogues import moved_rows
from sottovoce.training import first_items, inherited_items, next_items
from sottovoce.training.counts import capped
from tests.crash import make_mortal
from tests.live.soak import Device, Happened, Soak

if TYPE_CHECKING:
    from numpy.typing import NDArray

EPOCHS, PEOPLE = 200, 40
FIRST_DAY = 12
SEEDS = 6
TOP = 10


def live(soak: Soak) -> None:
    """The story: what happens in which epoch."""
    for _ in range(FIRST_DAY):
        soak.join()
    for number in range(EPOCHS):
        if number in (15, 60, 140):
            soak.add_items()
        if number % 40 == 30:
            soak.retire_item()
            soak.rename_item()
        if number in (50, 150):
            soak.rotate()
        if number == 100:
            soak.begin_training()
        if number % 10 == 3:
            soak.join()
        if number % 20 == 11:
            soak.leave()
        soak.touch()
        soak.kill()
        soak.epoch()


def simulated(happened: list[Happened], seed: int) -> NDArray[np.float32]:
    """The same epochs with other coins, by the equations alone."""
    rng = np.random.default_rng(seed)
    before, done = happened[0], 0
    V = first_items(before.training.settings, len(before.catalogue.items))
    for now in happened:
        V = moved_rows(V, before.catalogue.items, now.catalogue.items)
        settings = now.training.settings
        if now.training.number != before.training.number:
            V, done = inherited_items(V, settings), 0
        mechanism = now.training.mechanism(len(now.catalogue.items))
        numbers = now.catalogue.numbers
        rows = [[numbers[item] for item in items if item in numbers] for items in now.histories]
        people = Histories.from_lists([sorted(each) for each in rows], len(numbers))
        X = user_vectors(V, people, alpha=settings.alpha, regularization=settings.user_ridge(V))
        words = rng.integers(0, 2**64, (len(rows), settings.reports + 1, 4), dtype=np.uint64)
        reports = mechanism.reports(V, X, people, words)
        counts = capped(count_reports(reports, mechanism.n_directions), mechanism.event(1, 1))
        done += 1
        V = next_items(V, sums_of(counts), int(counts.sum()), done, settings, mechanism)
        before = now
    return V


def hits(
    V: NDArray[np.float32], catalogue: Catalogue, devices: list[Device], alpha: float
) -> float:
    """HR@10 of all films that somebody has not touched, for the one that they will."""
    numbers, found = catalogue.numbers, []
    for device in devices:
        if device.test not in numbers:
            continue
        rows = sorted(numbers[item] for item in device.films if item in numbers)
        people = Histories.from_lists([rows], len(numbers))
        scores = V @ user_vectors(V, people, alpha=alpha, regularization=1e-6)[0]
        scores[rows] = -np.inf
        found.append((scores > scores[numbers[device.test]]).sum() < TOP)
    return float(np.mean(found))


@pytest.mark.slow
def test_a_service_that_lives(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logging.disable()
    make_mortal(monkeypatch)
    soak = Soak(folder, seed=0, people=PEOPLE)
    try:
        live(soak)
        soak.check_ledgers()
        signed = soak.signed()
        manifest = signed.manifest
        assert manifest.epoch == EPOCHS + 1
        assert len(signed.statements) == 2
        assert soak.discarded < EPOCHS / 10
        first_day = [d for d in soak.devices if d.joined == 1]
        assert any(max(d.made) > EPOCHS - 10 for d in first_day), "they still take part"
        assert sum(part.lives - 1 for part in [*soak.proxies.values(), soak.server]) > 20
        last = soak.happened[-1]
        with soak._looking() as store, store.read() as transaction:
            content = transaction.file(manifest.model, "model") or b""
        V = decode_items(content, manifest.items, manifest.terms.factors)
        devices = [*soak.devices, *soak.gone]
        alpha = last.training.settings.alpha
        found = hits(V, last.catalogue, devices, alpha)
        others = [
            hits(simulated(soak.happened, seed), last.catalogue, devices, alpha)
            for seed in range(SEEDS)
        ]
        # All coins are of fixed seeds: this is the same in every run.
        assert abs(found - np.mean(others)) < 4 * np.std(others)
        assert np.std(others) < 0.1
    finally:
        soak.close()
        logging.disable(logging.NOTSET)
