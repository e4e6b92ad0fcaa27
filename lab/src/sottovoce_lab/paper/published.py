"""The paper's own figures and tables run again, beside its numbers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sottovoce.data import Interactions
from sottovoce.data.split import SplitRule
from sottovoce.protocol import (
    Batch,
    Catalogue,
    Item,
    Manifest,
    SignedManifest,
    Terms,
    derive_public_key,
    encode_items,
    generate_epoch_key,
    seal_reports,
)
from sottovoce.protocol.terms import TRAINING_ID_BYTES
from sottovoce.simulation.evaluation.metrics import Interval
from sottovoce.training import Participation, Settings, make_first_items
from sottovoce_lab.paper.cells import COMPARED, THEIRS, TRAINED, Cell, Size, Trained
from sottovoce_lab.paper.scale import EPSILON, FEW_FACTORS, Family, Scale, delta_of, knowing
from sottovoce_lab.paper.tables import (
    COLOURS,
    NAMES,
    Experiment,
    Table,
    bars,
    budget,
    compare,
    contests,
    crowd_panels,
    level,
    lines,
    number,
    record,
    shown,
    signed,
    verdict,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


TABLE4: dict[tuple[int | None, int | None], float] = {
    (1_000, 1_000): 0.1160,
    (1_000, 5_000): 0.1010,
    (1_000, None): 0.1090,
    (10_000, 1_000): 0.6325,
    (10_000, 5_000): 0.1988,
    (10_000, None): 0.1216,
    (50_000, 1_000): 0.6972,
    (50_000, 5_000): 0.6801,
    (50_000, None): 0.5654,
}
"""HR@10 by users and items; eps 2.5, k 100, 20 epochs."""
TABLE5 = {
    "MF-NP": (0.4310, 0.6700, 0.8179),
    "DPLCF": (0.4203, 0.5969, 0.7000),
    "FMF-LDP-100": (0.2163, 0.3755, 0.5131),
    "FMF-LDP-250": (0.2315, 0.3980, 0.5384),
    "Random": (0.0200, 0.0500, 0.1000),
}
"""HR@2, HR@5, HR@10 on the full set, the latest interaction left out, eps 2.5."""
FIG3: dict[tuple[int | None, int], dict[int, float]] = {
    (50_000, 100): {10: 0.65, 30: 0.70},
    (50_000, 50): {10: 0.42, 30: 0.70},
    (10_000, 100): {10: 0.55, 30: 0.65},
    (10_000, 50): {10: 0.30, 30: 0.60},
}
"""HR@10 by users and k after 10 and 30 epochs, as the picture's description gives them, roughly."""
FIG2_WORDS = (
    "The paper's figure 2 is a picture without numbers. It says: k = 1 is no better than chance "
    "for every user set, and HR@10 reaches 0.7 and higher in some cases."
)
DOWN = {1_000: 20_000, 9_781: 200_000}
"""Bytes that a client gets in an epoch, by items: "about 20 KB", "about 0.2 MB"."""
BYTES_PER_REPORT = 4
"""Upstream: "about 4k bytes", 0.4 KB for k = 100."""


def _crowds(scale: Scale, users: Iterable[int]) -> dict[int, str]:
    """What panels of these users are called."""
    return {each: scale.crowd(scale.small(each)) for each in users}


class Figure2(Experiment):
    """HR@10 by budget of a report and number of reports, for three crowds."""

    name = "fig2"
    title = "Figure 2: privacy and utility"
    picture = (10.0, 10.0)

    def cells(self) -> list[Cell]:
        families = [
            family for cell in self._grid() for family in self.scale.all_trained(*cell).values()
        ]
        families += [self.scale.popularity(self.scale.small(users)) for users in self.scale.users]
        return self.scale.all_of(families)

    def tables(self) -> list[Table]:
        rows, records, won = [], [], []
        for size, epsilon, k in self._grid():
            where = f"{size.users:,} users, eps {epsilon:g}, k {k}"
            about = {"users": size.users, "items": size.items, "epsilon": epsilon, "reports": k}
            found = compare(self.reader, self.scale.all_trained(size, epsilon, k), where, **about)
            records += found.records
            won += found.contests
            known = (epsilon, k, self.scale.epochs) == (2.5, 100, 20)
            said = TABLE4.get((self.scale.in_paper(size), size.items)) if known else None
            rows.append(
                (
                    self.scale.crowd(size), f"{epsilon:g}", str(k),
                    budget(epsilon * k * self.scale.epochs), number(said), *found.shown(),
                    signed(found.gain), shown(self.reader.interval(self.scale.popularity(size))),
                )
            )  # fmt: skip
        headings = (
            "users", "eps", "k", "local budget", "paper", *(NAMES[method] for method in COMPARED),
            "loudest - preset paper", "popularity",
        )  # fmt: skip
        title = f"{self.title}: HR@10 after {self.scale.epochs} epochs, {self._items()}"
        return [Table(self.name, title, headings, rows, records, [FIG2_WORDS, *verdict(won)])]

    def draw(self, figure: Figure) -> None:
        def draw_panel(axes: Any, users: int, k: int) -> None:
            size = self.scale.small(users)
            for method in COMPARED:
                points = [
                    (epsilon, self.reader.interval(self.scale.trained(method, size, epsilon, k)))
                    for epsilon in self.scale.epsilons
                ]
                lines(axes, points, NAMES[method], COLOURS[method])
            level(axes, self.reader.interval(self.scale.popularity(size)), "popularity")
            axes.set(xscale="log")
            axes.set_xticks(
                self.scale.epsilons, [f"{epsilon:g}" for epsilon in self.scale.epsilons]
            )
            axes.set_xticks([], minor=True)

        crowd_panels(
            figure,
            _crowds(self.scale, self.scale.users),
            self.scale.reports,
            "epsilon of one report",
            draw_panel,
        )

    def _grid(self) -> Iterator[tuple[Size, float, int]]:
        for users in self.scale.users:
            for epsilon in self.scale.epsilons:
                for k in self.scale.reports:
                    yield self.scale.small(users), epsilon, k

    def _items(self) -> str:
        items = self.scale.smallest_items
        return "all items" if items is None else f"{items:,} items"


EPOCHS_SHOWN = (1, 10, 20, 30)
"""Epochs that are in the table; all are in its CSV and JSON files."""


class Figure3(Experiment):
    """Learning curves over 30 epochs."""

    name = "fig3"
    title = "Figure 3: learning curves"
    picture = (9.0, 6.5)

    def cells(self) -> list[Cell]:
        """Every training with every epoch evaluated, and what it is to be read against."""
        families = [
            self._family(method, users, k)
            for users, k in product(self.scale.curve_users, self.scale.curve_reports)
            for method in COMPARED
        ]
        for users in self.scale.curve_users:
            families += [
                self.scale.ceiling(self.scale.small(users)),
                self.scale.popularity(self.scale.small(users)),
            ]
        return self.scale.all_of(families)

    def tables(self) -> list[Table]:
        """A row for each crowd, k and method; the paper's numbers are read off its description."""
        rows, records = [], []
        epochs = self._shown()
        for users, k in product(self.scale.curve_users, self.scale.curve_reports):
            said = self._said(users, k)
            where = (self.scale.crowd(self.scale.small(users)), str(k))
            if said:
                rows.append((*where, "paper", *(number(said.get(epoch), 2) for epoch in epochs)))
            for method in COMPARED:
                family = self._family(method, users, k)
                curve = {
                    epoch: self.reader.interval(family, epoch=epoch)
                    for epoch in range(1, self.scale.curve_epochs + 1)
                }
                rows.append((*where, NAMES[method], *(shown(curve[epoch]) for epoch in epochs)))
                about = {"users": users, "reports": k, "method": method}
                for epoch, interval in curve.items():
                    records += record(interval, **about, epoch=epoch)
            for name, family in self._levels(users).items():
                found = self.reader.interval(family)
                rows.append((*where, name, *([""] * (len(epochs) - 1)), shown(found)))
                records += record(found, users=users, reports=k, method=name)
        headings = ("users", "k", "method", *(f"epoch {epoch}" for epoch in epochs))
        title = f"{self.title}: HR@10, eps {EPSILON:g}, {self.scale.smallest_items or 'all'} items"
        note = "The paper's row is what the description of its picture says, roughly."
        return [Table(self.name, title, headings, rows, records, [note])]

    def draw(self, figure: Figure) -> None:
        def draw_panel(axes: Any, users: int, k: int) -> None:
            for method in COMPARED:
                family = self._family(method, users, k)
                points = [
                    (float(epoch), self.reader.interval(family, epoch=epoch))
                    for epoch in range(1, self.scale.curve_epochs + 1)
                ]
                lines(axes, points, NAMES[method], COLOURS[method])
            for name, family in self._levels(users).items():
                level(axes, self.reader.interval(family), name)
            said = self._said(users, k)
            if said:
                axes.plot(
                    list(said), list(said.values()), "x", color="black", label="paper (ML-20M)"
                )

        crowds = _crowds(self.scale, self.scale.curve_users)
        crowd_panels(figure, crowds, self.scale.curve_reports, "epoch", draw_panel)

    def _said(self, users: int, k: int) -> dict[int, float]:
        """The paper's numbers, by epoch."""
        in_paper = self.scale.in_paper(self.scale.small(users))
        return FIG3.get((in_paper, k), {})

    def _family(self, method: Trained, users: int, k: int) -> Family:
        return self.scale.trained(
            method, self.scale.small(users), EPSILON, k, epochs=self.scale.curve_epochs, curve=True
        )

    def _levels(self, users: int) -> dict[str, Family]:
        size = self.scale.small(users)
        return {"MF-NP": self.scale.ceiling(size), "popularity": self.scale.popularity(size)}

    def _shown(self) -> list[int]:
        kept = [epoch for epoch in EPOCHS_SHOWN if epoch < self.scale.curve_epochs]
        return [*kept, self.scale.curve_epochs]


class Table4(Experiment):
    """HR@10 for three numbers of users and three of items."""

    name = "table4"
    title = "Table 4: users and items"
    picture = (8.0, 7.0)

    def cells(self) -> list[Cell]:
        return self.scale.all_of(
            family for size in self._sizes() for family in self._families(size).values()
        )

    def tables(self) -> list[Table]:
        rows, records, won = [], [], []
        for size in self._sizes():
            items = size.items or self.scale.about.items
            where = f"{size.users:,} x {items:,}"
            found = compare(self.reader, self._families(size), where, users=size.users, items=items)
            records += found.records
            won += found.contests
            said = TABLE4.get((self.scale.in_paper(size), size.items))
            rows.append(
                (
                    self.scale.crowd(size), self.scale.catalogue(size), number(said),
                    *found.shown(), signed(found.gain), *found.shown(("mf", "popularity")),
                )
            )  # fmt: skip
        headings = (
            "users", "items", "paper", *(NAMES[method] for method in COMPARED),
            "loudest - preset paper", "MF-NP", "popularity",
        )  # fmt: skip
        how = f"eps {EPSILON:g}, k {self.scale.table4_reports}, {self.scale.epochs} epochs"
        title = f"{self.title}: HR@10, {how}"
        return [Table(self.name, title, headings, rows, records, verdict(won))]

    def draw(self, figure: Figure) -> None:
        sizes = self._sizes()
        series = {}
        for name in (*COMPARED, "mf", "popularity"):
            series[NAMES[name]] = [
                self.reader.interval(self._families(size)[name]) for size in sizes
            ]
        axes = figure.subplots()
        labels = [
            f"{self.scale.crowd(size)} x {size.items or self.scale.about.items:,}" for size in sizes
        ]
        bars(axes, labels, series, [COLOURS[name] for name in (*COMPARED, "mf", "popularity")])
        axes.set(xlabel="HR@10", ylabel="users x items")
        axes.legend(loc="lower right", fontsize=8)

    def _sizes(self) -> list[Size]:
        return [Size(users, items) for users in self.scale.users for items in self.scale.items]

    def _families(self, size: Size) -> dict[str, Family]:
        trained = self.scale.all_trained(size, EPSILON, self.scale.table4_reports)
        against = {"mf": self.scale.ceiling(size), "popularity": self.scale.popularity(size)}
        return {**trained, **against}


CUTOFFS = (2, 5, 10)
BY_DATE = (
    "Latest: the last thing of each person is left out, and others' later ones are learnt from. "
    "Date: training ends at a date, before which nine tenths of all interactions lie; who has "
    "touched something before it and after it is tested on the first thing after it. With time: "
    "the device that recommends weighs what came last most, which it tells nobody."
)


@dataclass(frozen=True)
class Row:
    label: str
    at: Callable[[SplitRule], Family]
    """By what is left out."""
    said: str | None = None
    """Which row of the paper's table it is."""
    private: bool = False
    method: Trained | None = None
    reports: int | None = None


class Table5(Experiment):
    """Every method on the full set, with what it costs a person."""

    name = "table5"
    title = "Table 5: all methods on the full set"
    picture = (8.0, 6.5)

    def cells(self) -> list[Cell]:
        first, *further = self._splits()
        as_in_the_paper = [row.at(first) for row in self._rows(self.scale.full_reports)]
        by_time = [row.at(split) for split in further for row in self._rows(self._usual())]
        return self.scale.all_of([*as_in_the_paper, *by_time])

    def tables(self) -> list[Table]:
        return [self._as_in_the_paper(), self._by_time()]

    def _as_in_the_paper(self) -> Table:
        split, rows, records = self._splits()[0], [], []
        for row in self._rows(self.scale.full_reports):
            said = TABLE5.get(row.said or "", (None, None, None))
            family = row.at(split)
            found = {cutoff: self.reader.interval(family, f"hr@{cutoff}") for cutoff in CUTOFFS}
            spent = self.reader.budget(family)
            for cutoff, interval in found.items():
                records += record(interval, method=row.label, metric=f"hr@{cutoff}", **spent)
            local = budget(spent["local"]) if row.private else "none"
            rows.append(
                (
                    row.label, *(number(value) for value in said),
                    *(shown(interval) for interval in found.values()),
                    local, budget(spent["central"]),
                )
            )  # fmt: skip
        headings = (
            "method", *(f"paper HR@{cutoff}" for cutoff in CUTOFFS),
            *(f"HR@{cutoff}" for cutoff in CUTOFFS), "local budget", "central budget",
        )  # fmt: skip
        users = f"{self.scale.crowd(self.scale.full)} users"
        how = f"{users}, {split} interaction left out, eps {EPSILON:g}, {self.scale.epochs} epochs"
        title = f"{self.title}: {how}"
        return Table(self.name, title, headings, rows, records, [*self._notes(), *self._verdict()])

    def _by_time(self) -> Table:
        """The same methods where training ends at a date, and with the order on the device."""
        splits, rows, records = self._splits(), [], []
        for row in self._rows(self._usual()):
            shown_here: list[str] = []
            for split in splits:
                family = row.at(split)
                both = self.reader.interval(family), self.reader.known(family, "time")
                for way, found in zip(("alone", "time"), both, strict=True):
                    records += record(found, method=row.label, split=split, known=way)
                    shown_here.append(shown(found))
            rows.append((row.label, *shown_here))
        headings = (
            "method", *(f"{split}{more}" for split in splits for more in ("", ", with time"))
        )  # fmt: skip
        title = f"{self.title}: HR@10 by what is left out"
        return Table(f"{self.name}-time", title, headings, rows, records, [BY_DATE])

    def draw(self, figure: Figure) -> None:
        rows = self._rows(self.scale.full_reports)
        series: dict[str, list[Interval | float | None]] = {
            "here": [self.reader.interval(row.at(self._splits()[0])) for row in rows],
            "paper (ML-20M)": [TABLE5[row.said][2] if row.said else None for row in rows],
        }
        axes = figure.subplots()
        bars(axes, [row.label for row in rows], series, ["#1b6ca8", "#cccccc"])
        axes.set(xlabel="HR@10")
        axes.legend(loc="lower right", fontsize=8)

    def _usual(self) -> tuple[int, ...]:
        """Reports in an epoch, where one number is enough."""
        return self.scale.full_reports[:1]

    def _rows(self, many: tuple[int, ...]) -> list[Row]:
        an_item, full = f"DPLCF, {EPSILON:g} an item", self.scale.full
        rows = [
            Row("Random", lambda split: lambda seed: Cell.make("random", full, seed, split=split),
                "Random"),
            Row("Popularity", lambda split: knowing(self.scale.popularity(full, split), "time")),
            Row("MF-NP", lambda split: knowing(self.scale.ceiling(full, split), "time"), "MF-NP"),
            Row("FCF (federated, not private)", lambda split: self.scale.fcf(full, split)),
            Row(an_item, partial(self._dplcf, EPSILON), "DPLCF", private=True),
        ]  # fmt: skip
        for k in many:
            same = k * EPSILON * self.scale.epochs / self.scale.about.items
            rows += [
                Row(f"DPLCF, budget of k {k}", partial(self._dplcf, same), private=True),
                Row(f"private popularity, budget of k {k}",
                    partial(self._counted, k * self.scale.epochs), private=True),
            ]  # fmt: skip
            for method in TRAINED if k in self._usual() else COMPARED:
                said = f"FMF-LDP-{k}" if method == "paper" else None
                name = f"FMF-LDP ({NAMES[method]})" if method in THEIRS else NAMES[method]
                said = said if said in TABLE5 else None
                at = partial(self._trained, method, k)
                rows.append(Row(f"{name}, k {k}", at, said, private=True, method=method, reports=k))
            if k in self._usual():
                at = partial(self._narrow, k)
                rows.append(Row(f"loudest, {FEW_FACTORS} factors, k {k}", at, private=True))
        return rows

    def _trained(self, method: Trained, k: int, split: SplitRule) -> Family:
        trained = self.scale.trained(method, self.scale.full, EPSILON, k, split=split)
        return knowing(trained, "time")

    def _counted(self, reports: int, split: SplitRule) -> Family:
        return lambda seed: Cell.make(
            "private-popularity",
            self.scale.full,
            seed,
            split=split,
            epsilon=EPSILON,
            reports=reports,
        )

    def _dplcf(self, epsilon: float, split: SplitRule) -> Family:
        return knowing(self.scale.dplcf(self.scale.full, epsilon, split), "time")

    def _narrow(self, k: int, split: SplitRule) -> Family:
        """With as few factors as the paper's."""
        narrow = self.scale.trained(
            "loudest", self.scale.full, EPSILON, k, split=split, factors=FEW_FACTORS
        )
        return knowing(narrow, "time")

    def _splits(self) -> list[SplitRule]:
        """The paper leaves the latest one out here; data without times cannot."""
        return ["latest", "date"] if self.scale.about.timestamps else ["random"]

    def _notes(self) -> list[str]:
        users, items = self.scale.everybody, self.scale.about.items
        budgets = (
            "Budgets are of one person, for the whole training. Local: reports can be traced to "
            f"them. Central: an honest proxy shuffles {users:,} people, delta {delta_of(users):g}; "
            "given where this project has the analysis."
        )
        dplcf = (
            f"DPLCF randomises each of {items:,} items, so its budget is that many times its "
            "epsilon; `budget of k` gives it the same local budget as the trainings with that k."
        )
        return [budgets, dplcf]

    def _verdict(self) -> list[str]:
        found = []
        for k in self.scale.full_reports:
            mine = {
                row.method: row.at(self._splits()[0])
                for row in self._rows(self.scale.full_reports)
                if row.method and row.reports == k
            }
            found += contests(self.reader, mine, f"k {k}")
        return verdict(found)


FACTORS = 5
ENCODED = (
    "Lengths of the real encodings. Down in every epoch: model file and signed manifest; the "
    "catalogue once. Up: one batch, every report sealed alone (52 bytes each); the paper counts "
    "reports of 4 bytes that nobody has sealed. HTTP's headers are not counted."
)


class Cost(Experiment):
    """Bytes of one client in one epoch, counted on the real encodings."""

    name = "cost"
    title = "Communication of one client"
    picture = (8.0, 3.5)

    def cells(self) -> list[Cell]:
        """Nothing random: one of each."""
        return [
            Cell.make("cost", Size(None, items), 0, reports=k, factors=FACTORS)
            for items, k in self._grid()
        ]

    def tables(self) -> list[Table]:
        found = self._found()
        rows = []
        for k, counted in found:
            down = DOWN.get(counted["items"])
            rows.append(
                (
                    f"{counted['items']:,}", str(k),
                    "-" if down is None else f"~{down:,}",
                    f"{counted['model'] + counted['manifest']:,}",
                    f"{counted['catalogue_once']:,}", f"~{BYTES_PER_REPORT * k:,}",
                    f"{counted['reports_unsealed']:,}", f"{counted['batch_sealed']:,}",
                )
            )  # fmt: skip
        headings = (
            "items", "k", "paper: down", "down", "catalogue, once", "paper: up",
            "reports, unsealed", "up, sealed",
        )  # fmt: skip
        records = [counted for _, counted in found]
        title = f"{self.title}: bytes in one epoch"
        return [Table(self.name, title, headings, rows, records, [ENCODED])]

    def draw(self, figure: Figure) -> None:
        found = self._found()
        series = {
            "down": [float(counted["model"] + counted["manifest"]) for _, counted in found],
            "up, sealed": [float(counted["batch_sealed"]) for _, counted in found],
            "reports, unsealed": [float(counted["reports_unsealed"]) for _, counted in found],
        }
        axes = figure.subplots()
        labels = [f"{counted['items']:,} items, k {k}" for k, counted in found]
        bars(axes, labels, series, ["#1b6ca8", "#4f9d69", "#cccccc"])
        axes.set(xscale="log", xlabel="bytes of one client in one epoch")
        axes.legend(fontsize=8)

    def _grid(self) -> list[tuple[int | None, int]]:
        items = dict.fromkeys((self.scale.items[0], self.scale.items[-1]))
        return list(product(items, self.scale.full_reports))

    def _found(self) -> list[tuple[int, dict[str, Any]]]:
        return [
            (k, result)
            for (_, k), cell in zip(self._grid(), self.cells(), strict=True)
            if (result := self.store.get(cell)) is not None
        ]


UNSEALED = 4
"""Bytes of one report before it is sealed."""
_OPENS, _DAY = 1_800_000_000, 86_400


def count_bytes(data: Interactions, reports: int, factors: int) -> dict[str, Any]:
    """Encode one epoch of this catalogue for one client and measure it.

    HTTP's headers are not counted. The catalogue travels once, not every epoch.
    """
    settings = Settings.preset("loudest", reports=reports, factors=factors)
    catalogue = Catalogue.from_items(Item(*each) for each in data.list_items())
    model = encode_items(make_first_items(settings, len(catalogue.items)))
    signed = _signed(settings, catalogue, sha256(model).digest())
    assert signed.manifest.public_key is not None
    plain = np.zeros(reports, np.uint32)
    sealed = seal_reports(plain, signed.manifest.public_key, signed.hash)
    batch = Batch(signed.manifest.epoch, signed.hash, bytes(16), sealed).encode()
    return {
        "items": len(catalogue.items),
        "reports": reports,
        "factors": factors,
        "model": len(model),
        "manifest": len(signed.encode()),
        "catalogue_once": len(catalogue.raw),
        "batch_sealed": len(batch),
        "reports_unsealed": UNSEALED * reports,
    }


def _signed(settings: Settings, catalogue: Catalogue, model: bytes) -> SignedManifest:
    """A manifest in the middle of a training; keys of this moment, sizes of any."""
    items, asked = len(catalogue.items), Participation(least_clients=1000)
    manifest = Manifest(
        epoch=10,
        terms=Terms.from_settings(os.urandom(TRAINING_ID_BYTES), settings, asked, items),
        items=items,
        alpha=settings.alpha,
        regularization=settings.regularization,
        model=model,
        catalogue=catalogue.hash,
        public_key=derive_public_key(generate_epoch_key()),
        token_key=None,
        next_token_key=None,
        opens=_OPENS,
        closes=_OPENS + _DAY,
        epochs_left=10,
        reports_behind=50_000 * settings.reports,
    )
    return SignedManifest.make(manifest, Ed25519PrivateKey.generate())
