"""200 epochs of a service that lives: nothing lost, nothing twice, and it learns as simulated."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from sottovoce.protocol import decode_items
from tests.crash import make_mortal
from tests.live.simulated import check_hit_ratio
from tests.live.soak import Soak

EPOCHS, PEOPLE = 200, 1000
FIRST_DAY = 12


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
        with soak._looking() as store, store.read() as transaction:
            content = transaction.file(manifest.model, "model") or b""
        V = decode_items(content, manifest.items, manifest.terms.factors)
        # All coins are of fixed seeds: this is the same in every run.
        check_hit_ratio(V, soak.happened, soak.viewers, width=4.0)
    finally:
        soak.close()
        logging.disable(logging.NOTSET)
