"""Counting a black-box client's reports on the tiny scenes: epsilon, chances, coins."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.training import Settings
from sottovoce_lab.audit.bounds import Count, related, surprise, unlike
from sottovoce_lab.audit.clients import Client, Maker, sample
from sottovoce_lab.audit.evidence import Evidence, Fact, Ratio, Surprise
from sottovoce_lab.audit.scenes import MANY, Scene, scenes

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
