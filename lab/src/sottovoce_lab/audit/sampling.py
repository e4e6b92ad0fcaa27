"""All that is asked of a black-box client: its reports counted, and its randomness."""

import os
import select
import signal
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.bounds import MAX_ALPHA, MAX_ITEM_ENTRY, MIN_ITEM_ENTRY, MIN_RIDGE
from sottovoce.training import Settings
from sottovoce_lab.audit.clients import MANY, Client, Maker, Scene, sample, scenes
from sottovoce_lab.audit.evidence import (
    Count,
    Evidence,
    Fact,
    Ratio,
    Surprise,
    related,
    surprise,
    unlike,
)

Ints = NDArray[np.int64]
Event = NDArray[np.bool_]
ONE, TWO = "epsilon of one report", "epsilon of two reports"
RANGE, STATED = "reports that exist", "every report as likely as stated"
SHARE, SILENT = "loud share as stated", "nothing known, nothing said"
PAIRS = "reports are independent"
LIKELIEST = 1e-6
"""Two density ratios this close are the same."""
MAX_PAIRS = 64
"""Every pair of values is an event of its own where there are no more than this."""


@dataclass(frozen=True, eq=False)
class Sample:
    """One scene's reports, calls x k, and what they should be distributed like."""

    scene: Scene
    first: Ints
    second: Ints
    densities: NDArray[np.float32]

    @property
    def size(self) -> int:
        """2D: how many reports there are to choose from."""
        return int(self.densities.shape[1])

    def single(self, reports: Ints) -> Ints:
        """Reports that have nothing in common: of a pair only the first."""
        return reports.ravel() if self.scene.per_call == MANY else reports[:, 0]


def gather(make: Maker, settings: Settings, samples: int) -> list[Evidence]:
    """Everything that counting shows of the clients made for these settings."""
    found: list[Evidence] = []
    for scene in scenes(settings):
        client = make(scene.settings, scene.n_items)
        drawn = draw(client, scene, samples)
        exist = _exist(drawn)
        found.append(exist)
        if exist.holds:  # else they cannot be counted
            found += [*single_ratios(drawn), *joint_ratios(drawn), *coins(drawn)]
            found += silence(drawn)
    return found


def draw(client: Client, scene: Scene, samples: int) -> Sample:
    """`samples` reports of each of the scene's two people."""
    calls, k = scene.calls(samples), scene.per_call
    return Sample(
        scene,
        sample(client, scene.V, scene.first, calls, k),
        sample(client, scene.V, scene.second, calls, k),
        scene.densities(),
    )


def single_ratios(drawn: Sample) -> Iterator[Ratio]:
    """Each value, each bit, and the event that tells the two people apart best."""
    values = np.arange(drawn.size)
    events = {f"report {value}": values == value for value in values}
    bits = (drawn.size - 1).bit_length()
    events |= {f"bit {bit}": values >> bit & 1 == 1 for bit in range(bits)}
    best, worst = _telling(drawn.densities)
    events |= {"first's loud": best, "second's loud": worst}
    epsilon = drawn.scene.settings.epsilon
    for name, event in events.items():
        first, second = (event[drawn.single(each)] for each in (drawn.first, drawn.second))
        yield _ratio(drawn, ONE, name, first, second, epsilon)


def joint_ratios(drawn: Sample) -> Iterator[Ratio]:
    """Pairs of reports of one call: two cost at most twice as much as one."""
    one, two = _pairs(drawn.first), _pairs(drawn.second)
    best, _ = _telling(drawn.densities)
    epsilon = 2 * drawn.scene.settings.epsilon
    for name, wanted in (("both first's loud", True), ("neither first's loud", False)):
        seen = [(best[each] == wanted).all(axis=1) for each in (one, two)]
        yield _ratio(drawn, TWO, name, seen[0], seen[1], epsilon)
    if drawn.size**2 > MAX_PAIRS:
        return
    codes = [each[:, 0] * drawn.size + each[:, 1] for each in (one, two)]
    for code in range(drawn.size**2):
        name = f"reports {divmod(code, drawn.size)}"
        yield _ratio(drawn, TWO, name, codes[0] == code, codes[1] == code, epsilon)


def coins(drawn: Sample) -> Iterator[Surprise]:
    """Every report has its stated chance, and no neighbour knows of it."""
    for who, reports, density in _people(drawn):
        is_loud = density > 1
        if not is_loud.any():  # everything ties, and one call has one order of ties
            continue
        chance = float(density[is_loud].sum(dtype=np.float64)) / drawn.size
        loud = is_loud[reports]
        share = surprise(_count(loud), chance)
        yield _surprise(drawn, SHARE, f"{who}: {loud.mean():.4f} of {chance:.4f}", share)
        yield _surprise(drawn, STATED, who, _as_stated(drawn, reports, density))
        yield _surprise(drawn, PAIRS, f"{who}'s coins", related(*_pairs(loud).T))
        yield _surprise(drawn, PAIRS, f"{who}'s reports", related(*_pairs(reports).T))


def _as_stated(drawn: Sample, reports: Ints, density: NDArray[np.float32]) -> float:
    chances = density.astype(np.float64)
    seen = np.bincount(reports.ravel(), minlength=drawn.size)
    return unlike(seen, chances / chances.sum())


def silence(drawn: Sample) -> Iterator[Surprise]:
    """Where nothing is known of somebody, every report is as likely as any other."""
    for who, reports, density in _people(drawn):
        if not (density > 1).any():
            seen = np.bincount(drawn.single(reports), minlength=drawn.size)
            yield _surprise(drawn, SILENT, who, unlike(seen, np.full(drawn.size, 1 / drawn.size)))


def _exist(drawn: Sample) -> Fact:
    """A report that nobody can make is impossible under every history."""
    both = np.concatenate([drawn.first.ravel(), drawn.second.ravel()])
    seen = f"{drawn.scene.name}: {both.min()}..{both.max()} of 0..{drawn.size - 1}"
    fine = bool(((both >= 0) & (both < drawn.size)).all())
    return Fact(drawn.scene.settings.mechanism, RANGE, seen, fine)


def _telling(densities: NDArray[np.float32]) -> tuple[Event, Event]:
    """The reports that speak most for the first person, and those most for the second."""
    ratio = np.log(densities[0].astype(np.float64) / densities[1])
    return ratio >= ratio.max() - LIKELIEST, ratio <= ratio.min() + LIKELIEST


def _people(drawn: Sample) -> list[tuple[str, Ints, NDArray[np.float32]]]:
    first, second = drawn.densities
    return [("first", drawn.first, first), ("second", drawn.second, second)]


def _pairs(reports: NDArray[Any]) -> NDArray[Any]:
    """Neighbours within a call, each report in one pair: independent of every other pair."""
    return reports.reshape(-1, 2)


def _count(event: Event) -> Count:
    return Count(int(event.sum()), event.size)


def _ratio(
    drawn: Sample, check: str, event: str, first: Event, second: Event, claim: float
) -> Ratio:
    name = f"{drawn.scene.name}: {event}"
    mechanism = drawn.scene.settings.mechanism
    return Ratio(mechanism, check, name, _count(first), _count(second), claim)


def _surprise(drawn: Sample, check: str, event: str, p_value: float) -> Surprise:
    return Surprise(drawn.scene.settings.mechanism, check, f"{drawn.scene.name}, {event}", p_value)


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
    hostile = replace(settings, regularization=MIN_RIDGE, alpha=MAX_ALPHA)
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
        "all factors equal and huge": np.full_like(V, MAX_ITEM_ENTRY),
        "an item alone in a factor, tiny": with_item_alone(MIN_ITEM_ENTRY),
        "an item alone in a factor, subnormal": with_item_alone(1e-40),
        "an item alone in a factor, huge": with_item_alone(MAX_ITEM_ENTRY),
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
