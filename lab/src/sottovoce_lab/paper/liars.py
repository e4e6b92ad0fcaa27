"""What liars can do: how many people are shown the item that they push. Not in the paper."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any, Literal, get_args

from sottovoce.simulation.evaluation import Interval
from sottovoce.training import Settings
from sottovoce_lab.paper.cells import Cell, Size
from sottovoce_lab.paper.lying.attackers import ATTACKERS, Attacker
from sottovoce_lab.paper.lying.defences import DEFENCES, GROUPS, TIMES, Defence
from sottovoce_lab.paper.lying.run import NOBODY, exposure_of, liars_among
from sottovoce_lab.paper.lying.targets import BANDS, SAMPLE
from sottovoce_lab.paper.rules import fcf_settings, settings_of
from sottovoce_lab.paper.scale import EPSILON, Family, Scale, drawn_with
from sottovoce_lab.paper.store import CellStore
from sottovoce_lab.paper.style import COLOURS
from sottovoce_lab.paper.tables import METRIC, Reader, Table, record, shown, signed

if TYPE_CHECKING:
    from matplotlib.figure import Figure


Attacked = Literal["paper", "loudest", "fcf"]

NAME = "liars"
TITLE = "What liars can do"
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
    f"Caps: as the live server has them. Rows: none moves farther than {TIMES:g} x the median row "
    f"in an epoch. Medians: of {GROUPS} sub-crowds of people; a server that gets shuffled reports "
    "cannot form them. All are tried against adaptive liars who push a cold item. FCF: a gradient "
    "longer than the longest honest one is refused, and there are no reports to cap."
)
NOTES = [WHAT, WHO, AGAINST]


@dataclass(frozen=True)
class Attack:
    attacked: Attacked
    attacker: Attacker
    pushed: str
    share: float


def cells(scale: Scale) -> list[Cell]:
    peace = [_peace(scale, *each) for each in _peaceful()]
    war = [
        _family(scale, attack, defence)
        for attack in _attacks(scale)
        for defence in _defences_against(attack)
    ]
    return scale.all_of([*peace, *war])


def tables(scale: Scale, store: CellStore) -> list[Table]:
    reader = Reader(store, scale)
    return [_exposures(scale, reader), _costs(scale, reader)]


def draw(scale: Scale, store: CellStore, figure: Figure) -> None:
    reader = Reader(store, scale)
    panels: Any = figure.subplots(len(BANDS), len(ATTACKERS), sharex=True, sharey=True)
    for (row, pushed), (column, attacker) in product(enumerate(BANDS), enumerate(ATTACKERS)):
        axes = panels[row][column]
        for attacked in ATTACKED:
            for defence in _defences(attacked):
                _line(axes, scale, reader, Attack(attacked, attacker, pushed, 0.0), defence)
        axes.set_title(f"{HOW[attacker]}, {pushed} item", fontsize=9)
        axes.set(xscale="log", ylim=(-0.02, 1.02))
        axes.set_xticks(_shares(scale), [f"{share:.1%}" for share in _shares(scale)])
        axes.set_xticks([], minor=True)
        axes.grid(alpha=0.3)
    figure.supxlabel("share of liars among all who report")
    figure.supylabel("exposure@10")
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside right upper", fontsize=8)


def _line(axes: Any, scale: Scale, reader: Reader, at: Attack, defence: Defence) -> None:
    found = [
        (share, _exposure(scale, reader, replace(at, share=share), defence))
        for share in _shares(scale)
    ]
    known = [(share, each.mean) for share, each in found if each is not None]
    axes.plot(
        [share for share, _ in known],
        [mean for _, mean in known],
        LINES[defence],
        marker="o",
        markersize=3,
        color=COLOURS["mf" if at.attacked == "fcf" else at.attacked],
        label=f"{LABELS[at.attacked]}, {defence}",
    )


def _exposures(scale: Scale, reader: Reader) -> Table:
    rows, records = [], []
    for attack in _attacks(scale):
        before = _before(scale, reader, attack, "none")
        found = {each: _exposure(scale, reader, attack, each) for each in DEFENCES}
        quality = {each: _quality(scale, reader, attack, each) for each in DEFENCES}
        about = {
            "attacked": attack.attacked,
            "attacker": attack.attacker,
            "pushed": attack.pushed,
            "share": attack.share,
        }
        for defence in DEFENCES:
            named = {**about, "defence": defence}
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
    size = _size(scale)
    how = f"{size}, eps {EPSILON:g}, k {scale.table4_reports}, {scale.epochs} epochs"
    notes = [*_sentences(scale, reader), *NOTES] if records else NOTES
    return Table(NAME, f"{TITLE}: exposure@10, {how}", headings, rows, records, notes)


def _costs(scale: Scale, reader: Reader) -> Table:
    """Of each defence where nobody lies."""
    rows, records = [], []
    for attacked, defence in _peaceful():
        family = _peace(scale, attacked, defence)
        found = reader.interval(family)
        loss = reader.gain(family, _peace(scale, attacked, "none"))
        records += record(found, attacked=attacked, defence=defence, metric=METRIC)
        rows.append((LABELS[attacked], defence, shown(found), signed(loss)))
    headings = ("method", "defence", "HR@10", "against none")
    return Table(f"{NAME}-cost", "What the defences cost without liars", headings, rows, records)


def _sentences(scale: Scale, reader: Reader) -> Iterator[str]:
    """What can be said of each method under each defence: the worst of all runs."""
    people, shares = _size(scale).users or scale.about.users, _shares(scale)
    for attacked in ATTACKED:
        for defence in _defences(attacked):
            worst = {share: _worst(scale, reader, attacked, defence, share) for share in shares}
            said = [
                f"{liars_among(people, share):,} of {people + liars_among(people, share):,} tokens "
                f"moved exposure by at most {rise:.4f}"
                for share, rise in worst.items()
                if rise is not None
            ]
            if said:
                yield f"{LABELS[attacked]}, defence {defence}: {'; '.join(said)}."


def _worst(
    scale: Scale, reader: Reader, attacked: Attacked, defence: Defence, share: float
) -> float | None:
    """The largest rise of exposure in any run with so many liars, or with fewer: some may rest."""
    rises = []
    for attack in _attacks(scale):
        if attack.attacked == attacked and attack.share <= share:
            metric = exposure_of(attack.pushed)
            after = reader.values(_family(scale, attack, defence), metric)
            before = reader.values(_peace(scale, attacked, defence), metric)
            rises += [after[seed] - before[seed] for seed in after if seed in before]
    return max(rises, default=None)


def _exposure(scale: Scale, reader: Reader, attack: Attack, defence: Defence) -> Interval | None:
    if defence not in _defences(attack.attacked):
        return None
    return reader.interval(_family(scale, attack, defence), exposure_of(attack.pushed))


def _quality(scale: Scale, reader: Reader, attack: Attack, defence: Defence) -> Interval | None:
    if defence not in _defences(attack.attacked):
        return None
    return reader.interval(_family(scale, attack, defence))


def _before(scale: Scale, reader: Reader, attack: Attack, defence: Defence) -> Interval | None:
    return reader.interval(_peace(scale, attack.attacked, defence), exposure_of(attack.pushed))


def _attacks(scale: Scale) -> list[Attack]:
    return [Attack(*each) for each in product(ATTACKED, ATTACKERS, BANDS, _shares(scale))]


def _peaceful() -> list[tuple[Attacked, Defence]]:
    return [(attacked, defence) for attacked in ATTACKED for defence in _defences(attacked)]


def _defences(attacked: Attacked) -> tuple[Defence, ...]:
    """Who sends gradients sends no reports to be capped."""
    return tuple(each for each in DEFENCES if (attacked, each) != ("fcf", "caps"))


def _defences_against(attack: Attack) -> tuple[Defence, ...]:
    """Only the strongest attacker is defended against, and only where they push a cold item."""
    strongest = (attack.attacker, attack.pushed) == (ATTACKERS[-1], next(iter(BANDS)))
    return _defences(attack.attacked) if strongest else ("none",)


def _shares(scale: Scale) -> tuple[float, ...]:
    return SHARES[-1:] if scale.about.quick else SHARES


def _size(scale: Scale) -> Size:
    return scale.small(min(scale.users, key=lambda users: abs(users - USERS)))


def _peace(scale: Scale, attacked: Attacked, defence: Defence) -> Family:
    return _cell(scale, attacked, attacker=NOBODY, defence=defence, pushed=NOBODY, share=0.0)


def _family(scale: Scale, attack: Attack, defence: Defence) -> Family:
    return _cell(
        scale,
        attack.attacked,
        attacker=attack.attacker,
        defence=defence,
        pushed=attack.pushed,
        share=attack.share,
    )


def _cell(scale: Scale, attacked: Attacked, **own: Any) -> Family:
    size, settings = _size(scale), _settings(scale, attacked)
    more = (("attacked", attacked), *own.items())

    def family(seed: int) -> Cell:
        cell = Cell.training("liars", size, settings, seed, draw=drawn_with(seed))
        return replace(cell, parameters=(*cell.parameters, *more))

    return family


def _settings(scale: Scale, attacked: Attacked) -> Settings:
    """As in the other experiments; FCF as in table 5."""
    if attacked == "fcf":
        return fcf_settings(scale.epochs)
    size = _size(scale)
    users, items = size.users or scale.about.users, size.items or scale.about.items
    return settings_of(
        attacked, EPSILON, scale.table4_reports, scale.epochs, users=users, items=items
    )
