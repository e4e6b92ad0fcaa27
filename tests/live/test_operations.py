"""Nothing is lost and nothing counts twice, in random lists of operations."""

import logging
import os
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from tests.crash import make_mortal
from tests.live.conftest import quick_folder
from tests.live.operations import Templates, run_list

# `make nightly` plays more lists of the same sequence.
N_LISTS = int(os.environ.get("SOTTOVOCE_LISTS", "60"))
LISTS_PER_PROCESS = 30


def play(seeds: range) -> Counter[str]:
    """Play lists of operations in a process of its own; return how often each thing happened."""
    logging.disable()
    counts: Counter[str] = Counter()
    with pytest.MonkeyPatch.context() as patch, quick_folder() as folder:
        make_mortal(patch)
        templates = Templates(folder)
        for seed in seeds:
            run = run_list(seed, templates)
            counts["acknowledged"] += run.sent_batches.count_acknowledged()
            counts["deaths"] += sum(part.lives - 1 for part in run.list_parts())
            counts["epochs"] += run.epochs
            counts["late"] += run.late
            counts["dummies"] += run.mixed_in
            counts["synced"] += len(run.clients)
    return counts


@pytest.mark.slow
def test_nothing_is_lost_and_nothing_counts_twice() -> None:
    starts = range(0, N_LISTS, LISTS_PER_PROCESS)
    shares = [range(start, min(start + LISTS_PER_PROCESS, N_LISTS)) for start in starts]
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as workers:
        counts = sum(workers.map(play, shares), Counter[str]())
    # The lists prove something only if all this has happened often.
    assert counts["acknowledged"] > N_LISTS
    assert counts["deaths"] > N_LISTS / 3
    assert counts["epochs"] > N_LISTS / 2
    assert counts["synced"] > N_LISTS / 3
    assert counts["late"]
    assert counts["dummies"] > N_LISTS / 2
