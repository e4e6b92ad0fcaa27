"""Facts about a client's randomness, and about histories for which it might not report."""

import os
import select
import signal
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.bounds import MAX_ALPHA, MAX_ITEM_ENTRY, MIN_ITEM_ENTRY, MIN_RIDGE
from sottovoce.training import Settings
from sottovoce_lab.audit.clients import Client, ClientFactory
from sottovoce_lab.audit.evidence import Fact

# Names of the checks.
FRESH_CLIENTS_CHECK = "fresh clients differ"
FORKED_CLIENTS_CHECK = "forked clients differ"
NEVER_SILENT_CHECK = "reports for every model and history"
# Number of reports of each client that are compared. With two or more factors, two honest reports
# are equal with probability 1/2 or less for any epsilon. So all pairs of reports are equal with
# probability 2^-256 or less.
COMPARED_REPORTS = 256
# Number of items of the catalogue in all tests.
CATALOGUE_SIZE = 64
# Items of the person who reports.
TEST_HISTORY = (3, 17, 40)
# A forked client that does not answer within this time has failed.
FORK_TIMEOUT_SECONDS = 30.0


def gather_facts(make: ClientFactory, settings: Settings) -> Iterator[Fact]:
    """Check that two clients never make the same reports, and that none stops reporting."""
    settings = replace(settings, factors=max(2, settings.factors), options={})
    # These checks hold for any V.
    rng = np.random.default_rng(0)
    V = rng.normal(0, 0.1, (CATALOGUE_SIZE, settings.factors)).astype(np.float32)
    one, other = make(settings, CATALOGUE_SIZE), make(settings, CATALOGUE_SIZE)
    pairs = {
        "two fresh clients": (_ask(one, V), _ask(other, V)),
        "one client, asked twice": (_ask(one, V), _ask(one, V)),
    }
    for name, (a, b) in pairs.items():
        yield _check_differ(settings, FRESH_CLIENTS_CHECK, name, a, b)
    if hasattr(os, "fork"):
        yield from check_forks(make, settings, V)
    yield from check_hostile_models(make, settings, V)


def check_forks(make: ClientFactory, settings: Settings, V: NDArray[np.float32]) -> Iterator[Fact]:
    """Check that a parent and two forked children make different reports.

    This is tested with clients that are made before the fork and with clients made after it.
    """
    old = make(settings, CATALOGUE_SIZE)
    for age in ("before", "after"):

        def make_reports(age: str = age) -> bytes:
            return _ask(old if age == "before" else make(settings, CATALOGUE_SIZE), V)

        answers = [run_in_fork(make_reports), run_in_fork(make_reports), make_reports()]
        for a, b, who in ((0, 1, "two children"), (0, 2, "child and parent")):
            name = f"{who}, client made {age} the fork"
            yield _check_differ(settings, FORKED_CLIENTS_CHECK, name, answers[a], answers[b])


def check_hostile_models(
    make: ClientFactory, settings: Settings, V: NDArray[np.float32]
) -> Iterator[Fact]:
    """Check that a client reports for every history and for any model that a server may publish.

    A client must not stop if its user vector is not finite. Otherwise a server could publish a
    model that makes this happen for one item, and learn from missing reports who touched it.
    """
    hostile = replace(settings, regularization=MIN_RIDGE, alpha=MAX_ALPHA)
    client = make(hostile, CATALOGUE_SIZE)
    item = TEST_HISTORY[0]
    for name, model in _make_hostile_models(V, item).items():
        for history in (TEST_HISTORY, TEST_HISTORY[1:], ()):
            outcome, reported = _try_to_report(client, model, history)
            touched = "touched" if item in history else "untouched"
            seen = f"{name}, item {touched}: {outcome}"
            yield Fact(settings.mechanism, NEVER_SILENT_CHECK, seen, reported)


def _make_hostile_models(V: NDArray[np.float32], item: int) -> dict[str, NDArray[np.float32]]:
    """Return singular models, and models in which one item is special."""

    def make_single_entry(entry: float) -> NDArray[np.float32]:
        model = V.copy()
        model[:, 0] = 0
        model[item, 0] = entry
        return model

    return {
        "nothing but zeros": np.zeros_like(V),
        "all factors equal and huge": np.full_like(V, MAX_ITEM_ENTRY),
        "one item in a factor, tiny": make_single_entry(MIN_ITEM_ENTRY),
        "one item in a factor, subnormal": make_single_entry(1e-40),
        "one item in a factor, huge": make_single_entry(MAX_ITEM_ENTRY),
        "an item of zeros": np.where(np.arange(len(V))[:, None] == item, 0, V),
    }


def run_in_fork(make_reports: Callable[[], bytes]) -> bytes:
    """Return the reports that a forked process makes; empty if it fails or takes too long."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # Python warns of forks in processes with threads. The child only asks the client and exits.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            os.write(writing, make_reports())
        finally:
            # Exit without running the parent's exit handlers and without flushing its buffers.
            os._exit(0)
    os.close(writing)
    answer = _read_all(reading)
    os.close(reading)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return answer


def _read_all(reading: int) -> bytes:
    parts = b""
    while select.select([reading], [], [], FORK_TIMEOUT_SECONDS)[0]:
        part = os.read(reading, 1 << 16)
        if not part:
            return parts
        parts += part
    return b""


def _try_to_report(
    client: Client, V: NDArray[np.float32], history: Sequence[int]
) -> tuple[str, bool]:
    """Ask for four reports; return a description of the result, and whether there are four."""
    try:
        with np.errstate(all="ignore"):
            n_reports = len(client(V, history, 4))
    except Exception as error:  # a black box may raise anything
        return type(error).__name__, False
    return f"{n_reports} reports", n_reports == 4


def _check_differ(settings: Settings, check: str, name: str, one: bytes, other: bytes) -> Fact:
    if not one or not other:
        return Fact(settings.mechanism, check, f"{name}: no answer", holds=False)
    outcome = "the same" if one == other else "differ"
    seen = f"{name}: {COMPARED_REPORTS} reports {outcome}"
    return Fact(settings.mechanism, check, seen, one != other)


def _ask(client: Client, V: NDArray[np.float32]) -> bytes:
    return np.asarray(client(V, TEST_HISTORY, COMPARED_REPORTS)).astype(np.uint32).tobytes()
