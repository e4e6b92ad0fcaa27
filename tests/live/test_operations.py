"""Nothing lost, nothing twice: hundreds of lists of operations; and proof that they would tell."""

import itertools
import logging
import os
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
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
from tests.live.conftest import quick_folder
from tests.live.operations import Templates, run_list

LISTS = int(os.environ.get("SOTTOVOCE_LISTS", "100"))
"""How many are played; `make nightly` plays more of the same sequence."""
AT_ONCE = 25
ENOUGH = 100
"""Lists within which each planted bug must be found."""


def play(seeds: range) -> Counter[str]:
    """Play lists of operations in a process of its own; return how often each thing happened."""
    logging.disable()
    seen: Counter[str] = Counter()
    with pytest.MonkeyPatch.context() as patch, quick_folder() as folder:
        make_mortal(patch)
        templates = Templates(folder)
        for seed in seeds:
            run = run_list(seed, templates)
            seen["acknowledged"] += run.sent_batches.n_acknowledged()
            seen["deaths"] += sum(part.lives - 1 for part in run.parts())
            seen["epochs"] += run.epochs
            seen["late"] += run.late
            seen["dummies"] += run.mixed_in
            seen["synced"] += len(run.clients)
    return seen


@pytest.mark.slow
def test_nothing_lost_and_nothing_twice() -> None:
    shares = [range(at, min(at + AT_ONCE, LISTS)) for at in range(0, LISTS, AT_ONCE)]
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as workers:
        seen = sum(workers.map(play, shares), Counter[str]())
    # Not one of the lists may be empty words: all this must have happened, and often.
    assert seen["acknowledged"] > LISTS
    assert seen["deaths"] > LISTS / 3
    assert seen["epochs"] > LISTS / 2
    assert seen["synced"] > LISTS / 3
    assert seen["late"]
    assert seen["dummies"] > LISTS / 2


# Bugs that the lists must find


def hasty_proxy(patch: pytest.MonkeyPatch) -> None:
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


def credulous_server(patch: pytest.MonkeyPatch) -> None:
    """Trust the proxy's word for its crowd, although reports that do not open are part of it."""

    def all_of_them(counts: dict[str, Any], manifest: Manifest, _: object) -> tuple[Any, int, int]:
        total = sum(counts.values(), np.zeros(2 * manifest.build().n_directions, np.int64))
        return total, 0, manifest.terms.dummies * len(counts)

    patch.setattr("sottovoce.server.publisher.sum_crowds", all_of_them)


def counts_again(patch: pytest.MonkeyPatch) -> None:
    """Forget which chunks and reports were counted."""
    add, numbers = Transaction.add_chunk, itertools.count()

    def under_another_name(self: Transaction, epoch: int, name: str, *rest: Any) -> None:
        add(self, epoch, f"{next(numbers)}-{name}", *rest)

    patch.setattr(Transaction, "has_chunk", lambda *_: False)
    patch.setattr(Transaction, "add_chunk", under_another_name)
    patch.setattr(KeySet, "contains", lambda _, keys: np.zeros(len(keys), bool))


def client_without_memory(patch: pytest.MonkeyPatch) -> None:
    """Neither store nor charge what the client makes."""
    patch.setattr(ClientStore, "save_batch", lambda *_: "saved")
    patch.setattr(ClientStore, "get_batch_state", lambda *_: "charged")


def proxy_without_memory(patch: pytest.MonkeyPatch) -> None:
    """Forget which dummies were drawn, and draw all that are due at every tick."""
    patch.setattr(BatchTables, "count_dummies", lambda _: 0)


STUCK = "the system is stuck"
TWICE = "counted twice"
LOST = "lost what it acknowledged"
TOO_FEW = "from nowhere or from too few"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bug", "verdict"),
    [
        (hasty_proxy, LOST),
        (credulous_server, TOO_FEW),
        (counts_again, f"{TWICE}|{STUCK}"),  # stuck: more chunks than the proxy says there are
        (proxy_without_memory, f"{STUCK}|reports changed"),
        (client_without_memory, "made two batches in one epoch|sent what it did not charge"),
    ],
)
def test_the_lists_find(
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
    assert "\n  east" in str(error.value), "the list is told"


def play_some(templates: Templates) -> None:
    for seed in range(ENOUGH):
        run_list(seed, templates)
