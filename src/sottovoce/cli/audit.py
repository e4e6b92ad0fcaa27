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
from sottovoce.cli.options import DataSource, JsonFile, Mechanisms, optional
from sottovoce.data import load
from sottovoce.errors import SettingsError
from sottovoce.experiments.audit import ALPHA, AttackPlan, AuditPlan, run_audit
from sottovoce.experiments.audit.picture import draw_attacks
from sottovoce.experiments.figures import figure_class

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sottovoce.data import Interactions
    from sottovoce.experiments.audit import Attack, AuditResult

QUICK_SAMPLES, QUICK_CLIENTS, QUICK_TRIALS, QUICK_EPOCHS = 100_000, 400, 800, 5


@training_options(only=["epsilon", "reports", "epochs", "alpha"])
def audit(
    *,
    mechanism: Mechanisms = None,
    training: dict[str, Any],
    samples: Annotated[
        int, typer.Option(help="Reports to sample of each of the two people in a test case.")
    ] = 200_000,
    attack: Annotated[
        bool, typer.Option("--attack/--no-attack", help="Also attack the reports of single people.")
    ] = True,
    data: DataSource = "synthetic:N=1000,M=500,seed=0",
    clients: Annotated[int | None, optional("People of the data set who take part.", "all")] = None,
    history: Annotated[
        bool, typer.Option("--history", help="Guess a whole history instead of one interaction.")
    ] = False,
    trials: Annotated[int, typer.Option(help="Number of attacks.")] = AttackPlan.trials,
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of the attack; the audited client is never seeded.")
    ] = 0,
    json_file: JsonFile = None,
    plot: Annotated[
        Path | None, typer.Option(help="Also draw the attack to this PNG file.")
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help=f"Take at most {QUICK_SAMPLES:,} samples, {QUICK_CLIENTS} people, "
            f"{QUICK_TRIALS} trials and {QUICK_EPOCHS} epochs.",
        ),
    ] = False,
) -> None:
    """Audit the shipped client as a black box, then attack people's reports.

    The audit counts reports and computes, with exact confidence intervals, a lower bound of the
    client's true epsilon. The bound must not exceed the stated epsilon, and must come close to it.
    An honest client fails once in a million audits. The attacker knows everything but one
    interaction of one person, and sees that person's reports either linked to the person or
    shuffled among everybody's.

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
    output.results.print(_verdicts(result))
    if result.attacks:
        output.results.print(_attacks(result.attacks))
        output.results.print(
            f"The attacker knows V and everything but one {result.attacks[0].question} of one of "
            f"{result.attacks[0].clients:,} people. V is trained once and held fixed.",
        )
    word = "passed" if result.passed else "FAILED"
    output.results.print(
        f"Audit {word}. An honest client fails any of these checks with a chance of at most "
        f"{ALPHA:g}, but for `the audit can see`, which fails if there are too few samples.",
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
