"""What attackers can do: how many people see the item that they push."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

from sottovoce.simulation.evaluation.metrics import Interval
from sottovoce_lab.paper.cells import Cell, Size
from sottovoce_lab.paper.grid import (
    PAPER_EPSILON,
    Family,
    get_subset_seed,
    make_settings,
    scale_people,
)
from sottovoce_lab.paper.plots import METHOD_COLOURS
from sottovoce_lab.paper.poisoning.attackers import STRATEGIES, Strategy
from sottovoce_lab.paper.poisoning.audience import KNOWN_PEOPLE, POPULARITY_BANDS
from sottovoce_lab.paper.poisoning.cell import (
    NO_ATTACKER,
    count_attackers,
    get_exposure_metric,
)
from sottovoce_lab.paper.tables import (
    MAIN_METRIC,
    Experiment,
    Table,
    format_interval,
    make_records,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


STRATEGY_LABELS = {
    "history": "invented history",
    "reports": "reports of choice",
    "adaptive": "adaptive",
}
# Number of honest people.
HONEST_USERS = 10_000
# Shares of attackers among all people.
ATTACKER_SHARES = (0.001, 0.01, 0.05)
# Whether the server defends itself, and the words and the line that stand for it.
DEFENCE_LABELS = {False: "none", True: "as by default"}
LINE_STYLES = {False: "-", True: ":"}
EXPOSURE_NOTE = (
    "Exposure@10: the share of honest people, of those who have not touched the item, who find it "
    "among the first ten of the whole catalogue. Attackers come in addition to honest people and "
    "are that share of all. The item is of the least popular tenth (cold), of the middle one "
    "(middling), or just below the most popular hundredth (popular), another one in every split."
)
ATTACKERS_NOTE = (
    "Invented history: honest code with the item among the most popular ones. Reports of choice: "
    "the item's row is moved towards a best-liked one's, without any randomness. Adaptive: "
    f"attackers also know {KNOWN_PEOPLE} people and the server's defence, try goals on the model "
    "published last, and push down better-ranked items with what is left."
)
DEFENCES_NOTE = (
    "Defence by default: a limit on how often one report counts, and no item moves farther in an "
    "epoch than three quarters of all."
)
NOTES = [EXPOSURE_NOTE, ATTACKERS_NOTE, DEFENCES_NOTE]


@dataclass(frozen=True)
class Attack:
    """An attack: strategy, pushed item, share of attackers, and whether the server is defended."""

    attacker: str
    pushed: str
    share: float
    defended: bool


def _leave_out_attackers(attack: Attack) -> Attack:
    return replace(attack, attacker=NO_ATTACKER, pushed=NO_ATTACKER, share=0.0)


class PoisoningExperiment(Experiment):
    """Number of people who see an item that attackers push, with and without a defence."""

    name = "poisoning"
    title = "What attackers can do"
    figure_size = (12.0, 6.5)

    def list_cells(self) -> list[Cell]:
        """Return the cells without attackers, and those of each attack."""
        trainings = [*self._list_unattacked(), *self._list_attacks()]
        return self.grid.list_cells(map(self._build_family, trainings))

    def build_tables(self) -> list[Table]:
        """Build the table of exposures."""
        rows, records = [], []
        for attack in [*self._list_unattacked(), *self._list_attacks()]:
            quality = self._read(attack)
            label = STRATEGY_LABELS.get(attack.attacker, NO_ATTACKER)
            about = {**asdict(attack), "attacker": label}
            records += make_records(quality, **about, metric=MAIN_METRIC)
            if attack.attacker == NO_ATTACKER:
                continue
            exposure = self._read_exposure(attack)
            before = self._read_exposure(attack, _leave_out_attackers(attack))
            about["metric"] = "exposure@10"
            records += make_records(exposure, **about)
            records += make_records(before, **{**about, "share": 0.0})
            rows.append(
                (
                    DEFENCE_LABELS[attack.defended], label, attack.pushed,
                     f"{attack.share:.1%}", format_interval(before),
                    format_interval(exposure), format_interval(quality),
                )
            )  # fmt: skip
        headings = (
            "defence", "attacker", "item", "attackers", "exposure without attackers", "exposure",
            "HR@10",
        )  # fmt: skip
        setup = (
            f"{self._get_size()}, eps {PAPER_EPSILON:g}, k {self.grid.table4_reports}, "
            f"{self.grid.epochs} epochs"
        )
        # Exposure without attackers is the same for any share of attackers.
        distinct = list({str(record): record for record in records}.values())
        notes = [*self._list_claims(), *NOTES] if records else NOTES
        title = f"{self.title}: exposure@10, {setup}"
        return [Table(self.name, title, headings, rows, distinct, notes)]

    def draw(self, figure: Figure) -> None:
        """Draw exposure by share of attackers, in a panel for each item and strategy."""
        panels: Any = figure.subplots(
            len(POPULARITY_BANDS), len(STRATEGIES), sharex=True, sharey=True
        )
        shares = self._get_shares()
        for (row, pushed), (column, strategy) in product(
            enumerate(POPULARITY_BANDS), enumerate(STRATEGIES)
        ):
            axes = panels[row][column]
            for defended in DEFENCE_LABELS:
                self._draw_line(axes, strategy, pushed, defended=defended)
            axes.set_title(f"{STRATEGY_LABELS[strategy]}, {pushed} item", fontsize=9)
            axes.set(xscale="log", ylim=(-0.02, 1.02))
            axes.set_xticks(shares, [f"{share:.1%}" for share in shares])
            axes.set_xticks([], minor=True)
            axes.grid(alpha=0.3)
        figure.supxlabel("share of attackers among all who report")
        figure.supylabel("exposure@10")
        handles = panels[0][0].get_legend_handles_labels()
        figure.legend(*handles, loc="outside right upper", fontsize=8)

    def _draw_line(self, axes: Any, strategy: Strategy, pushed: str, *, defended: bool) -> None:
        points = [
            (share, interval.mean)
            for share in self._get_shares()
            if (interval := self._read_exposure(Attack(strategy, pushed, share, defended)))
        ]
        axes.plot(
            [share for share, _ in points],
            [mean for _, mean in points],
            LINE_STYLES[defended],
            marker="o",
            markersize=3,
            color=METHOD_COLOURS["loudest"],
            label=f"defence: {DEFENCE_LABELS[defended]}",
        )

    def _list_claims(self) -> Iterator[str]:
        """Yield a sentence about each defence, by the worst of all runs."""
        people, _ = self.grid.count_users_and_items(self._get_size())
        for defended, label in DEFENCE_LABELS.items():
            claims = []
            for share in self._get_shares():
                attackers = count_attackers(people, share)
                rise = self._find_largest_rise(share, defended=defended)
                if rise is not None:
                    tokens = f"{attackers:,} of {people + attackers:,} tokens"
                    claims.append(f"{tokens} moved exposure by at most {rise:.4f}")
            if claims:
                yield f"Defence {label}: {'; '.join(claims)}."

    def _find_largest_rise(self, share: float, *, defended: bool) -> float | None:
        """Return the largest rise of exposure with at most this share of attackers."""
        rises = []
        for attack in self._list_attacks():
            # An attack with fewer attackers counts too, because some attackers may do nothing.
            if attack.defended == defended and attack.share <= share:
                metric = get_exposure_metric(attack.pushed)
                after = self.reader.read_values(self._build_family(attack), metric)
                unattacked = self._build_family(_leave_out_attackers(attack))
                before = self.reader.read_values(unattacked, metric)
                rises += [after[seed] - before[seed] for seed in after if seed in before]
        return max(rises, default=None)

    def _read(self, attack: Attack, metric: str = MAIN_METRIC) -> Interval | None:
        return self.reader.read_interval(self._build_family(attack), metric)

    def _read_exposure(self, attack: Attack, training: Attack | None = None) -> Interval | None:
        """Return the exposure of an attack's item, in another training if one is given."""
        return self._read(training or attack, get_exposure_metric(attack.pushed))

    def _list_attacks(self) -> list[Attack]:
        attacks = product(STRATEGIES, POPULARITY_BANDS, self._get_shares(), DEFENCE_LABELS)
        return [Attack(*attack) for attack in attacks]

    def _list_unattacked(self) -> list[Attack]:
        return [Attack(NO_ATTACKER, NO_ATTACKER, 0.0, defended) for defended in DEFENCE_LABELS]

    def _get_shares(self) -> tuple[float, ...]:
        return ATTACKER_SHARES[-1:] if self.grid.about.quick else ATTACKER_SHARES

    def _get_size(self) -> Size:
        wanted = scale_people(HONEST_USERS, self.grid.about)
        users = min(self.grid.users, key=lambda users: abs(users - wanted))
        return self.grid.make_small_size(users)

    def _build_family(self, attack: Attack) -> Family:
        size = self._get_size()
        users, items = self.grid.count_users_and_items(size)
        k, epochs = self.grid.table4_reports, self.grid.epochs
        settings = make_settings("loudest", PAPER_EPSILON, k, epochs, users=users, items=items)
        added = tuple(asdict(attack).items())

        def build_cell(seed: int) -> Cell:
            cell = Cell.from_settings("poisoning", size, settings, seed, draw=get_subset_seed(seed))
            return replace(cell, parameters=(*cell.parameters, *added))

        return build_cell
