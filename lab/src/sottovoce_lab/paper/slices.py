"""Slices: each report is about a randomly chosen part of the items. The live system has no slices.

A report can only name a direction of its slice. Slices have about the same number of blocks, and
the same share of the directions is loud in each. So over all slices, a person's report has the same
distribution as in `loudest`. This is a simulation for `sottovoce_lab.paper.sliced_shops`.
"""

from __future__ import annotations

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
# Largest number of directions, of all people together, that are in memory at once.
MAX_DIRECTIONS_IN_MEMORY = 1 << 24


def assign_slices(mechanism: Loudest, slices: int) -> Int64:
    """Return the slice of each direction."""
    # Blocks are dealt to the slices in their public order, which is random.
    row = np.arange(mechanism.n_directions) // mechanism.shape.factors
    return np.asarray(row // mechanism.block % slices)


def draw_sliced_reports(engine: LocalEngine, V: Float32, epoch: int, slices: int) -> UInt32:
    """Return reports like `engine.list_reports`, with a slice drawn for every report."""
    settings, everybody = engine.settings, np.arange(len(engine.people))
    takes_part = draw_participants(settings.seed, epoch, everybody, settings.turns, settings.epochs)
    people = everybody[takes_part]
    vectors, chance = engine.solve_user_vectors(V), stream(settings.seed, "slice", epoch)
    size = max(MAX_DIRECTIONS_IN_MEMORY // engine.mechanism.n_directions, 1)
    parts = [np.empty((0, settings.reports), np.uint32)]
    for start in range(0, len(people), size):
        part = people[start : start + size]
        parts.append(_draw_reports(engine, V, vectors[part], part, slices, chance))
    return np.concatenate(parts)


def _draw_reports(
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
    slice_of_report = chance.integers(slices, size=shape)
    slice_of_direction = assign_slices(mechanism, slices)
    is_random, reports = chance.random(shape) < mechanism.gamma, np.empty(shape, np.uint32)
    for slice_number in range(slices):
        inside = np.flatnonzero(slice_of_direction == slice_number)
        loud = max(round(mechanism.loud * len(inside) / mechanism.n_directions), 1)
        person, place = np.nonzero(slice_of_report == slice_number)
        reporters, reporter_of_report = np.unique(person, return_inverse=True)
        # Sort stably: the order that `argpartition` gives to ties depends on the processor.
        loudest = np.argsort(-agreement[np.ix_(reporters, inside)], axis=1, kind="stable")
        index = inside[loudest[reporter_of_report, chance.integers(loud, size=len(person))]]
        row, factor = np.divmod(index, mechanism.shape.factors)
        loud_reports = pack_reports(index, (a[person, row] > 0) != (X[person, factor] > 0))
        anywhere = inside[chance.integers(len(inside), size=len(person))]
        random_reports = pack_reports(anywhere, chance.random(len(person)) < 0.5)
        use_random = is_random[person, place]
        reports[person, place] = np.where(use_random, random_reports, loud_reports)
    return reports
