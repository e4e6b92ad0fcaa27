"""`sottovoce plan`: whether a shop is large enough, what it promises, how good its lists become."""

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer
from rich.table import Table

from sottovoce.cli import output
from sottovoce.cli.catalogue_file import CATALOGUE_HELP, CatalogueColumns, read_catalogue_file
from sottovoce.cli.options import (
    AccountsOption,
    BudgetOption,
    CentralBudgetOption,
    JsonFile,
    Learn,
    Seed,
    StartFile,
    choose_command_budget,
    make_learn_option,
    make_option,
)
from sottovoce.core.tags import Tags
from sottovoce.errors import NothingToLearnError, SettingsError
from sottovoce.privacy import format_epsilon
from sottovoce.simulation.outlook import (
    MAX_TESTED_PEOPLE,
    SHOP_KINDS,
    NamesOutlook,
    PlanOutlook,
    ShopOutlook,
    ShopResult,
    check_shop_size,
    find_enough_newcomers,
    find_enough_people,
    find_enough_volunteers,
    make_names_outlook,
    make_shop_outlook,
)
from sottovoce.simulation.start import read_start
from sottovoce.training import DEFAULT_PRESET, Budget
from sottovoce.training.naming import (
    DAYS_PER_WEEK,
    DEFAULT_NAMING_EPOCHS,
    MIN_USEFUL_REPORTS,
    WANTED_REPORTS,
)
from sottovoce.training.planning import PublicNumbers, is_for_names

SECONDS_PER_DAY = 86_400
# Fraction of popularity's HR@10. Lists below it are clearly worse, so the difference is no noise.
MIN_POPULARITY_RATIO = 0.9
ACCOUNTS_NOTE = (
    "With accounts: people who report in an epoch have logged in the epoch before; reports begin "
    "with the second epoch. Every epsilon is for one account: its devices share its turns, if the "
    "proxy counts honestly."
)


@dataclass(frozen=True)
class CatalogueFacts:
    """What a plan knows of the catalogue."""

    items: int
    tags: Tags | None = None
    """Tags of the items; None if only their number is facts."""
    options: str = "--catalogue FILE"
    """The options with which a server gets this catalogue."""


def plan(
    *,
    people: Annotated[
        int,
        typer.Option(min=1, help="Number of people who visit in a week and agree to take part."),
    ],
    items: Annotated[
        int | None,
        make_option("Number of items in the catalogue.", "those of --catalogue", min=1),
    ] = None,
    catalogue: Annotated[
        Path | None,
        typer.Option(help=f"{CATALOGUE_HELP} The plan then knows its tags. Instead of --items."),
    ] = None,
    columns: CatalogueColumns = None,
    history: Annotated[
        float, typer.Option(min=1, help="Number of items that a typical person has touched.")
    ] = 8,
    newcomers: Annotated[
        int | None,
        make_option(
            "Number of these people who visit for the first time.",
            "required to learn names",
            min=0,
        ),
    ] = None,
    budget: BudgetOption = None,
    central_budget: CentralBudgetOption = None,
    learn: Annotated[Learn | None, make_learn_option("names with a local budget")] = None,
    accounts: AccountsOption = False,
    start: StartFile = None,
    json: JsonFile = None,
    seed: Seed = 0,
) -> None:
    """Say whether a shop is large enough, what it promises, and how good its lists become.

    Names: a person sends few reports in a lifetime, so in the long run only new people report. The
    command says how many reports an epoch then has, and how long it must be. The reports of a
    person are spread over the time for which people stay.

    Taste: the planned training is simulated in six invented shops of this size, whose people have
    3, 6 or 10 kinds of tastes, each distinct or blurred. HR@10 is the share of people whose
    left-out item is among the ten best of the whole catalogue. An epoch takes at least a week.

    With --catalogue, lists in the invented shops use its tags, and half of the items follow them.
    Reports must then be worth more than tags alone.

    After a "No", the command says how many people would be enough, and how many volunteers who
    publish what they touched.

    With --start, first lists come from public data. Invented shops cannot have it, so they show
    what reports teach without it. A plan that would spend budget for nothing says so.

    \b
    Examples:
      sottovoce plan --people 20000 --newcomers 1500 --items 500 --budget 10
      sottovoce plan --people 2000 --items 300 --history 12 --budget 50 --learn taste
      sottovoce plan --people 2000 --newcomers 300 --catalogue products_export.csv
      sottovoce plan --people 200 --items 100 --central-budget 1 --json plan.json
      sottovoce plan --people 900 --items 3000 --budget 10 --learn taste --start start.safetensors
    """
    total_budget = choose_command_budget(budget, central_budget, DEFAULT_PRESET, {})
    assert total_budget is not None, "no setting names a cost"
    public = None if start is None else read_start(start)
    facts = _read_catalogue(items, catalogue, columns)
    numbers = PublicNumbers(
        people, facts.items, history, 0 if public is None else public.V.shape[1]
    )
    learns_names = is_for_names(total_budget) if learn is None else learn == "names"
    if public is not None:
        output.print_note(output.describe_start(public.provenance))
    if facts.tags is not None:
        output.print_line(
            f"The catalogue has {output.pluralize(facts.items, 'item')}; tags for recommendations: "
            f"{facts.tags.format_kinds()}."
        )
    if learns_names:
        _plan_names(numbers, newcomers, total_budget, seed, json, start, facts, accounts=accounts)
        return
    try:
        _plan_taste(numbers, total_budget, seed, json, start, facts, accounts=accounts)
    except NothingToLearnError as error:
        _print_no_reports(numbers, f"No: {error.reason}.", json)


def _read_catalogue(
    items: int | None, catalogue: Path | None, columns: str | None
) -> CatalogueFacts:
    """Return what the options say about the catalogue."""
    if (items is None) == (catalogue is None):
        raise SettingsError("give either --items NUMBER or --catalogue FILE")
    if catalogue is None:
        if columns is not None:
            raise SettingsError("--columns needs --catalogue FILE, whose columns it names")
        return CatalogueFacts(items or 0)
    content = read_catalogue_file(catalogue, columns)
    options = f"--catalogue {quote(str(catalogue))}"
    if columns is not None:
        options += f" --columns {quote(columns)}"
    return CatalogueFacts(len(content.items), content.tags, options)


def _find_volunteers(numbers: PublicNumbers, seed: int, facts: CatalogueFacts) -> int | None:
    """Return how many volunteers make lists better without reports; None if that is not known."""

    def print_try(people: int) -> None:
        output.print_note(f"Trying a public start of {output.count_people(people)} ...")

    try:
        check_shop_size(numbers)
    except SettingsError:
        return None  # too small for an invented shop
    return find_enough_volunteers(numbers, seed, print_try, tags=facts.tags)


def _describe_enough(people: str | None, volunteers: int | None) -> str:
    """Return in words what would be enough: a number of people, or a public start."""
    alternatives = [people] if people else []
    if volunteers is not None:
        alternatives.append(
            f"a public start (`sottovoce start`) of {output.count_people(volunteers)} who "
            "publish what they touched, without any report"
        )
    if not alternatives:
        return (
            "Neither more people nor a public start helped, as far as tried: try a larger budget."
        )
    return f"Enough would be {', or '.join(alternatives)}; or try a larger budget."


def _print_no_reports(
    numbers: PublicNumbers, sentence: str, json: Path | None, enough: str = ""
) -> None:
    """Print that lists should come from the start alone."""
    output.print_line(sentence)
    output.print_line(
        "Lists can come from the start alone (`--no-reports` of `sottovoce server init`): nobody "
        "is asked for reports, and no budget is spent."
    )
    if enough:
        output.print_line(enough)
    content = {"sentence": sentence, "shop": asdict(numbers), "verdict": "no"}
    output.write_json(json, content)


def _plan_names(
    numbers: PublicNumbers,
    newcomers: int | None,
    budget: Budget,
    seed: int,
    json: Path | None,
    start: Path | None,
    facts: CatalogueFacts,
    *,
    accounts: bool,
) -> None:
    """Print the plan of a training of names."""
    if newcomers is None:
        raise SettingsError(
            "a training of names lives on new people, because each sends few reports in a "
            "lifetime: say how many come in a week (--newcomers), or plan for taste (--learn taste)"
        )
    outlook = make_names_outlook(numbers, newcomers, budget, accounts=accounts)
    supply, content = _describe_supply(outlook), _names_to_dict(outlook)
    if outlook.verdict != "no":
        _print_plan(outlook, supply, _describe_names(outlook))
        output.print_line(_format_names_command(outlook, start, facts))
        output.write_json(json, content)
        return
    enough = find_enough_newcomers(numbers, newcomers, budget, accounts=accounts)
    needed = f"{output.count_people(enough)} who are new in a week"
    if start is not None:
        _print_no_reports(numbers, supply, json, _describe_enough(needed, None))
        return
    _print_plan(outlook, supply, _describe_names(outlook))
    volunteers = _find_volunteers(numbers, seed, facts)
    output.print_line(_describe_enough(needed, volunteers))
    searched = {"enough_newcomers": enough, "enough_volunteers": volunteers}
    output.write_json(json, content | searched)


def _plan_taste(
    numbers: PublicNumbers,
    budget: Budget,
    seed: int,
    json: Path | None,
    start: Path | None,
    facts: CatalogueFacts,
    *,
    accounts: bool,
) -> None:
    """Print the plan of a training of taste, and how it did in invented shops."""
    began = time.monotonic()
    output.print_note(f"Trying the plan in {len(SHOP_KINDS)} invented shops ...")

    def print_shop(shop: ShopResult) -> None:
        duration = output.format_duration(time.monotonic() - began)
        output.print_note(
            f"  {shop.tastes} tastes, focus {shop.focus:g}: HR@10 {shop.lists[-1]:.3f}, "
            f"popularity {shop.popularity:.3f} ({duration})"
        )

    outlook = make_shop_outlook(
        numbers, budget, seed, print_shop, accounts=accounts, tags=facts.tags
    )
    _print_plan(outlook, _describe_verdict(outlook), _describe_time(outlook))
    content = _taste_to_dict(outlook)
    if outlook.verdict != "no":
        output.print_line(_format_taste_command(outlook, start, facts))
    output.results.print(_make_table(outlook))
    output.print_line(_describe_basis(outlook))
    if outlook.verdict == "no":

        def print_try(people: int) -> None:
            output.print_note(f"Trying {output.count_people(people)} a week ...")

        enough = find_enough_people(numbers, budget, seed, print_try, tags=facts.tags)
        volunteers = None if start else _find_volunteers(numbers, seed, facts)
        people = None if enough is None else f"about {output.count_people(enough)} a week"
        output.print_line(_describe_enough(people, volunteers))
        content |= {"enough_people": enough, "enough_volunteers": volunteers}
    output.write_json(json, content)


def _print_plan(outlook: PlanOutlook, verdict: str, duration: str) -> None:
    """Print what plans of both kinds have."""
    device_texts = outlook.terms.summarize((), outlook.terms.epochs)
    for line in (
        verdict,
        _describe_privacy(outlook),
        f"A device says: {' '.join(device_texts)}",
        duration,
    ):
        output.print_line(line)
    if outlook.accounts:
        output.print_line(ACCOUNTS_NOTE)


def _describe_supply(outlook: NamesOutlook) -> str:
    """Return in one sentence whether new people send enough reports of names."""
    days = output.pluralize(outlook.epoch_days, "day")
    reports = f"about {outlook.reports:,.0f} reports in an epoch of {days}"
    source = f"{output.count_people(outlook.newcomers)} who are new in a week send {reports}"
    if outlook.verdict == "yes":
        return f"Yes: {source}, which say well what people touch now."
    if outlook.verdict == "barely":
        return (
            f"Barely: {source}, and {WANTED_REPORTS:,} are wanted; lists of what people touch now "
            "are rough."
        )
    has_start = outlook.public_numbers.start_factors > 0
    return (
        f"No: {source}, fewer than {MIN_USEFUL_REPORTS}; what people touch now cannot be learnt. "
        f"Without reports, devices make lists from {'the start and ' * has_start}tags."
    )


def _describe_names(outlook: NamesOutlook) -> str:
    """Return what a report names, and how the reports of a person are spread, in words."""
    settings, terms = outlook.settings, outlook.terms
    crowd = f", longer if fewer than {outlook.min_clients:,} come" * (outlook.min_clients > 1)
    stay = ", about as long as people stay" * (settings.epochs < DEFAULT_NAMING_EPOCHS)
    return (
        f"An epoch takes {output.pluralize(outlook.epoch_days, 'day')}{crowd}; each person's turns "
        f"are spread over {output.pluralize(settings.epochs, 'epoch')}{stay}. In the first ones, "
        f"the {output.count_people(outlook.present)} who are there at the beginning send about "
        f"{outlook.first_reports:,.0f} reports more in each. A report names one of "
        f"{outlook.public_numbers.items:,} items, or is one of {terms.names:,} "
        f"outcomes by chance: beyond {terms.max_items:,} items, people must be asked again."
    )


def _describe_verdict(outlook: ShopOutlook) -> str:
    """Return in one sentence whether the shop is large enough."""
    ours, baseline = outlook.lists.mean, outlook.baseline.mean
    quality = f"HR@10 {ours:.3f} against {baseline:.3f}"
    rival = "popularity" if outlook.tags_alone is None else "popularity or tags alone"
    if outlook.verdict == "no" and ours < MIN_POPULARITY_RATIO * baseline:
        return f"No: lists are worse than {rival} ({quality}); what people report says too little."
    if outlook.verdict == "no":
        return f"No: lists go by tags and popularity; what people report adds nothing ({quality})."
    after = f"after {output.pluralize((outlook.better_after or 0) * outlook.weeks, 'week')}"
    if outlook.verdict == "yes":
        gain = f"in the end by {ours / baseline - 1:.0%}"
        return f"Yes: lists are better than {rival} {after}, {gain} ({quality})."
    if outlook.verdict == "barely":
        n_better = sum(shop.lists[-1] > shop.baseline for shop in outlook.shops)
        where = f"in {n_better} of {len(outlook.shops)} shops, in the mean {after}"
        return f"Barely: lists are better than {rival} {where} ({quality})."
    return (
        f"Unknown: time allowed for {outlook.simulated:,} of {outlook.public_numbers.people:,} "
        f"people, with whom lists are not clearly better than {rival} ({quality}); with all "
        "they are no worse."
    )


def _describe_privacy(outlook: PlanOutlook) -> str:
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


def _format_taste_command(outlook: ShopOutlook, start: Path | None, facts: CatalogueFacts) -> str:
    """Return the line with the command that sets up a server with the same plan."""
    others = {"history": f"{outlook.public_numbers.history:.15g}", "start": start}
    return _format_setup_command(outlook, DAYS_PER_WEEK, "taste", others, facts) + " --ends"


def _format_names_command(outlook: NamesOutlook, start: Path | None, facts: CatalogueFacts) -> str:
    """Return the line with the command that sets up a server with the same plan."""
    others = {"epochs": f"{outlook.settings.epochs}", "start": start}
    return _format_setup_command(outlook, outlook.epoch_days, "names", others, facts)


def _format_setup_command(
    outlook: PlanOutlook,
    epoch_days: int,
    kind: Learn,
    others: Mapping[str, object],
    facts: CatalogueFacts,
) -> str:
    budget = outlook.budget
    values = {
        "people": f"{outlook.public_numbers.people}",
        **others,
        "budget": budget.local and f"{budget.local:.15g}",
        "central-budget": budget.central and f"{budget.central:.15g}",
        "learn": kind,
        "epoch-seconds": f"{epoch_days * SECONDS_PER_DAY}",
        "min-clients": f"{outlook.min_clients}",
    }
    options = " ".join(f"--{name} {value}" for name, value in values.items() if value)
    flags = " --accounts" * outlook.accounts
    return f"To set it up: sottovoce server init FOLDER {facts.options} {options}{flags}"


def _make_table(outlook: ShopOutlook) -> Table:
    table = Table("HR@10", *output.align_right("mean", "lowest", "highest"))
    rows = {"our lists": outlook.lists}
    if outlook.tags_alone is not None:
        rows["tags alone"] = outlook.tags_alone
    rows |= {"popularity": outlook.popularity, "chance": outlook.chance}
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
    if outlook.tags_alone is None:
        return f"{text} They have no tags, which cost no report and make lists better than this."
    return (
        f"{text} They have the tags of the catalogue. In them, half of the items with tags are to "
        "the taste that one of their tags stands for; how far that is so with you is not known."
    )


def _plan_to_dict(outlook: PlanOutlook, kind: Learn, sentence: str) -> dict[str, Any]:
    return {
        "learn": kind,
        "sentence": sentence,
        "shop": asdict(outlook.public_numbers),
        "settings": outlook.settings.as_dict(),
        "privacy": outlook.privacy_report.as_dict(),
        "min_clients": outlook.min_clients,
    }


def _names_to_dict(outlook: NamesOutlook) -> dict[str, Any]:
    return {
        **_plan_to_dict(outlook, "names", _describe_supply(outlook)),
        "verdict": outlook.verdict,
        "newcomers": outlook.newcomers,
        "epoch_days": outlook.epoch_days,
        "reports_in_an_epoch": outlook.reports,
        "first_reports_in_an_epoch": outlook.first_reports,
    }


def _taste_to_dict(outlook: ShopOutlook) -> dict[str, Any]:
    return {
        **_plan_to_dict(outlook, "taste", _describe_verdict(outlook)),
        "verdict": outlook.verdict,
        "weeks_of_an_epoch": outlook.weeks,
        "better_after_epochs": outlook.better_after,
        "hr@10": {
            "lists": asdict(outlook.lists),
            "tags_alone": None if outlook.tags_alone is None else asdict(outlook.tags_alone),
            "popularity": asdict(outlook.popularity),
            "chance": asdict(outlook.chance),
        },
        "hr@10_by_epoch": outlook.curve,
        "people_simulated": outlook.simulated,
        "shops": [asdict(shop) for shop in outlook.shops],
    }
