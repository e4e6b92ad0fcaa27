"""`sottovoce plan`: is a shop large enough, what does it promise, how good do its lists become?"""

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
    Range,
    ShopOutlook,
    ShopResult,
    make_shop_outlook,
)
from sottovoce.training import Budget
from sottovoce.training.planning import PublicNumbers

WEEK = 7 * 86_400
NEARLY = 0.9
"""As good as popularity, except for what privacy costs."""


ACCOUNTS = (
    "With accounts: people who report in a week have logged in the week before; reports begin "
    "with the second week. Every epsilon is for one account: its devices share its turns, if the "
    "proxy counts honestly."
)


def plan(
    *,
    people: Annotated[
        int, typer.Option(min=1, help="People who visit in a week and agree to take part.")
    ],
    items: Annotated[int, typer.Option(min=1, help="Number of items in the catalogue.")],
    history: Annotated[
        float, typer.Option(min=1, help="Items that a typical person has touched.")
    ] = 8,
    budget: BudgetOption = None,
    central_budget: CentralBudgetOption = None,
    accounts: AccountsOption = False,
    json: JsonFile = None,
    seed: Seed = 0,
) -> None:
    """Say whether a shop is large enough, what it promises, and how good its lists become.

    The planner's settings for these numbers are tried in six invented shops of this size: with 3, 6
    and 10 tastes, sharp and blurred. HR@10 is the share of people whose left-out item is among the
    ten best of the whole catalogue. An epoch is a week.

    \b
    Examples:
      sottovoce plan --people 20000 --items 500 --budget 10
      sottovoce plan --people 2000 --items 300 --history 12 --budget 50 --json plan.json
      sottovoce plan --people 200 --items 100 --budget 10 --central-budget 1
    """
    wanted = Budget.from_options(budget, central_budget)
    if wanted is None:
        raise SettingsError("name what a person's part may cost: --budget, such as --budget 10")
    began = time.monotonic()
    output.print_note(f"Trying the plan in {len(SHOP_KINDS)} invented shops ...")

    def on_shop(shop: ShopResult) -> None:
        after = output.format_duration(time.monotonic() - began)
        told = f"{shop.tastes} tastes, focus {shop.focus:g}: HR@10 {shop.lists[-1]:.3f}"
        output.print_note(f"  {told}, popularity {shop.popularity:.3f} ({after})")

    found = make_shop_outlook(
        PublicNumbers(people, items, history), wanted, seed, on_shop, accounts=accounts
    )
    for line in (_verdict(found), _promised(found), _device(found), _time(found)):
        output.print_line(line)
    if accounts:
        output.print_line(ACCOUNTS)
    output.print_line(_setup(found) + " --accounts" * accounts)
    output.results.print(_table(found))
    output.print_line(_rests_on(found))
    output.write_json(json, as_json(found))


def _verdict(found: ShopOutlook) -> str:
    """The answer in one sentence."""
    ours, popular = found.lists.mean, found.popularity.mean
    hr = f"HR@10 {ours:.3f} against {popular:.3f}"
    if found.verdict == "no" and ours < NEARLY * popular:
        return f"No: lists are worse than popularity ({hr}); what people report says too little."
    if found.verdict == "no":
        return f"No: lists go by tags and popularity; what people report adds nothing ({hr})."
    after = f"after {output.pluralize((found.better_after or 0) * found.weeks, 'week')}"
    if found.verdict == "yes":
        gain = f"in the end by {ours / popular - 1:.0%}"
        return f"Yes: lists are better than popularity {after}, {gain} ({hr})."
    if found.verdict == "barely":
        where = sum(each.lists[-1] > each.popularity for each in found.shops)
        told = f"in {where} of {len(found.shops)} shops, in the mean {after}"
        return f"Barely: lists are better than popularity {told} ({hr})."
    return (
        f"Unknown: time allowed for {found.simulated:,} of {found.about.people:,} people, with whom"
        f" lists are not clearly better than popularity ({hr}); with all they are no worse."
    )


def _promised(found: ShopOutlook) -> str:
    settings, figures = found.settings, found.privacy_report.training
    hidden, rests = figures.central, f"{found.privacy_report.people:,} people report in every epoch"
    if figures.alone is not None:
        hidden, rests = figures.alone, f"adds {settings.dummies:,} dummies to every epoch"
    told = (
        f"Each person sends {output.pluralize(settings.reports, 'report')} in {settings.turns} of "
        f"{output.pluralize(settings.epochs, 'epoch')}. Local epsilon: "
        f"{format_epsilon(figures.pure)} over a lifetime, whatever happens."
    )
    if hidden is not None:
        told += (
            f" Central epsilon: {format_epsilon(hidden)} at delta {found.privacy_report.delta:g}"
        )
        told += f", if the proxy mixes honestly and {rests}."
    return told


def _device(found: ShopOutlook) -> str:
    said = found.promise.summarize(found.privacy_report.training.reports)
    return f"A device says: {' '.join(said)}"


def _time(found: ShopOutlook) -> str:
    """How long an epoch takes, and the training."""
    settings, weeks, least = found.settings, found.weeks, found.least_clients
    part = found.about.people * settings.share
    people = output.count_people(found.about.people)
    told = f"About {part:,.0f} of {people} a week take part in an epoch."
    told += f" It takes {output.pluralize(weeks, 'week')}"
    if weeks > 1:
        told += f", until {least:,} different people have come (raise `hold` to that)"
    elif least > 1:
        told += f", longer if fewer than {least:,} come"
    return f"{told}; the training takes {output.pluralize(weeks * settings.epochs, 'week')}."


def _setup(found: ShopOutlook) -> str:
    """The command that plans the same."""
    about, asked = found.about, found.budget
    named = {
        "people": f"{about.people}",
        "history": f"{about.history:.15g}",
        "budget": asked.local and f"{asked.local:.15g}",
        "central-budget": asked.central and f"{asked.central:.15g}",
        "epoch-seconds": f"{WEEK}",
        "least-clients": f"{found.least_clients}",
    }
    options = " ".join(f"--{name} {each}" for name, each in named.items() if each)
    return f"To set it up: sottovoce server init FOLDER --catalogue FILE {options} --ends"


def _table(found: ShopOutlook) -> Table:
    table = Table("HR@10", *output.align_right("mean", "least", "most"))
    rows = {"our lists": found.lists, "popularity": found.popularity, "chance": found.chance}
    for name, each in rows.items():
        table.add_row(name, *(f"{value:.3f}" for value in (each.mean, each.least, each.most)))
    return table


def _rests_on(found: ShopOutlook) -> str:
    """What the table is of, and what it leaves out."""
    shops = f"{len(found.shops)} invented shops"
    tested = output.count_people(min(found.simulated, MAX_TESTED_PEOPLE))
    told = f"Over {shops}, {tested} tested in each."
    if found.simulated < found.about.people:
        told += f" Time allowed for {found.simulated:,} people: with all, lists are no worse."
    return f"{told} They have no tags, which cost no report and make lists better than this."


def as_json(found: ShopOutlook) -> dict[str, Any]:
    ranges: dict[str, Range] = {
        "lists": found.lists,
        "popularity": found.popularity,
        "chance": found.chance,
    }
    return {
        "verdict": found.verdict,
        "sentence": _verdict(found),
        "shop": asdict(found.about),
        "settings": found.settings.as_dict(),
        "privacy": found.privacy_report.as_dict(),
        "least_clients": found.least_clients,
        "weeks_of_an_epoch": found.weeks,
        "better_after_epochs": found.better_after,
        "hr@10": {name: asdict(each) for name, each in ranges.items()},
        "hr@10_by_epoch": found.curve,
        "people_simulated": found.simulated,
        "shops": [asdict(each) for each in found.shops],
    }
