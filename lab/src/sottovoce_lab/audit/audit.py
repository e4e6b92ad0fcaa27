"""The whole audit: every mechanism's client, then the attack on people's data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sottovoce.cli.figures import save_figure
from sottovoce.core import MECHANISMS
from sottovoce.data import Interactions
from sottovoce.errors import SettingsError
from sottovoce.settings import check, setting
from sottovoce.training import Settings
from sottovoce_lab.audit.attack import Attack, AttackPlan, AttackPoint, run_attack
from sottovoce_lab.audit.clients import Maker, live_client
from sottovoce_lab.audit.evidence import ALPHA, Check, Evidence, judge
from sottovoce_lab.audit.sampling import entropy_facts, gather

if TYPE_CHECKING:
    from matplotlib.figure import Figure


FEWEST_SAMPLES = 1000
ERRORS = 6
"""Standard errors by which an attack may exceed its bound: one point in 10^9 does by chance."""


@dataclass(frozen=True)
class AuditPlan:
    mechanisms: tuple[str, ...] = tuple(MECHANISMS)
    epsilon: float = 2.5
    samples: int = setting(
        200_000, "reports of each of two people, in each scene", min_value=FEWEST_SAMPLES
    )
    reports: int | None = None
    """k of the attacked training; None here and below: the preset's."""
    epochs: int | None = None
    alpha: float | None = None
    attack: AttackPlan | None = field(default_factory=AttackPlan)
    """None: no attack."""

    def __post_init__(self) -> None:
        check(self)
        if not self.mechanisms or set(self.mechanisms) - set(MECHANISMS):
            known, got = ", ".join(MECHANISMS), ", ".join(self.mechanisms)
            raise SettingsError(f"mechanisms must be some of {known}; got {got!r}")
        if len(set(self.mechanisms)) < len(self.mechanisms):
            raise SettingsError(f"mechanisms must differ, got {', '.join(self.mechanisms)}")
        self.settings()

    def settings(self) -> list[Settings]:
        return [
            Settings.preset(
                mechanism,
                epsilon=self.epsilon,
                reports=self.reports,
                epochs=self.epochs,
                alpha=self.alpha,
            )
            for mechanism in self.mechanisms
        ]


@dataclass(frozen=True)
class AuditResult:
    """Every verdict, and the attacks behind the last of them."""

    plan: AuditPlan
    checks: tuple[Check, ...]
    attacks: tuple[Attack, ...]

    @property
    def passed(self) -> bool:
        return all(check.passed for check in self.checks)

    def as_dict(self) -> dict[str, Any]:
        return {
            "passed": self.passed,
            "false_alarm_rate": ALPHA,
            "plan": asdict(self.plan),
            "checks": [asdict(check) for check in self.checks],
            "attacks": [asdict(each) for each in self.attacks],
        }


def examine(make: Maker, settings: Settings, samples: int) -> list[Evidence]:
    """All the evidence about the clients that `make` makes, for `judge`."""
    return [*gather(make, settings, samples), *entropy_facts(make, settings)]


def run_audit(
    plan: AuditPlan, data: Interactions | None = None, watch: Callable[[str], None] = lambda _: None
) -> AuditResult:
    """Audit the shipped client; with data and a plan for it, attack as well."""
    evidence: list[Evidence] = []
    for settings in plan.settings():
        watch(f"{settings.mechanism}: {plan.samples:,} reports of each person")
        evidence += examine(live_client, settings, plan.samples)
    checks = judge(evidence)
    attacks: list[Attack] = []
    if plan.attack is not None and data is not None:
        attacks = [
            run_attack(data.histories, settings, plan.attack, watch) for settings in plan.settings()
        ]
    checks += [attack_check(each) for each in attacks]
    return AuditResult(plan, tuple(checks), tuple(attacks))


def attack_check(found: Attack) -> Check:
    """Unlinked reports betray no more than the shuffle's proof allows, wherever one looks."""

    def excess(point: AttackPoint) -> float:
        return point.unlinked.value - point.bound - ERRORS * point.unlinked.error

    beyond = [point for point in found.points if excess(point) > 0]
    shown = max(beyond, key=excess) if beyond else found.points[-1]
    measured = (
        f"AUC {shown.unlinked.value:.3f} +- {shown.unlinked.error:.3f} unlinked, "
        f"{shown.linked.value:.3f} linked (k T = {shown.total:,})"
    )
    return Check(
        found.settings.mechanism,
        "attack on the shuffle",
        measured,
        f"<= {shown.bound:.3f}",
        not beyond,
    )


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
