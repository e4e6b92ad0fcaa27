"""Who watches films in a soak, and what its service went through once more in the simulator."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.core import Histories, count_reports, sums_of, user_vectors
from sottovoce.protocol import Item
from sottovoce.server.catalogue import moved_rows
from sottovoce.simulation.engines import build_engine
from sottovoce.training import first_items, inherited_items, next_items
from sottovoce.training.counts import capped

if TYPE_CHECKING:
    from random import Random

    from numpy.typing import NDArray

    from sottovoce.data import Interactions
    from sottovoce.protocol import Catalogue
    from sottovoce.server.training import Training

    Float32 = NDArray[np.float32]

TOP = 10
RUNS = 60
_APART = 10**6
"""More people than any soak has: reports are a function of a person's number."""


@dataclass(frozen=True)
class Viewer:
    """Somebody whom models are tested on, whether they have a device or not."""

    films: list[str]
    """All that they may touch in their life."""
    test: str
    """Never touched: what a model should guess."""


@dataclass(frozen=True)
class Happened:
    """One epoch: all that a simulator needs to go through it again."""

    training: Training
    catalogue: Catalogue
    histories: list[list[str]]
    """Of those whose reports were counted."""


def films_of(data: Interactions) -> list[Item]:
    """For a catalogue."""
    return [Item(number, title, tags) for number, title, tags in data.described()]


def viewers_of(data: Interactions, rng: Random) -> list[Viewer]:
    found = []
    for person in range(data.histories.n_users):
        films = [str(data.item_ids[row]) for row in data.histories[person]]
        rng.shuffle(films)
        found.append(Viewer(films[1:], films[0]))
    return found


def check_hit_ratio(
    V: Float32, happened: list[Happened], viewers: list[Viewer], width: float
) -> None:
    """The live model guesses as well as simulated ones; with its rows shuffled it would not.

    Within `width` standard deviations of the simulated runs, that is. Given who reported in which
    epoch, the live model is one draw more of what they draw: all differ in their coins alone.
    """
    last = happened[-1]
    found = hit_ratio(V, last, viewers)
    runs = [hit_ratio(simulated(happened, run), last, viewers) for run in range(RUNS)]
    low, high = np.mean(runs) + width * np.std(runs, ddof=1) * np.array([-1, 1])
    rng = np.random.default_rng(0)
    chance = np.mean([hit_ratio(rng.permutation(V), last, viewers) for _ in range(RUNS)])
    said = f"HR@10 {found:.3f}, simulated {low:.3f} to {high:.3f}, rows shuffled {chance:.3f}"
    assert low <= found <= high, said
    assert chance < low, said


def simulated(happened: list[Happened], run: int) -> Float32:
    """The model after the same epochs; every run has other coins."""
    before, done = happened[0], 0
    V = first_items(before.training.settings, len(before.catalogue.items))
    for number, now in enumerate(happened):
        V = moved_rows(V, before.catalogue.items, now.catalogue.items)
        settings = now.training.settings
        if now.training.number != before.training.number:
            V, done = inherited_items(V, settings), 0
        mechanism = now.training.mechanism(len(now.catalogue.items))
        # Whose turn it was is known: to the engine all of them take part.
        everybody = replace(settings, lifetime=0)
        people = _people(now.catalogue, now.histories)
        with build_engine("cpu", people, everybody, first_user=run * _APART, threads=1) as engine:
            engine.mechanism = mechanism  # as it was agreed to, for fewer items or for more
            reports = engine.reports(V, number)
        counts = capped(count_reports(reports, mechanism.n_directions), mechanism.event(1, 1))
        done += 1
        V = next_items(V, sums_of(counts), int(counts.sum()), done, settings, mechanism)
        before = now
    return V


def hit_ratio(V: Float32, last: Happened, viewers: list[Viewer]) -> float:
    """HR@10 among all films that somebody has not touched, for the one that they will."""
    numbers = last.catalogue.numbers
    tested = [viewer for viewer in viewers if viewer.test in numbers]
    people = _people(last.catalogue, [viewer.films for viewer in tested])
    settings = last.training.settings
    X = user_vectors(V, people, alpha=settings.alpha, regularization=settings.user_ridge(V))
    scores = X @ V.T
    wanted = [scores[row, numbers[viewer.test]] for row, viewer in enumerate(tested)]
    for row in range(len(tested)):
        scores[row, people[row]] = -np.inf
    return float(np.mean((scores > np.array(wanted)[:, None]).sum(axis=1) < TOP))


def _people(catalogue: Catalogue, histories: list[list[str]]) -> Histories:
    """As far as the catalogue knows what they touched."""
    numbers = catalogue.numbers
    rows = [sorted(numbers[item] for item in each if item in numbers) for each in histories]
    return Histories.from_lists(rows, len(numbers))
