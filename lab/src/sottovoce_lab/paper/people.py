"""What the model is worth to whom: side information, people who come late, and who pays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import Histories
from sottovoce.core.recommending import WideModel, build_popularity_model
from sottovoce.core.tags import Tags, build_tags
from sottovoce.data import Interactions
from sottovoce.data.split import SplitRule, select_entries
from sottovoce.data.streams import stream
from sottovoce.errors import DataError
from sottovoce.simulation import Engine
from sottovoce.simulation.evaluation.metrics import (
    Interval,
    compute_hits,
    count_exposure,
    coverage,
    ndcg_of_several,
    recall,
    summarize_ranks,
)
from sottovoce.simulation.evaluation.ranking import (
    Candidates,
    Ranks,
    find_testable_users,
    rank_factors,
    rank_hidden,
)
from sottovoce.simulation.evaluation.side_information import solve_wide_vectors
from sottovoce.simulation.holdout import Holdout
from sottovoce.simulation.population import Part, Parts, People, WholeParts
from sottovoce.training import Budget
from sottovoce_lab.baselines.models import solve_device_vectors
from sottovoce_lab.paper.cells import Cell, Way
from sottovoce_lab.paper.scale import EPSILON, FEW_FACTORS, Family, knowing
from sottovoce_lab.paper.tables import (
    METRIC,
    NAMES,
    Experiment,
    Table,
    bars,
    budget,
    lines,
    record,
    shown,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


Float32 = NDArray[np.float32]
CUTOFF = 10
FIFTHS = 5
MOST_LATE = 5_000


@dataclass(frozen=True, eq=False)
class Published(ABC):
    """What everybody may have; a device makes the rest from its own history."""

    V: Float32

    @abstractmethod
    def vectors(self, histories: Histories) -> Float32:
        """Of people with these histories, whether they reported or not."""

    @abstractmethod
    def with_tags(self, tags: Tags) -> WideModel:
        """As devices use it that know tags."""

    def ranks(self, tests: Sequence[Candidates]) -> list[Ranks]:
        """In several tests of one split."""
        X = self.vectors(tests[0].split.train)
        return [rank_factors(X, self.V, each) for each in tests]


@dataclass(frozen=True, eq=False)
class PublishedFactors(Published):
    alpha: float
    regularization: float

    def vectors(self, histories: Histories) -> Float32:
        return solve_device_vectors(
            self.V, histories, alpha=self.alpha, regularization=self.regularization
        )

    def with_tags(self, tags: Tags) -> WideModel:
        return WideModel.from_model(
            self.V, tags, alpha=self.alpha, regularization=self.regularization
        )


@dataclass(frozen=True, eq=False)
class PublishedTraining(PublishedFactors):
    """Of ours: an engine solves the same vectors to the bit and ranks by them, and sooner."""

    engine: Callable[[Histories | Parts], Engine]

    def vectors(self, histories: Histories) -> Float32:
        with self.engine(histories) as engine:
            return engine.solve_user_vectors(self.V)

    def ranks(self, tests: Sequence[Candidates]) -> list[Ranks]:
        found = []
        for each in tests:
            people = WholeParts(Part(People(each.split.train), Holdout.from_candidates(each)))
            with self.engine(people) as engine:
                found.append(engine.compute_ranks(self.V))
        return found


@dataclass(frozen=True, eq=False)
class PublishedCounts(Published):
    """Popularity: one factor, of which everybody has 1."""

    people: int

    @classmethod
    def of(cls, train: Histories) -> PublishedCounts:
        return cls(train.popularity().astype(np.float32)[:, None], train.n_users)

    def vectors(self, histories: Histories) -> Float32:
        return np.ones((histories.n_users, 1), np.float32)

    def with_tags(self, tags: Tags) -> WideModel:
        return build_popularity_model(self.V[:, 0].astype(np.int64), self.people, tags)


ONE_IN = 5
"""So many items of a late person hide one, rounded down: a fifth, as in the literature."""


@dataclass(frozen=True, eq=False)
class Late:
    """People who were taken out of training, a part of their history hidden, and everybody else.

    Strong generalisation, as Liang et al. (2018) test it.
    """

    others: Interactions
    """Everybody else, with whole histories."""
    known: Histories
    """What the devices of late people have."""
    hidden: Histories
    """What is to be found, at least one item for each of the same people."""


def hold_people(data: Interactions, people: int, seed: int = 0) -> Late:
    """Take so many people out, drawn uniformly among those with at least `ONE_IN` items."""
    histories = data.histories
    able = np.flatnonzero(np.diff(histories.indptr) >= ONE_IN)
    if not 1 <= people <= len(able):
        raise DataError(
            f"{data.name}: asked for {people:,} late people, there are {len(able):,} with at "
            f"least {ONE_IN} interactions"
        )
    late = np.sort(stream(seed, "late").permutation(able)[:people])
    others = np.setdiff1d(np.arange(histories.n_users), late)
    known, hidden = _parted(histories.take(late), seed)
    return Late(data.select(others, None), known, hidden)


def _parted(histories: Histories, seed: int) -> tuple[Histories, Histories]:
    """What stays and what is hidden of everybody."""
    lengths = np.diff(histories.indptr)
    chance = stream(seed, "hide").random(histories.n_interactions)
    shuffled = np.lexsort((chance, histories.users_of_entries()))
    place = np.arange(histories.n_interactions) - np.repeat(histories.indptr[:-1], lengths)
    hidden = np.zeros(histories.n_interactions, bool)
    hidden[shuffled[place < np.repeat(lengths // ONE_IN, lengths)]] = True
    return select_entries(histories, ~hidden), select_entries(histories, hidden)


def how_many_late(people: int) -> int:
    """Of so many: 5,000, or a fifth where that is less."""
    return min(MOST_LATE, people // FIFTHS)


def summary_of_several(ranks: Ranks, hidden: Histories) -> dict[str, float]:
    """The recalls and the NDCG of the literature on held-out people."""
    out = {f"recall@{cutoff}": recall(ranks, hidden, cutoff) for cutoff in (20, 50)}
    out["ndcg@100"] = ndcg_of_several(ranks, hidden, 100)
    return out


def gini(exposed: NDArray[np.int64]) -> float:
    """0 where all items are recommended equally often, near 1 where a few are to everybody.

    >>> gini(np.array([2, 2, 2])), gini(np.array([0, 0, 0, 4]))
    (0.0, 0.75)
    """
    n, total = len(exposed), float(exposed.sum())
    places = 2 * np.arange(1, n + 1) - n - 1
    return float(places @ np.sort(exposed)) / (n * total) if total else 0.0


def measure_late(model: Published, late: Late) -> dict[str, Any]:
    """Recall and NDCG of people whom the model has never heard of, without and with tags."""
    known, hidden = late.known, late.hidden
    alone = rank_hidden(model.vectors(known), model.V, known, hidden)
    result: dict[str, Any] = {"final": summary_of_several(alone, hidden), "known": {}}
    if late.others.tags is not None:
        wide = model.with_tags(build_tags(late.others.tags.tolist()))
        W = wide.rows(np.arange(len(wide.V))).astype(np.float32)
        ranks = rank_hidden(solve_wide_vectors(wide, known), W, known, hidden)
        result["known"]["tags"] = summary_of_several(ranks, hidden)
    return result


def measure_people(model: Published, candidates: Candidates) -> dict[str, Any]:
    """HR@10 by how much people touched and by how popular the item is, and who sees what."""
    train, test = candidates.split.train, candidates.split.test
    X, V = model.vectors(train), model.V
    ranks, asked = rank_factors(X, V, candidates), find_testable_users(candidates)
    hit, lengths, counts = (
        compute_hits(ranks, CUTOFF),
        np.diff(train.indptr)[asked],
        train.popularity(),
    )
    by_history = fifths(lengths, np.ones(len(lengths)))
    by_item = fifths(counts, counts)
    exposed = count_exposure(X, V, train, CUTOFF)
    return {
        "final": {
            **summarize_ranks(ranks),
            **_by_fifth("history", hit, by_history),
            **_by_fifth("item", hit, by_item[test[asked]]),
            f"coverage@{CUTOFF}": coverage(exposed),
            f"gini@{CUTOFF}": gini(exposed),
        },
        "fifths": {
            "history": [_range(lengths[by_history == fifth]) for fifth in range(FIFTHS)],
            "item": np.bincount(by_item, minlength=FIFTHS).tolist(),
        },
    }


def fifths(values: NDArray[Any], weights: NDArray[Any]) -> NDArray[np.int64]:
    """Which fifth of the weight each belongs to, the smallest values first.

    Each is in one as a whole: where its middle lies. Equal values come in their present order, so
    that equal weights give fifths of equal size.

    >>> fifths(np.array([9, 1, 1, 1, 1, 1]), np.array([5, 1, 1, 1, 1, 1])).tolist()
    [3, 0, 0, 1, 1, 2]
    """
    order = np.argsort(values, kind="stable")
    heavy = weights[order].astype(np.float64)
    middle = np.cumsum(heavy) - heavy / 2
    found = np.empty(len(values), np.int64)
    found[order] = np.minimum(FIFTHS * middle / max(heavy.sum(), 1.0), FIFTHS - 1)
    return found


def _by_fifth(name: str, hit: NDArray[np.float64], of: NDArray[np.int64]) -> dict[str, float]:
    """A fifth that nobody is in has no number."""
    return {
        fifth_name(name, fifth): float(hit[of == fifth].mean())
        for fifth in range(FIFTHS)
        if (of == fifth).any()
    }


def fifth_name(name: str, fifth: int) -> str:
    """Under which it stands among the metrics."""
    return f"hr@{CUTOFF} {name} {fifth + 1}"


def _range(lengths: NDArray[np.int64]) -> tuple[int, int]:
    return int(lengths.min(initial=lengths.max(initial=0))), int(lengths.max(initial=0))


KNOWN_WAYS: dict[Way, str] = {"tags": "with tags", "time": "with time", "both": "with both"}
WAY_COLOURS = ["#aaaaaa", "#1b6ca8", "#dd9c6b", "#2a7d4f"]
NOTE = (
    "Tags (genres, years) and the order of a history are used on the device when it recommends; "
    "nothing of them is sent, and budgets are the same in a row. A random item is of any time, so "
    "that the order says nothing about it. DPLCF has no vectors that tags could stand beside."
)


@dataclass(frozen=True)
class Row:
    label: str
    family: Family
    split: SplitRule = "random"
    private: bool = False


def _ways(split: SplitRule) -> tuple[Way, ...]:
    """A random item is of any time: there the order says nothing."""
    return ("tags",) if split == "random" else tuple(KNOWN_WAYS)


class SideInformationWorth(Experiment):
    """What tags and time on the device are worth, to every method."""

    name = "known"
    title = "What devices know for free"
    picture = (9.0, 5.5)

    def cells(self) -> list[Cell]:
        return self.scale.all_of(row.family for row in self._rows())

    def tables(self) -> list[Table]:
        rows, records = [], []
        for row in self._rows():
            spent = self.reader.budget(row.family)
            found = {"alone": self.reader.interval(row.family), **self._known(row)}
            for way, interval in found.items():
                records += record(interval, method=row.label, split=row.split, known=way, **spent)
            rows.append(
                (row.label, row.split, *(shown(each) for each in found.values()),
                 budget(spent["local"]), budget(spent["central"]))
            )  # fmt: skip
        ways = KNOWN_WAYS.values()
        headings = ("method", "left out", "alone", *ways, "local budget", "central budget")
        return [Table(self.name, f"{self.title}: HR@10", headings, rows, records, [NOTE])]

    def draw(self, figure: Figure) -> None:
        rows = self._rows()
        found = [{"alone": self.reader.interval(row.family), **self._known(row)} for row in rows]
        series = {way: [each[way] for each in found] for way in ("alone", *KNOWN_WAYS)}
        axes = figure.subplots()
        bars(axes, [f"{row.label}, {row.split}" for row in rows], series, WAY_COLOURS)
        axes.set(xlabel="HR@10")
        axes.legend(loc="lower right", fontsize=8)

    def _known(self, row: Row) -> dict[str, Interval | None]:
        return {
            way: self.reader.known(row.family, way) if way in _ways(row.split) else None
            for way in KNOWN_WAYS
        }

    def _rows(self) -> list[Row]:
        return [row for split in self.scale.splits for row in self._of_split(split)]

    def _of_split(self, split: SplitRule) -> list[Row]:
        k, full = self.scale.full_reports[0], self.scale.full
        families = {
            "popularity": self.scale.popularity(full, split),
            "MF-NP": self.scale.ceiling(full, split),
        }
        if split != "random":
            families[f"DPLCF, {EPSILON:g} an item"] = self.scale.dplcf(full, EPSILON, split)
        for local in self.scale.lifetimes[:2]:
            spend = Budget(local=local)
            families[f"loudest, budget {local:g}"] = self.scale.planned(full, spend, split=split)
        families[f"loudest, k {k}"] = self.scale.trained("loudest", full, EPSILON, k, split=split)
        return [
            Row(label, knowing(family, *_ways(split)), split) for label, family in families.items()
        ]


METRICS = {"recall@20": "Recall@20", "recall@50": "Recall@50", "ndcg@100": "NDCG@100"}
DRAWN = ("recall@20", "ndcg@100")
WAYS = {"alone": "", "tags": ", tags"}
TAG_COLOURS = ["#1b6ca8", "#dd9c6b"]
CENTRAL = 1.0
"""Budget of the trusted party."""


def _late(family: Family) -> Family:
    return lambda seed: replace(family(seed), measured="late")


class LatePeople(Experiment):
    """What the model is worth to people who never reported."""

    name = "late"
    title = "People who never reported"
    picture = (10.0, 6.5)

    def cells(self) -> list[Cell]:
        return self.scale.all_of(row.family for row in self._rows())

    def tables(self) -> list[Table]:
        rows, records = [], []
        for row in self._rows():
            spent, found = self.reader.budget(row.family), self._found(row.family)
            for (way, metric), interval in found.items():
                records += record(interval, method=row.label, known=way, metric=metric, **spent)
            spending = budget(spent["local"]), budget(spent["central"])
            rows.append((row.label, *map(shown, found.values()), *spending))
        numbers = [f"{name}{said}" for said in WAYS.values() for name in METRICS.values()]
        headings = ("method", *numbers, "local budget", "central budget")
        return [Table(self.name, self.title, headings, rows, records, [self._note()])]

    def draw(self, figure: Figure) -> None:
        rows = self._rows()
        found = [self._found(row.family) for row in rows]
        panels = figure.subplots(1, len(DRAWN), sharey=True)
        for axes, metric in zip(panels, DRAWN, strict=True):
            series = {
                name: [each[way, metric] for each in found]
                for way, name in (("alone", "without tags"), ("tags", "with tags"))
            }
            bars(axes, [row.label for row in rows], series, TAG_COLOURS)
            axes.set(xlabel=METRICS[metric])
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
        panels[-1].invert_yaxis()  # both panels share the axis, and each call turned it

    def _found(self, family: Family) -> dict[tuple[str, str], Interval | None]:
        """By what devices know, and by metric."""
        return {
            (way, metric): self.reader.interval(family, metric)
            if way == "alone"
            else self.reader.known(family, way, metric)
            for way in WAYS
            for metric in METRICS
        }

    def _rows(self) -> list[Row]:
        """Settings are for those who report: all but the late."""
        users = self.scale.everybody
        fewer = replace(self.scale, everybody=users - how_many_late(users))
        k, full = fewer.full_reports[0], fewer.full
        trained = {
            f"{NAMES['paper']}, k {k}": fewer.trained("paper", full, EPSILON, k),
            f"loudest, k {k}": fewer.trained("loudest", full, EPSILON, k),
        }
        families = {
            "popularity": fewer.popularity(full),
            "MF-NP": fewer.ceiling(full),
            "FCF": fewer.fcf(full),
            f"DP-ALS, central {CENTRAL:g}": fewer.trusted(full, CENTRAL),
            **trained,
            **{
                f"loudest, budget {local:g}": fewer.planned(full, Budget(local=local))
                for local in fewer.lifetimes[:2]
            },
        }
        return [Row(label, _late(family)) for label, family in families.items()]

    def _note(self) -> str:
        late = how_many_late(self.scale.everybody)
        return (
            f"{late:,} people, drawn by the seed, are in no training. A device that has 80% of its "
            "history solves its vector for the published model and ranks the whole catalogue "
            "without what it has, to find the other 20%. It sends nothing: budgets are of the "
            f"{self.scale.everybody - late:,} others. Recall@k is divided by min(k, hidden "
            "items), NDCG@100 by the best possible."
        )


Kind = Literal["history", "item"]
KINDS: dict[Kind, tuple[str, str, str]] = {
    "history": ("people by how much they touched", "the least active fifth", "the most active"),
    "item": ("items by how popular they are", "the fifth of rare items", "that of popular ones"),
}
"""What is cut into fifths, and what the first and the last are called."""
ROW_COLOURS = [
    "#888888",
    "#222222",
    "#999966",
    "#b3402a",
    "#1b6ca8",
    "#a9cfe8",
    "#7fb2d9",
    "#4b93c4",
    "#0d3c61",
]
"""As many as there are rows, at most."""
EXPOSED = {f"coverage@{CUTOFF}": f"coverage@{CUTOFF}", f"gini@{CUTOFF}": "Gini index"}
NOTES: dict[Kind, str] = {
    "history": "A fifth of the people in each, by how many items their training history has.",
    "item": (
        "A fifth of the interactions in each, not of the items: of the fifth of items that is "
        "touched least hardly one is ever left out. The 99 others are drawn uniformly, so any "
        "model that knows what is popular finds the most popular items."
    ),
}
EXPOSURE = (
    f"Coverage@{CUTOFF}: the share of the catalogue that is in anybody's first {CUTOFF} of all "
    "items that they did not touch. Gini index of how often items are there: 0 all alike, 1 one "
    "item alone."
)


def _by_people(family: Family) -> Family:
    return lambda seed: replace(family(seed), measured="people")


class WhoPays(Experiment):
    """Who pays for privacy: quality by activity, by popularity, and what is seen."""

    name = "people"
    title = "Who pays for privacy"
    picture = (10.0, 5.0)

    def cells(self) -> list[Cell]:
        return self.scale.all_of(row.family for row in self._rows())

    def tables(self) -> list[Table]:
        rows = self._rows()
        both = (self._by_fifth, self._kept_table)
        return [
            *(build(rows, kind) for kind in KINDS for build in both),
            self._exposure(rows),
        ]

    def draw(self, figure: Figure) -> None:
        rows = self._rows()
        panels = figure.subplots(1, len(KINDS), sharey=True)
        for axes, (kind, (title, _, _)) in zip(panels, KINDS.items(), strict=True):
            for row, colour in zip(rows, ROW_COLOURS, strict=False):
                kept = self._kept(rows, row, kind)
                lines(axes, list(enumerate(kept, start=1)), row.label, colour)
            axes.set(xticks=range(1, FIFTHS + 1), xlabel=f"fifths: {title}")
            axes.grid(alpha=0.3)
        panels[0].set_ylabel(f"HR@{CUTOFF} / that of MF-NP")
        handles = panels[0].get_legend_handles_labels()
        figure.legend(*handles, loc="outside lower center", ncols=4)

    def _rows(self) -> list[Row]:
        k, full = self.scale.full_reports[0], self.scale.full
        few = self.scale.ceiling(full, factors=FEW_FACTORS)
        paper, ours = (self.scale.trained(name, full, EPSILON, k) for name in ("paper", "loudest"))
        found = [
            Row("popularity", self.scale.popularity(full)),
            Row("MF-NP", self.scale.ceiling(full)),
            Row(f"MF-NP, {FEW_FACTORS} factors", few),
            Row(f"{NAMES['paper']}, k {k}", paper, private=True),
            Row(f"loudest, k {k}", ours, private=True),
            *(
                Row(
                    f"loudest, budget {local:g}",
                    self.scale.planned(full, Budget(local=local)),
                    private=True,
                )
                for local in self.scale.lifetimes
            ),
        ]
        return [replace(row, family=_by_people(row.family)) for row in found]

    def _by_fifth(self, rows: list[Row], kind: Kind) -> Table:
        shown_rows, records = [], []
        for row in rows:
            metrics = [METRIC, *(fifth_name(kind, fifth) for fifth in range(FIFTHS))]
            found = [self.reader.interval(row.family, metric) for metric in metrics]
            spent = self.reader.budget(row.family)
            for fifth, interval in enumerate(found):
                records += record(interval, method=row.label, fifth=fifth or "all", **spent)
            shown_rows.append((row.label, *map(shown, found), budget(spent["local"])))
        headings = ("method", "all", *self._fifths(rows, kind), "local budget")
        title = f"{self.title}: HR@{CUTOFF}, {KINDS[kind][0]}"
        return Table(f"{self.name}-{kind}", title, headings, shown_rows, records, [NOTES[kind]])

    def _kept_table(self, rows: list[Row], kind: Kind) -> Table:
        shown_rows, records = [], []
        for row in rows:
            kept = self._kept(rows, row, kind)
            for fifth, interval in enumerate(kept, start=1):
                records += record(interval, method=row.label, fifth=fifth)
            shown_rows.append((row.label, *map(shown, kept)))
        headings = ("method", *self._fifths(rows, kind))
        title = (
            f"{self.title}: HR@{CUTOFF} divided by that of MF-NP, split by split, {KINDS[kind][0]}"
        )
        answers = [self._answer(rows, row, kind) for row in rows if row.private]
        notes = [answer for answer in answers if answer]
        return Table(f"{self.name}-{kind}-kept", title, headings, shown_rows, records, notes)

    def _exposure(self, rows: list[Row]) -> Table:
        shown_rows, records = [], []
        for row in rows:
            found = {metric: self.reader.interval(row.family, metric) for metric in EXPOSED}
            for metric, interval in found.items():
                records += record(interval, method=row.label, metric=metric)
            shown_rows.append((row.label, *map(shown, found.values())))
        title = f"{self.title}: which part of the catalogue is recommended at all"
        headings = ("method", *EXPOSED.values())
        return Table(f"{self.name}-exposure", title, headings, shown_rows, records, [EXPOSURE])

    def _kept(self, rows: list[Row], row: Row, kind: Kind) -> list[Interval | None]:
        found = self._shares(rows, row, kind)
        return [Interval.from_values(list(each.values())) if each else None for each in found]

    def _shares(self, rows: list[Row], row: Row, kind: Kind) -> list[dict[int, float]]:
        """Of MF-NP's HR@10, by fifth and seed: both saw the same split and the same negatives."""
        best = next(each for each in rows if each.label == NAMES["mf"])
        found = []
        for metric in (fifth_name(kind, fifth) for fifth in range(FIFTHS)):
            mine, theirs = (self.reader.values(each.family, metric) for each in (row, best))
            found.append({seed: mine[seed] / theirs[seed] for seed in mine if theirs.get(seed)})
        return found

    def _answer(self, rows: list[Row], row: Row, kind: Kind) -> str | None:
        """Who pays, in one sentence; None before it is known."""
        first, *_, last = self._shares(rows, row, kind)
        seeds = [seed for seed in first if seed in last]
        if not seeds:
            return None
        _, least, most = KINDS[kind]
        low, high = (
            Interval.from_values([100 * share[seed] for seed in seeds]) for share in (first, last)
        )
        apart = Interval.from_values([100 * (last[seed] - first[seed]) for seed in seeds])
        sure = "" if apart.half_width is None else f" ± {apart.half_width:.1f}"
        return (
            f"{row.label}: {least} keeps {low.mean:.1f}% of what MF-NP gives it, {most} "
            f"{high.mean:.1f}% ({apart.mean:+.1f}{sure} points)."
        )

    def _fifths(self, rows: list[Row], kind: Kind) -> list[str]:
        """What each holds, on the first split that is known."""
        results = (
            self.reader.store.get(row.family(seed))
            for row in rows
            for seed in self.reader.scale.seeds
        )
        known = next((result["fifths"][kind] for result in results if result is not None), None)
        if known is None:
            return [f"{fifth + 1}" for fifth in range(FIFTHS)]
        if kind == "item":
            return [f"{fifth}: {count:,} items" for fifth, count in enumerate(known, start=1)]
        return [f"{fifth}: {low:,} to {high:,}" for fifth, (low, high) in enumerate(known, start=1)]
