"""Options that several commands share, and options that are made from settings classes."""

import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from sottovoce.cli import output
from sottovoce.cli.figures import import_figure
from sottovoce.core import Loudest, Named
from sottovoce.errors import SettingsError
from sottovoce.settings import Setting
from sottovoce.training import Budget, list_presets, list_settings
from sottovoce.training.budget import (
    DEFAULT_BUDGET,
    DEFAULT_BUDGET_NOTE,
    choose_budget,
    needs_default_budget,
)

Command = Callable[..., None]
IMAGE_SUFFIXES = (".png", ".svg")


def make_group(name: str, text: str, example: str) -> typer.Typer:
    """Return a group of commands, with an example in its help."""
    help_text = f"{text}\n\n\b\nExample:\n  sottovoce {example}"
    return typer.Typer(name=name, help=help_text, no_args_is_help=True, add_completion=False)


def make_option(help_text: str, default_text: str, *names: str, **attributes: Any) -> Any:
    """Return an option that may be left out.

    Args:
        help_text: The help of the option.
        default_text: What the help shows as the default.
        *names: Names of the option; by default the name of the parameter.
        **attributes: Further arguments of `typer.Option`.
    """
    return typer.Option(*names, help=help_text, show_default=default_text, **attributes)


def check_writable(path: Path | None) -> Path | None:
    """Raise an error if a path cannot be written, so that this shows before long work."""
    if path is not None:
        # Missing folders will be created, so the nearest existing folder must be writable.
        nearest = next(parent for parent in (path, *path.absolute().parents) if parent.exists())
        is_writable = nearest == path or (nearest.is_dir() and os.access(nearest, os.W_OK))
        if path.is_dir() or path.is_socket() or path.is_block_device() or not is_writable:
            raise typer.BadParameter(f"{path} cannot be written")
    return path


def _check_image(path: Path | None) -> Path | None:
    if path is not None:
        if path.suffix not in IMAGE_SUFFIXES:
            raise typer.BadParameter(f"{path} must end in {' or '.join(IMAGE_SUFFIXES)}")
        # Notice a missing matplotlib now, not after hours of training.
        import_figure()
    return check_writable(path)


def make_plot_option(what: str) -> Any:
    """Return the option `--plot`.

    Args:
        what: What the picture shows, such as "a learning curve".
    """
    return typer.Option(
        "--plot", callback=_check_image, help=f"Also draw {what} to this PNG or SVG file."
    )


def make_people_option(default_text: str) -> Any:
    """Return the option `--people`."""
    text = "Expected number of people who take part. The training is planned for this number."
    return make_option(text, default_text, "--people", min=1)


def make_history_option(default_text: str) -> Any:
    """Return the option `--history`."""
    text = (
        "Number of items that a typical person has touched. The training is planned for this "
        "number."
    )
    return make_option(text, default_text, "--history", min=1, hidden=True)


def make_config_option(service: str) -> Any:
    """Return the option `--config`."""
    return typer.Option(
        "--config", help=f"Settings file that `sottovoce {service} init` has written."
    )


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
        help="Only people with an account of the product can report, with one batch for each "
        "account in an epoch.",
    ),
]
HostOption = Annotated[
    str,
    typer.Option("--host", help="Address to listen on; 0.0.0.0 means all.", hidden=True),
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
DataSource = Annotated[
    str, typer.Option("--data", help="Data set: a name from `sottovoce data info`, or a path.")
]
HistoryColumns = Annotated[
    str | None,
    make_option(
        "Names of the file's columns, such as user=who,item=what,timestamp=day. Other columns of "
        "these four kinds are found by their usual names.",
        "user, item, rating, timestamp",
        "--columns",
    ),
]
MinInteractions = Annotated[
    int,
    typer.Option(
        "--min-interactions",
        min=0,
        help="Leave out people and items with fewer interactions; the paper uses 60.",
    ),
]


ItemsFile = Annotated[
    Path | None,
    make_option(
        "File with the titles and tags of the items: a catalogue (.json), or a table (.csv, .tsv, "
        ".parquet) with a column `item`.",
        "those of the data set",
        "--items",
        hidden=True,
    ),
]
StartSource = Annotated[
    str | None,
    make_option(
        "Public interactions from which the first model is learnt: a data set as for --data, or a "
        "file that `sottovoce start` has written.",
        "none",
        "--start",
    ),
]
StartFile = Annotated[
    Path | None,
    make_option(
        "File of `sottovoce start`: the public start that the first model is made from.",
        "none",
        "--start",
    ),
]
NoReportsOption = Annotated[
    bool,
    typer.Option("--no-reports", help="Ask nobody for reports: lists come from --start alone."),
]
OriginOption = Annotated[
    list[str] | None,
    make_option(
        "Address of a site whose pages may use the proxy, such as https://shop.example. May be "
        "repeated.",
        "none",
        "--origin",
    ),
]
SampleUsers = Annotated[
    int | None,
    make_option(
        "Use only this many people, drawn at random.", "all", "--sample-users", min=1, hidden=True
    ),
]
SampleItems = Annotated[
    int | None,
    make_option(
        "Use only this many items, drawn at random.", "all", "--sample-items", min=1, hidden=True
    ),
]
TagsOption = Annotated[
    bool,
    typer.Option("--tags/--no-tags", help="Use the items' tags for recommendations.", hidden=True),
]
Seed = Annotated[
    int,
    typer.Option("--seed", min=0, help="Seed of all random choices.", hidden=True),
]
Seeds = Annotated[
    int,
    typer.Option(
        "--seeds",
        min=1,
        help="Number of runs, each with its own seed (--seed, --seed + 1, ...). Results are means "
        "with a 95% confidence interval.",
    ),
]
PRESET_HELP = f"Training preset: {', '.join(list_presets())}."
PresetOption = Annotated[str, typer.Option("--preset", help=PRESET_HELP, hidden=True)]
BudgetOption = Annotated[
    float | None,
    make_option(
        "Largest local epsilon of one person, for all reports together. It holds even if proxy and "
        "server work together. Settings that you do not give are planned for it.",
        f"{DEFAULT_BUDGET.local:g}, unless another option names the cost",
        "--budget",
    ),
]
CentralBudgetOption = Annotated[
    float | None,
    typer.Option(
        "--central-budget",
        help="Largest central epsilon of one person, for all reports together (delta 1e-6). It "
        "holds if the proxy shuffles honestly. Settings that you do not give are planned for it.",
    ),
]


def choose_command_budget(
    local: float | None, central: float | None, preset: str, training: Mapping[str, Any]
) -> Budget | None:
    """Return the budget of a command that trains, and say so if it is the default."""
    budget = Budget.from_options(local, central)
    if needs_default_budget(preset, budget, training):
        output.print_note(f"Note: {DEFAULT_BUDGET_NOTE} (--budget names another).")
    return choose_budget(preset, budget, training)


Learn = Literal["names", "taste"]
# The mechanism by which each kind is learnt.
LEARN_MECHANISMS: dict[Learn, str] = {"names": Named.name, "taste": Loudest.name}


def make_learn_option(default: str, *, hidden: bool = False) -> Any:
    """Return the option `--learn`, whose help shows this default."""
    return make_option(
        "What reports tell: `names` of items, to learn what people touch at present, or `taste`, "
        "to learn what they like. Sets --mechanism to named or loudest.",
        default,
        "--learn",
        hidden=hidden,
    )


def add_mechanism(training: dict[str, Any], learn: Learn | None) -> dict[str, Any]:
    """Return the settings of a training with the mechanism that `--learn` asks for."""
    if learn is None:
        return training
    if "mechanism" in training:
        raise SettingsError("give --learn or --mechanism, not both")
    return {**training, "mechanism": LEARN_MECHANISMS[learn]}


HistoryOption = Annotated[float | None, make_history_option("2% of the catalogue, 10 to 200")]


def add_training_options(
    only: Iterable[str] = (),
    without: Iterable[str] = (),
    planned: Iterable[str] = (),
    visible: Iterable[str] | None = None,
) -> Callable[[Command], Command]:
    """Return a decorator that gives a command the settings of a training as options.

    Args:
        only: Names of the settings; empty for all.
        without: Names of settings to leave out.
        planned: Names of settings that the planner chooses if the user does not.
        visible: Names of the options that `--help` lists, or None for all.
    """
    settings = list_settings()
    settings = {name: settings[name] for name in only or settings if name not in without}
    defaults = dict.fromkeys(planned, "planned")
    return add_settings_options("training", settings, defaults=defaults, visible=visible)


def add_engine_options(command: Command) -> Command:
    """Give a command the option `--engine` and the options of all engines."""
    # Import it here, because a server is installed without engines.
    from sottovoce.simulation.engines import AUTO_ENGINE, ENGINE_MODULES, list_engine_options

    names = ", ".join((AUTO_ENGINE, *ENGINE_MODULES))
    text = f"program that computes the reports: {names}. All give the same results"
    options = {"engine": Setting("engine", str, default=AUTO_ENGINE, help=text)}
    for engine, settings in list_engine_options().items():
        for name, setting in settings.items():
            # Engines that share an option, such as `threads`, share its help text.
            others = f"{options[name].help}; " if name in options else ""
            options[name] = replace(setting, help=f"{others}{setting.help} ({engine} engine)")
    return add_settings_options("engine", options, visible=["engine"])(command)


def add_settings_options(
    parameter: str,
    settings: Mapping[str, Setting],
    *,
    defaults: Mapping[str, str] | None = None,
    visible: Iterable[str] | None = None,
) -> Callable[[Command], Command]:
    """Return a decorator that gives a command an option for each setting.

    Args:
        parameter: Parameter of the command that these options replace. The command gets a
            dictionary of the values that the user gave in this parameter.
        settings: The settings by name.
        defaults: Texts that the help shows instead of the default of a setting.
        visible: Names of the options that `--help` lists, or None for all; `--help-all` lists all.
    """
    texts = {name: s.none_meaning or str(s.default).lower() for name, s in settings.items()}
    texts |= defaults or {}
    visible = set(settings if visible is None else visible)
    options = [
        _make_parameter(setting, texts[name], hidden=name not in visible)
        for name, setting in settings.items()
    ]

    def decorate(command: Command) -> Command:
        @wraps(command)
        def run(*args: Any, **kwargs: Any) -> None:
            # Typer passes all options. The value None means that the user did not give the option.
            values = {name: kwargs.pop(name, None) for name in settings}
            chosen = {n: settings[n].check_value(v) for n, v in values.items() if v is not None}
            command(*args, **kwargs, **{parameter: chosen})

        signature = inspect.signature(command, eval_str=True)
        parameters = [
            new
            for old in signature.parameters.values()
            for new in (options if old.name == parameter else [old])
        ]
        # Typer reads the signature and the annotations.
        function: Any = run
        function.__signature__ = signature.replace(parameters=parameters)
        function.__annotations__ = {
            parameter.name: parameter.annotation for parameter in parameters
        }
        return run

    return decorate


def _make_parameter(setting: Setting, default_text: str, *, hidden: bool) -> inspect.Parameter:
    text = f"{setting.help[0].upper()}{setting.help[1:]}."
    return inspect.Parameter(
        setting.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[setting.kind | None, make_option(text, default_text, hidden=hidden)],
    )
