"""Options that several commands have, and options that are read from a statement of settings."""

import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from sottovoce.cli.figures import import_figure
from sottovoce.settings import Setting
from sottovoce.training import list_presets, list_settings

Command = Callable[..., None]
PICTURES = (".png", ".svg")


def make_group(name: str, text: str, example: str) -> typer.Typer:
    """A command with commands of its own, described by `text`."""
    told = f"{text}\n\n\b\nExample:\n  sottovoce {example}"
    return typer.Typer(name=name, help=told, no_args_is_help=True, add_completion=False)


def make_option(text: str, default: str, *names: str, **more: Any) -> Any:
    """An option that may be left out; `default` says in words what holds then."""
    return typer.Option(*names, help=text, show_default=default, **more)


def check_writable(path: Path | None) -> Path | None:
    """Checked before the work. Missing folders are made, so the first one there counts."""
    if path is not None:
        there = next(each for each in (path, *path.absolute().parents) if each.exists())
        is_fine = there == path or (there.is_dir() and os.access(there, os.W_OK))
        never = path.is_dir() or path.is_socket() or path.is_block_device()
        if never or not is_fine:
            raise typer.BadParameter(f"{path} cannot be written")
    return path


def _can_be_drawn(path: Path | None) -> Path | None:
    if path is not None and path.suffix not in PICTURES:
        raise typer.BadParameter(f"{path} must end in {' or '.join(PICTURES)}")
    if path is not None:
        import_figure()
    return check_writable(path)


def make_plot_option(what: str) -> Any:
    """`--plot`."""
    return typer.Option(
        "--plot", callback=_can_be_drawn, help=f"Also draw {what} to this PNG or SVG file."
    )


def make_people_option(default: str) -> Any:
    """`--people`."""
    text = "Number of people expected to take part. The training is planned for it."
    return make_option(text, default, "--people", min=1)


def make_history_option(default: str) -> Any:
    """`--history`."""
    text = "Items that a typical person has touched. The training is planned for it."
    return make_option(text, default, "--history", min=1, hidden=True)


JsonFile = Annotated[
    Path | None,
    typer.Option(
        "--json", callback=check_writable, help="Also write the results to this JSON file."
    ),
]
AccountsOption = Annotated[
    bool,
    typer.Option(
        "--accounts",
        help="Reports need an account of the product, each of which sends one batch in an epoch.",
    ),
]
HostOption = Annotated[
    str,
    typer.Option("--host", help="Address to listen on; 0.0.0.0: all of this machine.", hidden=True),
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
DataSource = Annotated[
    str, typer.Option("--data", help="Data set: a name from `sottovoce data info`, or a path.")
]
HistoryColumns = Annotated[
    str | None,
    make_option(
        "Names of the columns, such as user=who,item=what,timestamp=day. Only those named are "
        "read.",
        "user, item, rating, timestamp",
        "--columns",
    ),
]
_FEWER = "Leave out people and items with fewer interactions than this."
MinInteractions = Annotated[int, typer.Option("--min-interactions", min=0, help=_FEWER)]


def make_min_interactions_option(default: str, **more: Any) -> Any:
    """`--min-interactions`, where the default depends on the data."""
    return make_option(_FEWER, default, "--min-interactions", min=0, **more)


ItemsFile = Annotated[
    Path | None,
    make_option(
        "File with titles and tags of the items: a catalogue (.json), or a table (.csv, .tsv, "
        ".parquet) with a column `item`.",
        "those of the data set",
        "--items",
        hidden=True,
    ),
]
SampleUsers = Annotated[
    int | None,
    make_option("People to draw at random.", "all", "--sample-users", min=1, hidden=True),
]
SampleItems = Annotated[
    int | None, make_option("Items to draw at random.", "all", "--sample-items", min=1, hidden=True)
]
TagsOption = Annotated[
    bool,
    typer.Option("--tags/--no-tags", help="Recommend with the items' tags.", hidden=True),
]
Seed = Annotated[
    int,
    typer.Option("--seed", min=0, help="Seed of everything that is drawn at random.", hidden=True),
]
Seeds = Annotated[
    int,
    typer.Option(
        "--seeds",
        min=1,
        help="Number of runs, with seeds from --seed on; shows mean and 95% interval.",
    ),
]
PRESETS = f"Training preset: {', '.join(list_presets())}."
"""Help text of `--preset`."""
PresetOption = Annotated[str, typer.Option("--preset", help=PRESETS, hidden=True)]
BudgetOption = Annotated[
    float | None,
    typer.Option(
        "--budget",
        help="Local epsilon of one person, all reports together: it holds even if proxy and server "
        "work together. The other settings are planned for it.",
    ),
]
CentralBudgetOption = Annotated[
    float | None,
    typer.Option(
        "--central-budget",
        help="Central epsilon of one person, all reports together: it holds if the proxy shuffles "
        "honestly (delta 1e-6). The other settings are planned for it.",
    ),
]
HistoryOption = Annotated[float | None, make_history_option("2% of the catalogue, 10 to 200")]


def add_training_options(
    only: Iterable[str] = (),
    without: Iterable[str] = (),
    planned: Iterable[str] = (),
    often: Iterable[str] | None = None,
) -> Callable[[Command], Command]:
    """Give a command the settings of a training; it gets those given, by name, as `training`.

    Those that are `planned` have no default of their own. If `often` is given, the others are
    shown by `--help-all` alone.
    """
    known = list_settings()
    chosen = {name: known[name] for name in only or known if name not in without}
    defaults = dict.fromkeys(planned, "planned")
    return add_settings_options("training", chosen, defaults=defaults, often=often)


def add_engine_options(command: Command) -> Command:
    """Give a command `--engine` and the options of engines; it gets these as `engine`."""
    from sottovoce.simulation.engines import AUTO, ENGINES, engine_options  # a server has none

    text = f"what computes the reports: {', '.join((AUTO, *ENGINES))}. All give the same results"
    options = {"engine": Setting("engine", str, default=AUTO, help=text)}
    for engine, settings in engine_options().items():
        for name, each in settings.items():
            said = f"{options[name].help}; " if name in options else ""
            options[name] = replace(each, help=f"{said}{each.help} ({engine} engine)")
    return add_settings_options("engine", options, often=["engine"])(command)


def make_config_option(service: str) -> Any:
    """Return the option `--config`."""
    return typer.Option("--config", help=f"Settings file, from `sottovoce {service} init`.")


def add_settings_options(
    into: str,
    settings: Mapping[str, Setting],
    *,
    defaults: Mapping[str, str] | None = None,
    often: Iterable[str] | None = None,
) -> Callable[[Command], Command]:
    """Give a command an option for each setting, in the place of its parameter `into`.

    Help, type and range are those of the setting. The command gets a dictionary of those given.
    `defaults` says in words what holds otherwise, where that is not the setting's own default.
    """
    said = {name: each.none_meaning or str(each.default).lower() for name, each in settings.items()}
    said |= defaults or {}
    shown = set(settings if often is None else often)
    parameters = [
        _parameter(each, said[name], hidden=name not in shown) for name, each in settings.items()
    ]

    def decorate(command: Command) -> Command:
        @wraps(command)
        def called(*positional: Any, **given: Any) -> None:
            values = {name: given.pop(name, None) for name in settings}
            chosen = {n: settings[n].check_value(v) for n, v in values.items() if v is not None}
            command(*positional, **given, **{into: chosen})

        signature = inspect.signature(command, eval_str=True)
        every = [
            new
            for old in signature.parameters.values()
            for new in (parameters if old.name == into else [old])
        ]
        function: Any = called
        function.__signature__ = signature.replace(parameters=every)
        function.__annotations__ = {each.name: each.annotation for each in every}
        return called

    return decorate


def _parameter(setting: Setting, default: str, *, hidden: bool) -> inspect.Parameter:
    option = make_option(f"{setting.help[0].upper()}{setting.help[1:]}.", default, hidden=hidden)
    return inspect.Parameter(
        setting.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[setting.kind | None, option],
    )
