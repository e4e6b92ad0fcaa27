"""What liars can do: how many people are shown the item that they push. Not in the paper."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any, Literal, get_args

from sottovoce.simulation.evaluation.metrics import Interval
from sottovoce.training import Settings
from sottovoce_lab.paper.cells import Cell, Size
from sottovoce_lab.paper.lying import (
    ATTACKERS,
    BANDS,
    DEFENCES,
    GROUPS,
    NOBODY,
    SAMPLE,
    Attacker,
    Defence,
    exposure_of,
    liars_among,
)
from sottovoce_lab.paper.scale import EPSILON, Family, drawn_with, fcf_settings, scaled, settings_of
from sottovoce_lab.paper.tables import COLOURS, METRIC, Experiment, Table, record, shown, signed

if TYPE_CHECKING:
    from matplotlib.figure import Figure


Attacked = Literal["paper", "loudest", "fcf"]
ATTACKED: tuple[Attacked, ...] = get_args(Attacked)
LABELS = {"paper": "preset paper", "loudest": "loudest", "fcf": "FCF (not private)"}
HOW = {"history": "invented history", "reports": "reports of choice", "adaptive": "adaptive"}
USERS = 10_000
SHARES = (0.001, 0.01, 0.05)
LINES: dict[Defence, str] = {"none": "-", "caps": "--", "rows": ":", "medians": "-."}
WHAT = (
    "Exposure@10: the share of honest people, of those who have not touched the item, who find it "
    "among the first ten of the whole catalogue. Liars come in addition to honest people and are "
    "that share of all. The item is of the least popular tenth (cold), of the middle one "
    "(middling), or just below the most popular hundredth (popular), another one in every split."
)
WHO = (
    "Invented history: honest code with the item among the most popular ones. Reports of choice: "
    "the item's row is moved towards a best liked one's, without any randomness. Adaptive: liars "
    f"also know {SAMPLE} people and the server's defence, try goals on the model published last, "
    "and push down the items in the way with what is left."
)
AGAINST = (
    "Caps: on how often one report counts. Rows: caps, and no item moves farther in an epoch than "
    "three quarters of all, as the live server has it by default. Medians: of "
    f"{GROUPS} sub-crowds of people; a server that gets shuffled reports cannot form them. "
    "Caps and medians are tried against adaptive liars who push a cold item. FCF: a gradient "
    "longer than the longest honest one is refused, and there are no reports to cap."
)
NOTES = [WHAT, WHO, AGAINST]


@dataclass(frozen=True)
class Attack:
    attacked: Attacked
    attacker: Attacker
    pushed: str
    share: float


def _peaceful() -> list[tuple[Attacked, Defence]]:
    return [(attacked, defence) for attacked in ATTACKED for defence in _defences(attacked)]


def _defences(attacked: Attacked) -> tuple[Defence, ...]:
    """Who sends gradients sends no reports to be capped."""
    return tuple(each for each in DEFENCES if (attacked, each) != ("fcf", "caps"))


def _defences_against(attack: Attack) -> tuple[Defence, ...]:
    """What the live server has against all; the others where adaptive liars push a cold item."""
    strongest = (attack.attacker, attack.pushed) == (ATTACKERS[-1], next(iter(BANDS)))
    return _defences(attack.attacked) if strongest else ("none", "rows")


class LiarsShown(Experiment):
    """How many people are shown an item that liars push, and what defences cost."""

    name = "liars"
    title = "What liars can do"
    picture = (12.0, 6.5)

    def cells(self) -> list[Cell]:
        peace = [self._peace(*each) for each in _peaceful()]
        war = [
            self._family(attack, defence)
            for attack in self._attacks()
            for defence in _defences_against(attack)
        ]
        return self.scale.all_of([*peace, *war])

    def tables(self) -> list[Table]:
        return [self._exposures(), self._costs()]

    def draw(self, figure: Figure) -> None:
        panels: Any = figure.subplots(len(BANDS), len(ATTACKERS), sharex=True, sharey=True)
        for (row, pushed), (column, attacker) in product(enumerate(BANDS), enumerate(ATTACKERS)):
            axes = panels[row][column]
            for attacked in ATTACKED:
                for defence in _defences(attacked):
                    self._line(axes, Attack(attacked, attacker, pushed, 0.0), defence)
            axes.set_title(f"{HOW[attacker]}, {pushed} item", fontsize=9)
            axes.set(xscale="log", ylim=(-0.02, 1.02))
            axes.set_xticks(self._shares(), [f"{share:.1%}" for share in self._shares()])
            axes.set_xticks([], minor=True)
            axes.grid(alpha=0.3)
        figure.supxlabel("share of liars among all who report")
        figure.supylabel("exposure@10")
        handles = panels[0][0].get_legend_handles_labels()
        figure.legend(*handles, loc="outside right upper", fontsize=8)

    def _line(self, axes: Any, at: Attack, defence: Defence) -> None:
        known = [
            (share, found.mean)
            for share in self._shares()
            if (found := self._found(replace(at, share=share), defence, exposure_of(at.pushed)))
        ]
        axes.plot(
            [share for share, _ in known],
            [mean for _, mean in known],
            LINES[defence],
            marker="o",
            markersize=3,
            color=COLOURS["mf" if at.attacked == "fcf" else at.attacked],
            label=f"{LABELS[at.attacked]}, {defence}",
        )

    def _exposures(self) -> Table:
        rows, records = [], []
        for attack in self._attacks():
            metric = exposure_of(attack.pushed)
            before = self.reader.interval(self._peace(attack.attacked, "none"), metric)
            found = {each: self._found(attack, each, metric) for each in DEFENCES}
            quality = {each: self._found(attack, each) for each in DEFENCES}
            for defence in DEFENCES:
                named = {**asdict(attack), "defence": defence}
                records += record(found[defence], **named, metric="exposure@10")
                records += record(quality[defence], **named, metric=METRIC)
            rows.append(
                (
                    LABELS[attack.attacked], HOW[attack.attacker], attack.pushed,
                    f"{attack.share:.1%}", shown(before), *(shown(each) for each in found.values()),
                    shown(quality["none"]),
                )
            )  # fmt: skip
        headings = (
            "method", "attacker", "item", "liars", "without liars",
            *(f"defence: {each}" for each in DEFENCES), "HR@10, no defence",
        )  # fmt: skip
        size = self._size()
        how = f"{size}, eps {EPSILON:g}, k {self.scale.table4_reports}, {self.scale.epochs} epochs"
        notes = [*self._sentences(), *NOTES] if records else NOTES
        return Table(self.name, f"{self.title}: exposure@10, {how}", headings, rows, records, notes)

    def _costs(self) -> Table:
        """Of each defence where nobody lies."""
        rows, records = [], []
        for attacked, defence in _peaceful():
            family = self._peace(attacked, defence)
            found = self.reader.interval(family)
            loss = self.reader.gain(family, self._peace(attacked, "none"))
            records += record(found, attacked=attacked, defence=defence, metric=METRIC)
            rows.append((LABELS[attacked], defence, shown(found), signed(loss)))
        headings = ("method", "defence", "HR@10", "against none")
        title = "What the defences cost without liars"
        return Table(f"{self.name}-cost", title, headings, rows, records)

    def _sentences(self) -> Iterator[str]:
        """What can be said of each method under each defence: the worst of all runs."""
        people, shares = self.scale.public(self._size())[0], self._shares()
        for attacked in ATTACKED:
            for defence in _defences(attacked):
                said = []
                for share in shares:
                    liars, rise = liars_among(people, share), self._worst(attacked, defence, share)
                    if rise is not None:
                        moved = f"moved exposure by at most {rise:.4f}"
                        said.append(f"{liars:,} of {people + liars:,} tokens {moved}")
                if said:
                    yield f"{LABELS[attacked]}, defence {defence}: {'; '.join(said)}."

    def _worst(self, attacked: Attacked, defence: Defence, share: float) -> float | None:
        """The largest rise of exposure with so many liars, or with fewer: some may rest."""
        rises = []
        for attack in self._attacks():
            if attack.attacked == attacked and attack.share <= share:
                metric = exposure_of(attack.pushed)
                after = self.reader.values(self._family(attack, defence), metric)
                before = self.reader.values(self._peace(attacked, defence), metric)
                rises += [after[seed] - before[seed] for seed in after if seed in before]
        return max(rises, default=None)

    def _found(self, attack: Attack, defence: Defence, metric: str = METRIC) -> Interval | None:
        if defence not in _defences(attack.attacked):
            return None
        return self.reader.interval(self._family(attack, defence), metric)

    def _attacks(self) -> list[Attack]:
        return [Attack(*each) for each in product(ATTACKED, ATTACKERS, BANDS, self._shares())]

    def _shares(self) -> tuple[float, ...]:
        return SHARES[-1:] if self.scale.about.quick else SHARES

    def _size(self) -> Size:
        wanted = scaled(USERS, self.scale.about)
        return self.scale.small(min(self.scale.users, key=lambda users: abs(users - wanted)))

    def _peace(self, attacked: Attacked, defence: Defence) -> Family:
        return self._cell(attacked, attacker=NOBODY, defence=defence, pushed=NOBODY, share=0.0)

    def _family(self, attack: Attack, defence: Defence) -> Family:
        return self._cell(
            attack.attacked,
            attacker=attack.attacker,
            defence=defence,
            pushed=attack.pushed,
            share=attack.share,
        )

    def _cell(self, attacked: Attacked, **own: Any) -> Family:
        size, settings = self._size(), self._settings(attacked)
        more = (("attacked", attacked), *own.items())

        def family(seed: int) -> Cell:
            cell = Cell.training("liars", size, settings, seed, draw=drawn_with(seed))
            return replace(cell, parameters=(*cell.parameters, *more))

        return family

    def _settings(self, attacked: Attacked) -> Settings:
        """As in the other experiments; FCF as in table 5."""
        if attacked == "fcf":
            return fcf_settings(self.scale.epochs)
        users, items = self.scale.public(self._size())
        k, epochs = self.scale.table4_reports, self.scale.epochs
        return settings_of(attacked, EPSILON, k, epochs, users=users, items=items)
