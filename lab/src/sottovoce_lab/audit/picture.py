"""What the proxy buys, at a glance: the attack on linked and on unlinked reports."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sottovoce.cli.figures import save_figure
from sottovoce_lab.audit.attack import Attack

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_attacks(attacks: Sequence[Attack], path: Path) -> None:
    def draw(figure: Figure) -> None:
        panels = figure.subplots(1, len(attacks), sharey=True, squeeze=False)[0]
        for axes, attack in zip(panels, attacks, strict=True):
            _draw(axes, attack)
        panels[0].set_ylabel("attacker's AUC (0.5: a guess)")
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
        first = attacks[0]
        what = f"Guessing one {first.question} of one person among {first.clients:,}"
        figure.suptitle(f"{what}; {first.trials:,} trials")

    save_figure(path, draw, size=(1 + 3.6 * len(attacks), 4))


def _draw(axes: Any, attack: Attack) -> None:
    totals = [point.total for point in attack.points]
    linked = [point.linked for point in attack.points]
    unlinked = [point.unlinked for point in attack.points]
    for curve, colour, label in ((linked, "#b3402a", "linked"), (unlinked, "#1b6ca8", "shuffled")):
        values, errors = [each.value for each in curve], [2 * each.error for each in curve]
        axes.errorbar(totals, values, errors, marker="o", color=colour, label=label, capsize=2)
    bounds = [point.bound for point in attack.points]
    axes.plot(totals, bounds, ":", color="#1b6ca8", label="no attack on shuffled exceeds this")
    axes.axhline(0.5, color="grey", linewidth=0.8)
    axes.set(xscale="log", ylim=(0.45, 1.02), xlabel="reports k T")
    axes.set_title(f"{attack.settings.mechanism}, epsilon {attack.settings.epsilon:g}")
    axes.grid(alpha=0.3)
