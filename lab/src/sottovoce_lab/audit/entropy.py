"""Where the randomness comes from, and that silence says nothing."""

from __future__ import annotations

import os
import select
import signal
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.bounds import LEAST_ENTRY, LEAST_RIDGE, MOST_ALPHA, MOST_ENTRY
from sottovoce.training import Settings
from sottovoce_lab.audit.clients import Client, Maker
from sottovoce_lab.audit.evidence import Fact

FRESH, FORK, SPEAKS = "fresh clients differ", "forked clients differ", "silence says nothing"
N_ITEMS, LENGTH = 64, 256
"""With two factors or more, two honest reports agree with a chance of at most 1/2: for any
epsilon, so many agree with 2^-256."""
HISTORY = (3, 17, 40)
PATIENCE = 30.0
"""Seconds for a forked client to answer."""


def entropy_facts(make: Maker, settings: Settings) -> Iterator[Fact]:
    """Two clients never say the same by chance, forked or not, and none falls silent."""
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
    yield from silence_facts(make, wide, V)


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


def silence_facts(make: Maker, settings: Settings, V: NDArray[np.float32]) -> Iterator[Fact]:
    """Whatever model a server may publish, every history gets as many reports as any other.

    Version 1 stopped where a user vector was not finite: a server could so ask, item by item, who
    had touched what, and was answered by silence.
    """
    hostile = replace(settings, regularization=LEAST_RIDGE, alpha=MOST_ALPHA)
    client = make(hostile, N_ITEMS)
    for name, model in _hostile_models(V).items():
        for history in (HISTORY, HISTORY[1:], ()):
            what, spoke = _spoken(client, model, history)
            touched = "touched" if HISTORY[0] in history else "untouched"
            yield Fact(settings.mechanism, SPEAKS, f"{name}, item {touched}: {what}", spoke)


def _hostile_models(V: NDArray[np.float32]) -> dict[str, NDArray[np.float32]]:
    """Singular and lopsided ones; the item is that of `HISTORY` which not everybody touched."""

    def with_item_alone(entry: float) -> NDArray[np.float32]:
        model = V.copy()
        model[:, 0] = 0
        model[HISTORY[0], 0] = entry
        return model

    return {
        "nothing but zeros": np.zeros_like(V),
        "all factors equal and huge": np.full_like(V, MOST_ENTRY),
        "an item alone in a factor, tiny": with_item_alone(LEAST_ENTRY),
        "an item alone in a factor, subnormal": with_item_alone(1e-40),
        "an item alone in a factor, huge": with_item_alone(MOST_ENTRY),
        "an item of zeros": np.where(np.arange(len(V))[:, None] == HISTORY[0], 0, V),
    }


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


def _spoken(client: Client, V: NDArray[np.float32], history: Sequence[int]) -> tuple[str, bool]:
    try:
        with np.errstate(all="ignore"):
            said = len(client(V, history, 4))
    except Exception as error:  # a black box may raise anything
        return type(error).__name__, False
    return f"{said} reports", said == 4


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
    return replace(settings, factors=max(2, settings.factors), options={})
