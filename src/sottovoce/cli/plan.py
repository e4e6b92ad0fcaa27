"""`sottovoce plan`: whether a shop is large enough, what it promises, how good its lists become."""

import time
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.table import Table

from sottovoce.cli import output
from sottovoce.cli.options import (
    AccountsOption,
    BudgetOption,
    CentralBudgetOption,
    JsonFile,
    Seed,
)
from sottovoce.errors import SettingsError
from sottovoce.privacy import format_epsilon
from sottovoce.simulation.outlook import (
    MAX_TESTED_PEOPLE,
    SHOP_KINDS,
    ShopOutlook,
    ShopResult,
    make_shop_outlook,
)
from sottovoce.training import Budget
from sottovoce.training.planning import PublicNumbers

SECONDS_PER_WEEK = 7 * 86_400
# Fraction of popularity's HR@10. Lists below it are clearly worse, so the difference is no noise.
MIN_POPULARITY_RATIO = 0.9
ACCOUNTS_NOTE = (
    "With accounts: people who report in a week have logged in the week before; reports begin "
    "with the second week. Every epsilon is for one account: its devices share its turns, if the "
    "proxy counts honestly."
)


def plan(
    *,
    people: Annotated[
        int,
        typer.Option(min=1, help="Number of people who visit in a week and agree to take part."),
    ],
    items: Annotated[int, typer.Option(min=1, help="Number of items in the catalogue.")],
    history: Annotated[
        float, typer.Option(min=1, help="Number of items that a typical person has touched.")
    ] = 8,
    budget: BudgetOption = None,
    central_budget: CentralBudgetOption = None,
    accounts: AccountsOption = False,
    json: JsonFile = None,
    seed: Seed = 0,
) -> None:
    """Say whether a shop is large enough, what it promises, and how good its lists become.

    Plans settings for these numbers, and simulates them in six invented shops of this size, whose
    people have 3, 6 or 10 kinds of tastes, each distinct or blurred. HR@10 is the share of people
    whose left-out item is among the ten best of the whole catalogue. An epoch takes at least a
    week.

    \b
    Examples:
      sottovoce plan --people 20000 --items 500 --budget 10
      sottovoce plan --people 2000 --items 300 --history 12 --budget 50 --json plan.json
      sottovoce plan --people 200 --items 100 --budget 10 --central-budget 1
    """
    total_budget = Budget.from_options(budget, central_budget)
    if total_budget is None:
        raise SettingsError("name what a person's part may cost: --budget, such as --budget 10")
    began = time.monotonic()
    output.print_note(f"Trying the plan in {len(SHOP_KINDS)} invented shops ...")

    def print_shop(shop: ShopResult) -> None:
        duration = output.format_duration(time.monotonic() - began)
        output.print_note(
            f"  {shop.tastes} tastes, focus {shop.focus:g}: HR@10 {shop.lists[-1]:.3f}, "
            f"popularity {shop.popularity:.3f} ({duration})"
        )

    outlook = make_shop_outlook(
        PublicNumbers(people, items, history), total_budget, seed, print_shop, accounts=accounts
    )
    device_texts = outlook.promise.summarize(outlook.privacy_report.training.reports)
    for line in (
        _describe_verdict(outlook),
        _describe_privacy(outlook),
        f"A device says: {' '.join(device_texts)}",
        _describe_time(outlook),
    ):
        output.print_line(line)
    if accounts:
        output.print_line(ACCOUNTS_NOTE)
    output.print_line(_format_setup_command(outlook) + " --accounts" * accounts)
    output.results.print(_make_table(outlook))
    output.print_line(_describe_basis(outlook))
    output.write_json(json, _outlook_to_dict(outlook))


def _describe_verdict(outlook: ShopOutlook) -> str:
    """Return in one sentence whether the shop is large enough."""
    ours, popular = outlook.lists.mean, outlook.popularity.mean
    quality = f"HR@10 {ours:.3f} against {popular:.3f}"
    if outlook.verdict == "no" and ours < MIN_POPULARITY_RATIO * popular:
        return (
            f"No: lists are worse than popularity ({quality}); what people report says too little."
        )
    if outlook.verdict == "no":
        return f"No: lists go by tags and popularity; what people report adds nothing ({quality})."
    after = f"after {output.pluralize((outlook.better_after or 0) * outlook.weeks, 'week')}"
    if outlook.verdict == "yes":
        gain = f"in the end by {ours / popular - 1:.0%}"
        return f"Yes: lists are better than popularity {after}, {gain} ({quality})."
    if outlook.verdict == "barely":
        n_better = sum(shop.lists[-1] > shop.popularity for shop in outlook.shops)
        where = f"in {n_better} of {len(outlook.shops)} shops, in the mean {after}"
        return f"Barely: lists are better than popularity {where} ({quality})."
    return (
        f"Unknown: time allowed for {outlook.simulated:,} of {outlook.public_numbers.people:,} "
        f"people, with whom lists are not clearly better than popularity ({quality}); with all "
        "they are no worse."
    )


def _describe_privacy(outlook: ShopOutlook) -> str:
    settings, report = outlook.settings, outlook.privacy_report
    figures = report.training
    text = (
        f"Each person sends {output.pluralize(settings.reports, 'report')} in {settings.turns} of "
        f"{output.pluralize(settings.epochs, 'epoch')}. Local epsilon: "
        f"{format_epsilon(figures.pure)} over a lifetime, whatever happens."
    )
    if figures.dummies_only is not None:
        epsilon = figures.dummies_only
        condition = f"adds {settings.dummies:,} dummies to every epoch"
    elif figures.central is not None:
        epsilon, condition = figures.central, f"{report.people:,} people report in every epoch"
    else:
        return text
    return (
        f"{text} Central epsilon: {format_epsilon(epsilon)} at delta {report.delta:g}, if the "
        f"proxy mixes honestly and {condition}."
    )


def _describe_time(outlook: ShopOutlook) -> str:
    """Return how long an epoch and the training take, in words."""
    settings, weeks, min_clients = outlook.settings, outlook.weeks, outlook.min_clients
    people = outlook.public_numbers.people
    text = (
        f"About {people * settings.share:,.0f} of {output.count_people(people)} a week take part "
        f"in an epoch. It takes {output.pluralize(weeks, 'week')}"
    )
    if weeks > 1:
        text += f", until {min_clients:,} different people have come (raise `hold` to that)"
    elif min_clients > 1:
        text += f", longer if fewer than {min_clients:,} come"
    return f"{text}; the training takes {output.pluralize(weeks * settings.epochs, 'week')}."


def _format_setup_command(outlook: ShopOutlook) -> str:
    """Return the line with the command that sets up a server with the same plan."""
    public_numbers, budget = outlook.public_numbers, outlook.budget
    values = {
        "people": f"{public_numbers.people}",
        "history": f"{public_numbers.history:.15g}",
        "budget": budget.local and f"{budget.local:.15g}",
        "central-budget": budget.central and f"{budget.central:.15g}",
        "epoch-seconds": f"{SECONDS_PER_WEEK}",
        "min-clients": f"{outlook.min_clients}",
    }
    options = " ".join(f"--{name} {value}" for name, value in values.items() if value)
    return f"To set it up: sottovoce server init FOLDER --catalogue FILE {options} --ends"


def _make_table(outlook: ShopOutlook) -> Table:
    table = Table("HR@10", *output.align_right("mean", "lowest", "highest"))
    rows = {"our lists": outlook.lists, "popularity": outlook.popularity, "chance": outlook.chance}
    for name, values in rows.items():
        table.add_row(
            name, *(f"{value:.3f}" for value in (values.mean, values.lowest, values.highest))
        )
    return table


def _describe_basis(outlook: ShopOutlook) -> str:
    """Return how the numbers of the table were measured, and what they leave out."""
    tested = output.count_people(min(outlook.simulated, MAX_TESTED_PEOPLE))
    text = f"Over {len(outlook.shops)} invented shops, {tested} tested in each."
    if outlook.simulated < outlook.public_numbers.people:
        text += f" Time allowed for {outlook.simulated:,} people: with all, lists are no worse."
    return f"{text} They have no tags, which cost no report and make lists better than this."


def _outlook_to_dict(outlook: ShopOutlook) -> dict[str, Any]:
    return {
        "verdict": outlook.verdict,
        "sentence": _describe_verdict(outlook),
        "shop": asdict(outlook.public_numbers),
        "settings": outlook.settings.as_dict(),
        "privacy": outlook.privacy_report.as_dict(),
        "min_clients": outlook.min_clients,
        "weeks_of_an_epoch": outlook.weeks,
        "better_after_epochs": outlook.better_after,
        "hr@10": {
            "lists": asdict(outlook.lists),
            "popularity": asdict(outlook.popularity),
            "chance": asdict(outlook.chance),
        },
        "hr@10_by_epoch": outlook.curve,
        "people_simulated": outlook.simulated,
        "shops": [asdict(shop) for shop in outlook.shops],
    }
