"""What the paper says in words, tables and descriptions of figures, next to our results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from sottovoce_lab.paper.cell_rows import CellRow, read_metric, select_rows
from sottovoce_lab.paper.paper_numbers import CHANCE, FIGURE2, FIGURE3, TABLE5
from sottovoce_lab.paper.tables import MAIN_METRIC, Table

# Two values of HR@10 count as the same if they differ by no more than this.
MAX_DIFFERENCE = 0.05
# Figure 2: epsilons, numbers of reports in an epoch (all except 1), and numbers of people.
EPSILONS = (0.5, 1.0, 2.5, 6.0)
MORE_REPORTS = (50, 100, 250)
CROWDS = (1_000, 10_000, 50_000)
# What is claimed, the paper's number, ours, and whether they are the same.
Claim = tuple[str, str, str, str]


def tabulate_claims(rows: Sequence[CellRow], curves: Sequence[CellRow]) -> Table:
    """Build the table from the cells of the preset's own initial scale and the reported seeds."""
    claims = [
        *_list_figure2(rows),
        *_list_gains(rows),
        *_list_figure3(curves),
        *_list_full_set(rows),
    ]
    headings = ("what", "paper", "here", "same")
    records = [dict(zip(headings, claim, strict=True)) for claim in claims]
    return Table("claims", "The paper's numbers and ours", headings, claims, records)


def _read(rows: Iterable[CellRow], metric: str = MAIN_METRIC, **where: Any) -> float:
    interval = read_metric(select_rows(rows, **where), metric)
    if interval is None:
        raise ValueError(f"no cell has {where}: write the files of cells again")
    return interval.mean


def _compare(what: str, paper: float, here: float) -> Claim:
    return what, f"{paper:.4g}", f"{here:.4f}", _judge(is_same=abs(here - paper) <= MAX_DIFFERENCE)


def _judge(*, is_same: bool) -> str:
    return "yes" if is_same else "**no**"


def _compare_with_chance(what: str, values: Sequence[float]) -> Claim:
    low, high = min(values), max(values)
    return (
        what,
        f"chance ({CHANCE:g})",
        f"{low:.3f} to {high:.3f}",
        _judge(is_same=max(abs(low - CHANCE), abs(high - CHANCE)) <= MAX_DIFFERENCE),
    )


def _list_figure2(rows: Sequence[CellRow]) -> Iterator[Claim]:
    small = select_rows(rows, items=1_000, split="random")
    places = [(users, epsilon) for users in CROWDS for epsilon in EPSILONS]
    yield _compare_with_chance(
        "Figure 2: k 1, all crowds and eps",
        [_read(small, users=users, epsilon=epsilon, reports=1) for users, epsilon in places],
    )
    yield _compare_with_chance(
        "1,000 people, k 50, all eps",
        [_read(small, users=1_000, epsilon=epsilon, reports=50) for epsilon in EPSILONS],
    )
    yield _compare_with_chance(
        "10,000 people, eps 0.5, k 50 to 250",
        [_read(small, users=10_000, epsilon=0.5, reports=k) for k in MORE_REPORTS],
    )
    for (users, epsilon, k), number in FIGURE2.items():
        if number != CHANCE and (epsilon, k) != (2.5, 100):
            here = _read(small, users=users, epsilon=epsilon, reports=k)
            yield _compare(f"{users:,} people, eps {epsilon:g}, k {k}", number, here)


def _list_gains(rows: Sequence[CellRow]) -> Iterator[Claim]:
    small = select_rows(rows, items=1_000, split="random")
    by_crowd = [_read(small, users=users, epsilon=2.5, reports=100) for users in CROWDS]
    for number, (before, after) in enumerate(pairwise(by_crowd)):
        what = f"gain from {CROWDS[number]:,} to {CROWDS[number + 1]:,} people, eps 2.5, k 100"
        in_paper = ("+150%; Table 4: +445%", "+50%; Table 4: +10%")[number]
        yield what, in_paper, f"{after / before - 1:+.0%}", "as Table 4"
    learning = select_rows(small, users=(10_000, 50_000), epsilon=EPSILONS[1:])
    by_reports = [_read(learning, reports=k) for k in MORE_REPORTS]
    gains = [after / before - 1 for before, after in pairwise(by_reports)]
    for in_paper, (k, more), gain in zip(
        ("+10%", "+5%"), pairwise(MORE_REPORTS), gains, strict=True
    ):
        what = f"gain from k {k} to {more}, mean of 10,000 and 50,000 people, eps 1 to 6"
        yield what, in_paper, f"{gain:+.0%}", ""


def _list_figure3(curves: Sequence[CellRow]) -> Iterator[Claim]:
    for (users, k), numbers in FIGURE3.items():
        for epoch, number in numbers.items():
            here = _read(curves, f"{MAIN_METRIC} epoch {epoch}", users=users, reports=k)
            yield _compare(f"Figure 3: {users:,} people, k {k}, epoch {epoch}", number, here)


def _list_full_set(rows: Sequence[CellRow]) -> Iterator[Claim]:
    full = select_rows(rows, users=None, items=None)
    for k in (100, 250):
        for metric, number in zip(
            ("hr@2", "hr@5", MAIN_METRIC), TABLE5[f"FMF-LDP-{k}"], strict=True
        ):
            here = _read(full, metric, reports=k)
            yield _compare(f"Table 5: k {k}, {metric.upper()}", number, here)
