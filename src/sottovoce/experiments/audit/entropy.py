"""Where the randomness comes from, and what must never become a report."""

from __future__ import annotations

import os
import select
import signal
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.errors import DivergedError
from sottovoce.experiments.audit.evidence import Fact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from sottovoce.experiments.audit.clients import Client, Maker
    from sottovoce.training import Settings

FRESH, FORK, FINITE = "fresh clients differ", "forked clients differ", "nothing but numbers"
N_ITEMS, LENGTH = 64, 256
"""With two factors or more, two honest reports agree with a chance of at most 1/2: for any
epsilon, so many agree with 2^-256."""
HISTORY = (3, 17, 40)
PATIENCE = 30.0
"""Seconds for a forked client to answer."""


def entropy_facts(make: Maker, settings: Settings) -> Iterator[Fact]:
    """Two clients never say the same by chance, forked or not, and NaN is refused."""
    wide = _at_least_two_factors(settings)
    V = _items(wide)
    one, other = make(wide, N_ITEMS), make(wide, N_ITEMS)
    pairs = {
        "two fresh clients": (_ask(one, V), _ask(other, V)),
        "one client, asked twice": (_ask(one, V), _ask(one, V)),
    }
    for who, (a, b) in pairs.items():
        yield _differ(settings, FRESH, who, a, b)
    if hasattr(os, "fork"):
        yield from fork_facts(make, wide, V)
    yield from finite_facts(make, wide, V)


def fork_facts(make: Maker, settings: Settings, V: NDArray[np.float32]) -> Iterator[Fact]:
    """Parent and two children, with a client from before the fork and with one from after it."""
    old = make(settings, N_ITEMS)
    for age in ("before", "after"):

        def speak(age: str = age) -> bytes:
            return _ask(old if age == "before" else make(settings, N_ITEMS), V)

        said = [in_fork(speak), in_fork(speak), speak()]
        for a, b, who in ((0, 1, "two children"), (0, 2, "child and parent")):
            what = f"{who}, client made {age} the fork"
            yield _differ(settings, FORK, what, said[a], said[b])


def finite_facts(make: Maker, settings: Settings, V: NDArray[np.float32]) -> Iterator[Fact]:
    """One bad number anywhere in V, in a touched item or in another: refused."""
    client = make(settings, N_ITEMS)
    for bad in (np.nan, np.inf, -np.inf):
        for item in (HISTORY[0], HISTORY[0] + 1):
            poisoned = V.copy()
            poisoned[item, 0] = bad
            touched = "touched" if item in HISTORY else "untouched"
            what, refused = _refusal(client, poisoned)
            yield Fact(settings.mechanism, FINITE, f"{bad} in an item {touched}: {what}", refused)


def in_fork(speak: Callable[[], bytes]) -> bytes:
    """What a forked copy of this process says; empty if it could not or took too long."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # Python warns of forks beside threads: the child below only asks the client and leaves.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        _say_and_leave(speak, writing)
    os.close(writing)
    said = _read(reading)
    os.close(reading)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return said


def _say_and_leave(speak: Callable[[], bytes], writing: int) -> None:
    """In the child: without handlers, buffers or anything else of the parent's."""
    try:
        os.write(writing, speak())
    finally:
        os._exit(0)


def _read(reading: int) -> bytes:
    parts = b""
    while select.select([reading], [], [], PATIENCE)[0]:
        part = os.read(reading, 1 << 16)
        if not part:
            return parts
        parts += part
    return b""


def _refusal(client: Client, V: NDArray[np.float32]) -> tuple[str, bool]:
    try:
        with np.errstate(all="ignore"):
            client(V, HISTORY, 4)
    except DivergedError:
        return "refused", True
    except Exception as error:  # a black box may raise anything
        return f"{type(error).__name__} instead of DivergedError", False
    return "reported", False


def _differ(settings: Settings, check: str, who: str, one: bytes, other: bytes) -> Fact:
    if not one or not other:
        return Fact(settings.mechanism, check, f"{who}: no answer", holds=False)
    same = one == other
    seen = f"{who}: {LENGTH} reports {'the same' if same else 'differ'}"
    return Fact(settings.mechanism, check, seen, not same)


def _ask(client: Client, V: NDArray[np.float32]) -> bytes:
    return np.asarray(client(V, HISTORY, LENGTH)).astype(np.uint32).tobytes()


def _items(settings: Settings) -> NDArray[np.float32]:
    """Any V will do."""
    stream = np.random.default_rng(0)
    return stream.normal(0, 0.1, (N_ITEMS, settings.factors)).astype(np.float32)


def _at_least_two_factors(settings: Settings) -> Settings:
    return replace(settings, factors=max(2, settings.factors), own={})
