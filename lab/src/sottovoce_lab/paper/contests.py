"""Comparisons of our methods with the paper's, and the sentences that sum them up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from sottovoce.simulation.evaluation.metrics import Interval
from sottovoce_lab.paper.cells import COMPARED_METHODS, OUR_METHODS, PAPER_METHODS, TrainedMethod
from sottovoce_lab.paper.grid import Family
from sottovoce_lab.paper.tables import (
    METHOD_LABELS,
    Reader,
    format_difference,
    format_interval,
    make_records,
)


@dataclass(frozen=True)
class Contest:
    """One of our methods against one of the paper's, in one row of a table."""

    ours: TrainedMethod
    theirs: TrainedMethod
    where: str
    gain: Interval | None
    """HR@10 of our method minus that of theirs; None where it was not computed."""


@dataclass(frozen=True)
class Comparison:
    """The methods of one row side by side."""

    intervals: dict[str, Interval | None]
    records: list[dict[str, Any]]
    contests: list[Contest]
    gain: Interval | None
    """HR@10 of `loudest` minus that of the paper's system; None where it was not computed."""

    def format_intervals(self, names: Iterable[str] = COMPARED_METHODS) -> tuple[str, ...]:
        """Return the texts of these methods' intervals for a row of a table."""
        return tuple(format_interval(self.intervals[name]) for name in names)


def list_contests(
    reader: Reader, families: Mapping[TrainedMethod, Family], where: str
) -> list[Contest]:
    """Return a contest for each of the paper's methods in `families` and each of ours."""
    return [
        Contest(ours, theirs, where, reader.read_gain(families[ours], families[theirs]))
        for theirs, ours in product(PAPER_METHODS, OUR_METHODS)
        if theirs in families
    ]


def compare_methods(
    reader: Reader, families: Mapping[str, Family], where: str, **about: Any
) -> Comparison:
    """Compare the methods of one row, which `where` names in sentences and `about` in records."""
    intervals = {name: reader.read_interval(family) for name, family in families.items()}
    records = [
        record
        for name, interval in intervals.items()
        for record in make_records(interval, **about, method=name)
    ]
    trained = {method: families[method] for method in COMPARED_METHODS}
    gain = reader.read_gain(families["loudest"], families["paper"])
    return Comparison(intervals, records, list_contests(reader, trained, where), gain)


def summarize_contests(contests: Iterable[Contest]) -> list[str]:
    """Return a sentence for each pair of methods: how often ours wins, and where it does not."""
    contests = list(contests)
    sentences = []
    for theirs, ours in product(PAPER_METHODS, OUR_METHODS):
        gains = [
            (contest.where, contest.gain)
            for contest in contests
            if (contest.ours, contest.theirs) == (ours, theirs) and contest.gain is not None
        ]
        if not gains:
            continue
        losses = [
            f"{where} ({format_difference(gain)})" for where, gain in gains if not is_win(gain)
        ]
        wins_text = f"in {len(gains) - len(losses)} of {len(gains)} cells"
        exceptions = f"; not in: {'; '.join(losses)}" if losses else ""
        # A single split has no interval, so its cells cannot be called certain.
        if any(gain.half_width is None for _, gain in gains):
            certainty = "(cells with a single split count whatever the distance)"
        else:
            certainty = "by more than the 95% interval of the differences, split by split"
        sentences.append(
            f"{ours} beats {METHOD_LABELS[theirs]} {wins_text} {certainty}{exceptions}."
        )
    return sentences


def is_win(gain: Interval) -> bool:
    """Return whether the whole 95% interval of a gain is above 0; a single split has no interval.

    The gain of a single split is a win if it is above 0.
    """
    return gain.mean > (gain.half_width or 0.0)
