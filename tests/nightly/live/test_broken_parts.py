"""The random lists of tests/live/test_operations.py notice bugs."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sottovoce.client.store import ClientStore
from sottovoce.protocol import Batch, Manifest
from sottovoce.proxy import Proxy
from sottovoce.proxy.epoch_files import BatchTables
from sottovoce.proxy.intake import Intake
from sottovoce.server.counting import KeySet
from sottovoce.server.transaction import Transaction
from tests.crash import make_mortal
from tests.live.operations import Templates, run_list

# Lists within which each bug must be noticed.
MAX_LISTS_PER_BUG = 100


def acknowledge_before_writing(patch: pytest.MonkeyPatch) -> None:
    """Acknowledge first, and write at the next tick."""
    store, tick = Intake.store_batches, Proxy.tick
    later: dict[int, list[Batch]] = {}

    def promise(self: Intake, batches: list[Batch]) -> list[None]:
        later.setdefault(id(self), []).extend(batches)
        return [None] * len(batches)

    def write_then_tick(self: Proxy) -> None:
        if waiting := later.pop(id(self.intake), []):
            store(self.intake, waiting)
        tick(self)

    patch.setattr(Intake, "store_batches", promise)
    patch.setattr(Proxy, "tick", write_then_tick)


def trust_every_crowd(patch: pytest.MonkeyPatch) -> None:
    """Trust the proxy's word for its crowd, although reports that do not open are part of it."""

    def sum_all(counts: dict[str, Any], manifest: Manifest, _: object) -> tuple[Any, int, int]:
        total = sum(counts.values(), np.zeros(2 * manifest.build().n_directions, np.int64))
        return total, 0, manifest.terms.dummies * len(counts)

    patch.setattr("sottovoce.server.publisher.sum_crowds", sum_all)


def forget_counted_reports(patch: pytest.MonkeyPatch) -> None:
    """Forget which chunks and reports were counted."""
    add, numbers = Transaction.add_chunk, itertools.count()

    def add_under_another_name(self: Transaction, epoch: int, name: str, *rest: Any) -> None:
        add(self, epoch, f"{next(numbers)}-{name}", *rest)

    patch.setattr(Transaction, "has_chunk", lambda *_: False)
    patch.setattr(Transaction, "add_chunk", add_under_another_name)
    patch.setattr(KeySet, "contains", lambda _, keys: np.zeros(len(keys), bool))


def forget_batches(patch: pytest.MonkeyPatch) -> None:
    """Neither store nor charge what the client makes."""
    patch.setattr(ClientStore, "save_batch", lambda *_: "saved")
    patch.setattr(ClientStore, "get_batch_state", lambda *_: "charged")


def forget_dummies(patch: pytest.MonkeyPatch) -> None:
    """Forget which dummies were drawn, and draw all that are due at every tick."""
    patch.setattr(BatchTables, "count_dummies", lambda _: 0)


# Patterns of errors.
STUCK_PATTERN = "the system is stuck"
TWICE_PATTERN = "counted twice"
LOST_PATTERN = "lost what it acknowledged"
TOO_FEW_PATTERN = "from nowhere or from too few"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bug", "verdict"),
    [
        (acknowledge_before_writing, LOST_PATTERN),
        (trust_every_crowd, TOO_FEW_PATTERN),
        # It is stuck if there are more chunks than the proxy says.
        (forget_counted_reports, f"{TWICE_PATTERN}|{STUCK_PATTERN}"),
        (forget_dummies, f"{STUCK_PATTERN}|reports changed"),
        (forget_batches, "made two batches in one epoch|sent what it did not charge"),
    ],
)
def test_broken_parts_are_noticed(
    bug: Callable[[pytest.MonkeyPatch], None],
    verdict: str,
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
) -> None:
    make_mortal(monkeypatch)
    bug(monkeypatch)
    templates = Templates(folder)
    with pytest.raises(AssertionError, match=rf"^list \d+: AssertionError.*({verdict})") as error:
        play_some(templates)
    assert "\n  east" in str(error.value), "the list is quoted"


def play_some(templates: Templates) -> None:
    for seed in range(MAX_LISTS_PER_BUG):
        run_list(seed, templates)
