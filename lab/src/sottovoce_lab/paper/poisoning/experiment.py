"""What attackers can do: how many people see the item that they push."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any, Literal, get_args

from sottovoce.simulation.evaluation.metrics import Interval
from sottovoce.training import Settings
from sottovoce_lab.paper.cells import Cell, Size
from sottovoce_lab.paper.grid import (
    PAPER_EPSILON,
    Family,
    get_subset_seed,
    make_fcf_settings,
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
from sottovoce_lab.paper.poisoning.defences import DEFENCES, SUB_CROWD_COUNT, Defence
from sottovoce_lab.paper.tables import (
    MAIN_METRIC,
    Experiment,
    Table,
    format_difference,
    format_interval,
    make_records,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


AttackedMethod = Literal["paper", "loudest", "fcf"]
ATTACKED_METHODS: tuple[AttackedMethod, ...] = get_args(AttackedMethod)
ATTACKED_LABELS = {"paper": "preset paper", "loudest": "loudest", "fcf": "FCF (not private)"}
STRATEGY_LABELS = {
    "history": "invented history",
    "reports": "reports of choice",
    "adaptive": "adaptive",
}
# Number of honest people.
HONEST_USERS = 10_000
# Shares of attackers among all people.
ATTACKER_SHARES = (0.001, 0.01, 0.05)
LINE_STYLES: dict[Defence, str] = {"none": "-", "caps": "--", "rows": ":", "medians": "-."}
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
    "Caps: a limit on how often one report counts. Rows: caps, and no item moves farther in an "
    "epoch than three quarters of all, as the live server has it by default. Medians: of "
    f"{SUB_CROWD_COUNT} sub-crowds of people; a server that gets shuffled reports cannot form "
    "them. Caps and medians are tried against adaptive attackers who push a cold item. FCF: a "
    "gradient longer than the longest honest one is refused, and there are no reports to cap."
)
NOTES = [EXPOSURE_NOTE, ATTACKERS_NOTE, DEFENCES_NOTE]


@dataclass(frozen=True)
class Attack:
    """An attack: method and defence, strategy, pushed item, and share of attackers."""

    attacked: AttackedMethod
    attacker: Strategy
    pushed: str
    share: float


def _list_defences(attacked: AttackedMethod) -> tuple[Defence, ...]:
    # FCF has gradients, so there are no reports to cap.
    return tuple(name for name in DEFENCES if (attacked, name) != ("fcf", "caps"))


def _list_defences_against(attack: Attack) -> tuple[Defence, ...]:
    """Return all defences against the strongest attack; for others, none and the live server's."""
    strongest = (STRATEGIES[-1], next(iter(POPULARITY_BANDS)))
    is_strongest = (attack.attacker, attack.pushed) == strongest
    return _list_defences(attack.attacked) if is_strongest else ("none", "rows")


# Each method with each of its defences, without attackers.
UNATTACKED = [
    (attacked, defence) for attacked in ATTACKED_METHODS for defence in _list_defences(attacked)
]


class PoisoningExperiment(Experiment):
    """Number of people who see an item that attackers push, and the costs of defences."""

    name = "poisoning"
    title = "What attackers can do"
    figure_size = (12.0, 6.5)

    def list_cells(self) -> list[Cell]:
        """Return the cells without attackers, and those of each attack and defence."""
        unattacked = [self._get_unattacked(*pair) for pair in UNATTACKED]
        attacked = [
            self._get_attacked(attack, defence)
            for attack in self._list_attacks()
            for defence in _list_defences_against(attack)
        ]
        return self.grid.list_cells([*unattacked, *attacked])

    def build_tables(self) -> list[Table]:
        """Build the table of exposures, and that of the defences' costs."""
        return [self._build_exposures(), self._build_costs()]

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
            for attacked, defence in UNATTACKED:
                self._draw_line(axes, Attack(attacked, strategy, pushed, 0.0), defence)
            axes.set_title(f"{STRATEGY_LABELS[strategy]}, {pushed} item", fontsize=9)
            axes.set(xscale="log", ylim=(-0.02, 1.02))
            axes.set_xticks(shares, [f"{share:.1%}" for share in shares])
            axes.set_xticks([], minor=True)
            axes.grid(alpha=0.3)
        figure.supxlabel("share of attackers among all who report")
        figure.supylabel("exposure@10")
        handles = panels[0][0].get_legend_handles_labels()
        figure.legend(*handles, loc="outside right upper", fontsize=8)

    def _draw_line(self, axes: Any, attack: Attack, defence: Defence) -> None:
        metric = get_exposure_metric(attack.pushed)
        points = [
            (share, interval.mean)
            for share in self._get_shares()
            if (interval := self._read(replace(attack, share=share), defence, metric))
        ]
        axes.plot(
            [share for share, _ in points],
            [mean for _, mean in points],
            LINE_STYLES[defence],
            marker="o",
            markersize=3,
            color=METHOD_COLOURS["mf" if attack.attacked == "fcf" else attack.attacked],
            label=f"{ATTACKED_LABELS[attack.attacked]}, {defence}",
        )

    def _build_exposures(self) -> Table:
        rows, records = [], []
        for attack in self._list_attacks():
            metric = get_exposure_metric(attack.pushed)
            before = self.reader.read_interval(
                self._get_unattacked(attack.attacked, "none"), metric
            )
            exposures = {name: self._read(attack, name, metric) for name in DEFENCES}
            qualities = {name: self._read(attack, name) for name in DEFENCES}
            for defence in DEFENCES:
                about = {**asdict(attack), "defence": defence}
                records += make_records(exposures[defence], **about, metric="exposure@10")
                records += make_records(qualities[defence], **about, metric=MAIN_METRIC)
            rows.append(
                (
                    ATTACKED_LABELS[attack.attacked], STRATEGY_LABELS[attack.attacker],
                    attack.pushed, f"{attack.share:.1%}", format_interval(before),
                    *map(format_interval, exposures.values()), format_interval(qualities["none"]),
                )
            )  # fmt: skip
        headings = (
            "method", "attacker", "item", "attackers", "without attackers",
            *(f"defence: {name}" for name in DEFENCES), "HR@10, no defence",
        )  # fmt: skip
        setup = (
            f"{self._get_size()}, eps {PAPER_EPSILON:g}, k {self.grid.table4_reports}, "
            f"{self.grid.epochs} epochs"
        )
        notes = [*self._list_claims(), *NOTES] if records else NOTES
        title = f"{self.title}: exposure@10, {setup}"
        return Table(self.name, title, headings, rows, records, notes)

    def _build_costs(self) -> Table:
        rows, records = [], []
        for attacked, defence in UNATTACKED:
            family = self._get_unattacked(attacked, defence)
            interval = self.reader.read_interval(family)
            loss = self.reader.read_gain(family, self._get_unattacked(attacked, "none"))
            records += make_records(
                interval, attacked=attacked, defence=defence, metric=MAIN_METRIC
            )
            label = ATTACKED_LABELS[attacked]
            rows.append((label, defence, format_interval(interval), format_difference(loss)))
        headings = ("method", "defence", "HR@10", "against none")
        title = "What the defences cost without attackers"
        return Table(f"{self.name}-cost", title, headings, rows, records)

    def _list_claims(self) -> Iterator[str]:
        """Yield a sentence about each method under each defence, by the worst of all runs."""
        people, _ = self.grid.count_users_and_items(self._get_size())
        for attacked, defence in UNATTACKED:
            claims = []
            for share in self._get_shares():
                attackers = count_attackers(people, share)
                rise = self._find_largest_rise(attacked, defence, share)
                if rise is not None:
                    tokens = f"{attackers:,} of {people + attackers:,} tokens"
                    claims.append(f"{tokens} moved exposure by at most {rise:.4f}")
            if claims:
                yield f"{ATTACKED_LABELS[attacked]}, defence {defence}: {'; '.join(claims)}."

    def _find_largest_rise(
        self, attacked: AttackedMethod, defence: Defence, share: float
    ) -> float | None:
        """Return the largest rise of exposure with at most this share of attackers."""
        rises = []
        for attack in self._list_attacks():
            # An attack with fewer attackers counts too, because some attackers may do nothing.
            if attack.attacked == attacked and attack.share <= share:
                metric = get_exposure_metric(attack.pushed)
                after = self.reader.read_values(self._get_attacked(attack, defence), metric)
                before = self.reader.read_values(self._get_unattacked(attacked, defence), metric)
                rises += [after[seed] - before[seed] for seed in after if seed in before]
        return max(rises, default=None)

    def _read(self, attack: Attack, defence: Defence, metric: str = MAIN_METRIC) -> Interval | None:
        if defence not in _list_defences(attack.attacked):
            return None
        return self.reader.read_interval(self._get_attacked(attack, defence), metric)

    def _list_attacks(self) -> list[Attack]:
        shares = self._get_shares()
        attacks = product(ATTACKED_METHODS, STRATEGIES, POPULARITY_BANDS, shares)
        return [Attack(*attack) for attack in attacks]

    def _get_shares(self) -> tuple[float, ...]:
        return ATTACKER_SHARES[-1:] if self.grid.about.quick else ATTACKER_SHARES

    def _get_size(self) -> Size:
        wanted = scale_people(HONEST_USERS, self.grid.about)
        users = min(self.grid.users, key=lambda users: abs(users - wanted))
        return self.grid.make_small_size(users)

    def _get_unattacked(self, attacked: AttackedMethod, defence: Defence) -> Family:
        return self._build_family(
            attacked, attacker=NO_ATTACKER, defence=defence, pushed=NO_ATTACKER, share=0.0
        )

    def _get_attacked(self, attack: Attack, defence: Defence) -> Family:
        return self._build_family(
            attack.attacked,
            attacker=attack.attacker,
            defence=defence,
            pushed=attack.pushed,
            share=attack.share,
        )

    def _build_family(self, attacked: AttackedMethod, **attack_parameters: Any) -> Family:
        size, settings = self._get_size(), self._make_settings(attacked)
        added = (("attacked", attacked), *attack_parameters.items())

        def build_cell(seed: int) -> Cell:
            cell = Cell.from_settings("poisoning", size, settings, seed, draw=get_subset_seed(seed))
            return replace(cell, parameters=(*cell.parameters, *added))

        return build_cell

    def _make_settings(self, attacked: AttackedMethod) -> Settings:
        if attacked == "fcf":
            return make_fcf_settings(self.grid.epochs)
        users, items = self.grid.count_users_and_items(self._get_size())
        k, epochs = self.grid.table4_reports, self.grid.epochs
        return make_settings(attacked, PAPER_EPSILON, k, epochs, users=users, items=items)
