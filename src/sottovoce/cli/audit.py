"""`sottovoce audit`: does the client keep its promise, and what does the proxy buy?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from sottovoce.cli import output
from sottovoce.cli.derived import training_options
from sottovoce.data import load
from sottovoce.errors import SettingsError
from sottovoce.experiments.audit import ALPHA, AttackPlan, AuditPlan, run_audit
from sottovoce.experiments.audit.picture import draw_attacks
from sottovoce.experiments.figures import figure_class
from sottovoce.mechanism import MECHANISMS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sottovoce.data import Interactions
    from sottovoce.experiments.audit import Attack, AuditResult

QUICK_SAMPLES, QUICK_CLIENTS, QUICK_TRIALS, QUICK_EPOCHS = 100_000, 400, 800, 5


@training_options(only=["epsilon", "reports", "epochs", "alpha"])
def audit(
    *,
    mechanism: Annotated[
        list[str] | None,
        typer.Option(help=f"{', '.join(MECHANISMS)}; may be repeated. Default: all."),
    ] = None,
    training: dict[str, Any],
    samples: Annotated[
        int, typer.Option(help="Reports of each audited person, from fresh entropy.")
    ] = 200_000,
    attack: Annotated[
        bool, typer.Option("--attack/--no-attack", help="Attack one person's reports as well.")
    ] = True,
    data: Annotated[
        str, typer.Option(help="Whom to attack: a name from `sottovoce data list`, or a path.")
    ] = "synthetic:N=1000,M=500,seed=0",
    clients: Annotated[
        int | None, typer.Option(help="Only so many people of it. Default: all.")
    ] = None,
    history: Annotated[
        bool,
        typer.Option("--history", help="Attack a whole history instead of one interaction."),
    ] = False,
    trials: Annotated[int, typer.Option(help="Attacks to try.")] = AttackPlan.trials,
    seed: Annotated[
        int, typer.Option(min=0, help="Of the attack's victims; never of the audited client.")
    ] = 0,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write every number to this file as well.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the attack to this PNG file.")] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help=f"At most {QUICK_SAMPLES:,} samples, {QUICK_CLIENTS} people, "
            f"{QUICK_TRIALS} trials, {QUICK_EPOCHS} epochs.",
        ),
    ] = False,
) -> None:
    """Audit the shipped client as a black box, then attack people's reports.

    The audit counts reports and proves, with exact intervals, an epsilon that the client is at
    least as bad as: it must not exceed the stated one, and come close to it. An honest
    client is accused once in a million audits. The attacker knows everything but one interaction
    of one person, and sees her reports linked to her, or shuffled among everybody's.

    The exit code is 1 if any check fails.

    Example: sottovoce audit --quick

    Example: sottovoce audit --mechanism loudest --epsilon 5 --no-attack --samples 1000000

    Example: sottovoce audit --data ml-1m --clients 2000 --json audit.json --plot audit.png
    """
    if plot and not attack:
        raise SettingsError("--plot draws the attack: leave out --no-attack")
    if plot:
        figure_class()
    plan = AuditPlan(
        mechanisms=tuple(mechanism) if mechanism else AuditPlan.mechanisms,
        samples=samples,
        **training,
        attack=_attack_plan(trials, seed, history=history) if attack else None,
    )
    if quick:
        plan, clients = _quicker(plan), min(clients or QUICK_CLIENTS, QUICK_CLIENTS)
    with output.messages.status("starting") as status:
        people = _people(data, clients, seed) if attack else None
        result = run_audit(plan, people, lambda what: status.update(escape(what)))
    show(result)
    if json_file:
        output.write_json(json_file, result.as_dict())
    if plot:
        draw_attacks(result.attacks, plot)
    if not result.passed:
        raise typer.Exit(1)


def show(result: AuditResult) -> None:
    """The verdicts, then the attack."""
    output.results.print(_verdicts(result))
    if result.attacks:
        output.results.print(_attacks(result.attacks))
        output.results.print(
            f"The attacker knows V and everything but one {result.attacks[0].question} of one of "
            f"{result.attacks[0].clients:,} people. V is trained once and held fixed.",
            highlight=False,
        )
    word = "passed" if result.passed else "FAILED"
    output.results.print(
        f"Audit {word}. All checks of the client together accuse an honest one with a chance of at "
        f"most {ALPHA:g}; too few samples to see are no accusation.",
        highlight=False,
    )


def _verdicts(result: AuditResult) -> Table:
    table = Table("mechanism", "check", "measured", "bound", "verdict", title="Audit")
    for check in result.checks:
        verdict = "pass" if check.passed else "[bold red]FAIL"
        table.add_row(
            check.mechanism, check.check, escape(check.measured), escape(check.bound), verdict
        )
    return table


def _attacks(attacks: Sequence[Attack]) -> Table:
    table = Table(
        "mechanism", "k", "T", "linked", "shuffled", "bound", title="The attacker's AUC +- error"
    )
    for attack in attacks:
        for point in attack.points:
            both = (f"{auc.value:.3f} +- {auc.error:.3f}" for auc in (point.linked, point.unlinked))
            name = attack.settings.mechanism
            table.add_row(name, f"{point.reports}", f"{point.epochs}", *both, f"{point.bound:.3f}")
    return table


def _attack_plan(trials: int, seed: int, *, history: bool) -> AttackPlan:
    crowds = max(2, min(AttackPlan.crowds, trials // 8))
    question = "history" if history else AttackPlan.question
    return AttackPlan(trials=trials, crowds=crowds, question=question, seed=seed)


def _quicker(plan: AuditPlan) -> AuditPlan:
    attack = plan.attack and replace(plan.attack, trials=min(plan.attack.trials, QUICK_TRIALS))
    return replace(
        plan,
        samples=min(plan.samples, QUICK_SAMPLES),
        epochs=min(plan.epochs or QUICK_EPOCHS, QUICK_EPOCHS),
        attack=attack,
    )


def _people(source: str, clients: int | None, seed: int) -> Interactions:
    people = load(source)
    if clients is not None and clients < 2:
        raise SettingsError(f"clients must be at least 2, got {clients}")
    if clients is not None and clients < people.histories.n_users:
        people = people.subset(users=clients, seed=seed)
    return people
