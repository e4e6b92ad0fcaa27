"""`sottovoce audit`: test the privacy of reports from outside, linked and shuffled."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from sottovoce.cli import output
from sottovoce.cli.options import (
    DataSource,
    HistoryColumns,
    JsonFile,
    add_training_options,
    make_option,
    make_plot_option,
)
from sottovoce.data import Interactions, load, parse_columns
from sottovoce.errors import SettingsError
from sottovoce_lab.audit import (
    FALSE_ALARM_RATE,
    Attack,
    AttackPlan,
    AuditPlan,
    AuditResult,
    run_audit,
)
from sottovoce_lab.audit.audit import draw_attacks
from sottovoce_lab.cli import Mechanisms

# Limits of `--quick`.
QUICK_SAMPLES = 100_000
QUICK_CLIENTS = 400
QUICK_TRIALS = 800
QUICK_EPOCHS = 5


@add_training_options(only=["epsilon", "reports", "epochs", "alpha"])
def audit(
    *,
    mechanism: Mechanisms = None,
    training: dict[str, Any],
    samples: Annotated[
        int,
        typer.Option(help="Number of reports to draw for each of the two people in a test case."),
    ] = 200_000,
    attack: Annotated[
        bool,
        typer.Option(
            "--attack/--no-attack",
            help="Also attack: guess from a person's reports what the person touched.",
        ),
    ] = True,
    data: DataSource = "synthetic:N=1000,M=500,seed=0",
    columns: HistoryColumns = None,
    clients: Annotated[
        int | None, make_option("Number of people of the data set who take part.", "all", min=2)
    ] = None,
    history: Annotated[
        bool,
        typer.Option("--history", help="Guess a person's whole history, not a single interaction."),
    ] = False,
    trials: Annotated[
        int, typer.Option(min=8, help="Number of guesses of the attacker.")
    ] = AttackPlan.trials,
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of the attack; the audited client is never seeded.")
    ] = 0,
    json_file: JsonFile = None,
    plot: Annotated[Path | None, make_plot_option("the attack")] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help=f"Take at most {QUICK_SAMPLES:,} samples, {QUICK_CLIENTS} people, "
            f"{QUICK_TRIALS} trials and {QUICK_EPOCHS} epochs.",
        ),
    ] = False,
) -> None:
    """Measure the true epsilon of the client from its reports, and attack these reports.

    The audit draws reports and computes, with exact confidence intervals, a lower bound of the
    client's true epsilon. The bound must not exceed the stated epsilon, and must come close to it.
    The audit of a correct client fails once in a million times.

    The attacker knows everything except one interaction of one person, and sees that person's
    reports either linked to the person, or shuffled with the reports of all people. AUC is the
    probability that the attacker guesses right: 0.5 is chance. The exit code is 1 if a check fails.

    \b
    Examples:
      sottovoce audit --quick
      sottovoce audit --mechanism loudest --epsilon 5 --no-attack --samples 1000000
      sottovoce audit --data ml-1m --clients 2000 --json audit.json --plot audit.png
    """
    if plot and not attack:
        raise SettingsError("--plot draws the attack: leave out --no-attack")
    plan = AuditPlan(
        mechanisms=tuple(mechanism) if mechanism else AuditPlan.mechanisms,
        samples=samples,
        **training,
        attack=_plan_attack(trials, seed, history=history) if attack else None,
    )
    if quick:
        plan, clients = _limit_plan(plan), min(clients or QUICK_CLIENTS, QUICK_CLIENTS)
    with output.messages.status("starting") as status:
        people = _load_people(data, columns, clients, seed) if attack else None
        result = run_audit(plan, people, lambda what: status.update(output.escape_markup(what)))
    print_result(result)
    if json_file:
        output.write_json(json_file, result.to_dict())
    if plot:
        draw_attacks(result.attacks, plot)
    if not result.passed:
        raise typer.Exit(1)


def print_result(result: AuditResult) -> None:
    """Print tables of all verdicts and attacks, and explain them."""
    output.results.print(_tabulate_verdicts(result))
    if result.attacks:
        output.results.print(_tabulate_attacks(result.attacks))
        output.results.print(
            "k: number of reports of a person in an epoch; T: number of epochs. Linked: the "
            "attacker knows which reports are the person's. Shuffled: the person's reports are "
            "mixed with those of all people. In the limit of many people, no attack on shuffled "
            "reports exceeds the bound in the last column; this bound does not hold for linked "
            "reports. The attacker knows the item "
            f"matrix V and everything except one {result.attacks[0].question} of one of "
            f"{result.attacks[0].clients:,} people. V is trained once and stays fixed.",
        )
    word = "passed" if result.passed else "FAILED"
    output.results.print(
        f"Audit {word}. A correct client fails a check with probability at most "
        f"{FALSE_ALARM_RATE:g}. The check `enough evidence` also fails if there are too few "
        "samples: raise --samples.",
    )


def _tabulate_verdicts(result: AuditResult) -> Table:
    table = Table("mechanism", "check", "measured", "allowed", "verdict", title="Audit")
    for check in result.checks:
        verdict = "pass" if check.passed else "[bold red]FAIL"
        table.add_row(
            check.mechanism,
            check.check,
            output.escape_markup(check.measured),
            output.escape_markup(check.bound),
            verdict,
        )
    return table


def _tabulate_attacks(attacks: Sequence[Attack]) -> Table:
    table = Table(
        "mechanism",
        "k",
        "T",
        "linked",
        "shuffled",
        "bound of shuffled",
        title="AUC of the attacker (0.5: chance), +- standard error",
    )
    for attack in attacks:
        for point in attack.points:
            both = (f"{auc.value:.3f} +- {auc.error:.3f}" for auc in (point.linked, point.unlinked))
            name = attack.settings.mechanism
            table.add_row(name, f"{point.reports}", f"{point.epochs}", *both, f"{point.bound:.3f}")
    return table


def _plan_attack(trials: int, seed: int, *, history: bool) -> AttackPlan:
    crowds = max(2, min(AttackPlan.crowds, trials // 8))
    question = "history" if history else AttackPlan.question
    return AttackPlan(trials=trials, crowds=crowds, question=question, seed=seed)


def _limit_plan(plan: AuditPlan) -> AuditPlan:
    attack = plan.attack and replace(plan.attack, trials=min(plan.attack.trials, QUICK_TRIALS))
    return replace(
        plan,
        samples=min(plan.samples, QUICK_SAMPLES),
        epochs=min(plan.epochs or QUICK_EPOCHS, QUICK_EPOCHS),
        attack=attack,
    )


def _load_people(source: str, columns: str | None, clients: int | None, seed: int) -> Interactions:
    people = load(source, parse_columns(columns))
    if clients is not None and clients < people.histories.n_users:
        people = people.subset(users=clients, seed=seed)
    return people
