"""The whole audit: the client of every mechanism, then the attack on people's data."""

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
from sottovoce_lab.audit.clients import ClientFactory, make_live_client
from sottovoce_lab.audit.entropy import gather_facts
from sottovoce_lab.audit.evidence import Evidence
from sottovoce_lab.audit.sampling import gather_evidence
from sottovoce_lab.audit.verdicts import FALSE_ALARM_RATE, Check, judge

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# With fewer reports, an audit cannot find a fault.
MIN_SAMPLES = 1000
# Number of standard errors by which an attack may exceed its bound. By chance, one point in 10^9
# exceeds it by more.
MAX_STANDARD_ERRORS = 6


@dataclass(frozen=True)
class AuditPlan:
    """The mechanisms to audit, the number of reports, and the attack."""

    mechanisms: tuple[str, ...] = tuple(MECHANISMS)
    epsilon: float = 2.5
    samples: int = setting(
        200_000, "reports of each of two people, in each scene", min_value=MIN_SAMPLES
    )
    reports: int | None = None
    """Number of reports in an epoch of the attacked training; None: the preset's."""
    epochs: int | None = None
    """T of the attacked training; None: the preset's."""
    alpha: float | None = None
    """Weight of touched items in the attacked training; None: the preset's."""
    attack: AttackPlan | None = field(default_factory=AttackPlan)
    """The attack, or None to leave it out."""

    def __post_init__(self) -> None:
        check(self)
        if not self.mechanisms or set(self.mechanisms) - set(MECHANISMS):
            names = ", ".join(MECHANISMS)
            got = ", ".join(self.mechanisms)
            raise SettingsError(f"mechanisms must be some of {names}; got {got!r}")
        if len(set(self.mechanisms)) < len(self.mechanisms):
            raise SettingsError(f"mechanisms must differ, got {', '.join(self.mechanisms)}")
        self.list_settings()

    def list_settings(self) -> list[Settings]:
        """Return the settings of the training of each mechanism."""
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
    """The verdicts of an audit, of which the last are about its attacks."""

    plan: AuditPlan
    checks: tuple[Check, ...]
    attacks: tuple[Attack, ...]

    @property
    def passed(self) -> bool:
        """Whether all checks passed."""
        return all(check.passed for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        """Return the content of the JSON file."""
        return {
            "passed": self.passed,
            "false_alarm_rate": FALSE_ALARM_RATE,
            "plan": asdict(self.plan),
            "checks": [asdict(check) for check in self.checks],
            "attacks": [asdict(attack) for attack in self.attacks],
        }


def examine(make: ClientFactory, settings: Settings, samples: int) -> list[Evidence]:
    """Return all evidence about the clients that `make` makes, for `judge`."""
    return [*gather_evidence(make, settings, samples), *gather_facts(make, settings)]


def run_audit(
    plan: AuditPlan, data: Interactions | None = None, watch: Callable[[str], None] = lambda _: None
) -> AuditResult:
    """Audit the shipped client, and attack reports if there are data and a plan for it."""
    evidence: list[Evidence] = []
    for settings in plan.list_settings():
        watch(f"{settings.mechanism}: {plan.samples:,} reports of each person")
        evidence += examine(make_live_client, settings, plan.samples)
    # Judge all evidence together, because the rate of false alarms is divided among all checks.
    checks = judge(evidence)
    attacks: list[Attack] = []
    if plan.attack is not None and data is not None:
        attacks = [
            run_attack(data.histories, settings, plan.attack, watch)
            for settings in plan.list_settings()
        ]
    checks += [check_attack(attack) for attack in attacks]
    return AuditResult(plan, tuple(checks), tuple(attacks))


def check_attack(attack: Attack) -> Check:
    """Check at every point that unlinked reports reveal no more than the shuffle's proof allows."""

    def compute_excess(point: AttackPoint) -> float:
        # The measured AUC may exceed the bound by chance, so its standard error is allowed for.
        return point.unlinked.value - point.bound - MAX_STANDARD_ERRORS * point.unlinked.error

    too_high = [point for point in attack.points if compute_excess(point) > 0]
    # Show the point that exceeds its bound most. If none does, show the point with the most
    # reports, at which a leak would be largest.
    example = max(too_high, key=compute_excess) if too_high else attack.points[-1]
    measured = (
        f"AUC {example.unlinked.value:.3f} +- {example.unlinked.error:.3f} unlinked, "
        f"{example.linked.value:.3f} linked (k T = {example.total_reports:,})"
    )
    return Check(
        attack.settings.mechanism,
        "attack on the shuffle",
        measured,
        f"<= {example.bound:.3f}",
        not too_high,
    )


def draw_attacks(attacks: Sequence[Attack], path: Path) -> None:
    """Draw the AUC of all attacks, with their bounds, to a file."""

    def draw(figure: Figure) -> None:
        panels = figure.subplots(1, len(attacks), sharey=True, squeeze=False)[0]
        for axes, attack in zip(panels, attacks, strict=True):
            _draw_attack(axes, attack)
        panels[0].set_ylabel("attacker's AUC (0.5: a guess)")
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
        first = attacks[0]
        what = f"Guessing one {first.question} of one person among {first.clients:,}"
        figure.suptitle(f"{what}; {first.trials:,} trials")

    save_figure(path, draw, size=(1 + 3.6 * len(attacks), 4))


def _draw_attack(axes: Any, attack: Attack) -> None:
    totals = [point.total_reports for point in attack.points]
    linked = [point.linked for point in attack.points]
    unlinked = [point.unlinked for point in attack.points]
    for curve, colour, label in ((linked, "#b3402a", "linked"), (unlinked, "#1b6ca8", "shuffled")):
        values, errors = [auc.value for auc in curve], [2 * auc.error for auc in curve]
        axes.errorbar(totals, values, errors, marker="o", color=colour, label=label, capsize=2)
    bounds = [point.bound for point in attack.points]
    axes.plot(totals, bounds, ":", color="#1b6ca8", label="no attack on shuffled exceeds this")
    axes.axhline(0.5, color="grey", linewidth=0.8)
    axes.set(xscale="log", ylim=(0.45, 1.02), xlabel="reports k T")
    axes.set_title(f"{attack.settings.mechanism}, epsilon {attack.settings.epsilon:g}")
    axes.grid(alpha=0.3)
