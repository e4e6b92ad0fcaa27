"""Slices, which the live system does not have: chance chooses a part of the items for each report.

A report names a direction of its slice alone. Slices have equally many blocks, or nearly, and in
each the same share of the directions is loud: for one person the law of a report is that of
`loudest`, over all slices. Here a simulation of it, for the study in
`sottovoce_lab.paper.sliced_shops`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.loudest import Loudest
from sottovoce.core.mechanism import pack_reports
from sottovoce.data.streams import stream
from sottovoce.simulation.interface import LocalEngine
from sottovoce.simulation.random_words import draw_participants

Float32 = NDArray[np.float32]
UInt32 = NDArray[np.uint32]
Int64 = NDArray[np.int64]
TOGETHER = 1 << 24
"""Directions that are looked at together, of all people."""


def slice_of(mechanism: Loudest, slices: int) -> Int64:
    """Of each direction. Blocks are dealt in their public order, which is random."""
    row = np.arange(mechanism.n_directions) // mechanism.shape.factors
    return np.asarray(row // mechanism.block % slices)


def sliced_reports(engine: LocalEngine, V: Float32, epoch: int, slices: int) -> UInt32:
    """What `engine.reports` gives, where every report has a slice of its own."""
    settings, everybody = engine.settings, np.arange(len(engine.people))
    takes = draw_participants(settings.seed, epoch, everybody, settings.turns, settings.epochs)
    vectors, chance = engine.solve_user_vectors(V), stream(settings.seed, "slice", epoch)
    parts = _parts(everybody[takes], engine.mechanism.n_directions)
    sent = [_of_these(engine, V, vectors[some], some, slices, chance) for some in parts]
    return np.concatenate([np.empty((0, settings.reports), np.uint32), *sent])


def _parts(people: Int64, directions: int) -> Iterator[Int64]:
    size = max(TOGETHER // directions, 1)
    for start in range(0, len(people), size):
        yield people[start : start + size]


def _of_these(
    engine: LocalEngine,
    V: Float32,
    X: Float32,
    people: Int64,
    slices: int,
    chance: np.random.Generator,
) -> UInt32:
    mechanism = engine.mechanism
    assert isinstance(mechanism, Loudest)
    a = mechanism.blocks.compute_rows(V, X, engine.histories.take(people))
    agreement = (np.abs(a)[:, :, None] * np.abs(X)[:, None, :]).reshape(len(people), -1)
    shape = (len(people), engine.settings.reports)
    chosen, part = chance.integers(slices, size=shape), slice_of(mechanism, slices)
    at_random, sent = chance.random(shape) < mechanism.gamma, np.empty(shape, np.uint32)
    for each in range(slices):
        inside = np.flatnonzero(part == each)
        loud = max(round(mechanism.loud * len(inside) / mechanism.n_directions), 1)
        who, which = np.nonzero(chosen == each)
        theirs, back = np.unique(who, return_inverse=True)
        best = np.argpartition(agreement[np.ix_(theirs, inside)], -loud, axis=1)[:, -loud:]
        index = inside[best[back, chance.integers(loud, size=len(who))]]
        row, factor = np.divmod(index, mechanism.shape.factors)
        named = pack_reports(index, (a[who, row] > 0) != (X[who, factor] > 0))
        anywhere = inside[chance.integers(len(inside), size=len(who))]
        uniform = pack_reports(anywhere, chance.random(len(who)) < 0.5)
        sent[who, which] = np.where(at_random[who, which], uniform, named)
    return sent
