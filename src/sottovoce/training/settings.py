"""The settings of a training: frozen, checked, and with the same names everywhere.

The command line, the server's settings file and its template, `FederatedMF` and the files of a
simulation take names, defaults and bounds from here, by `list_settings` or `Settings.preset`.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sottovoce.characters import format_html_table, pluralize
from sottovoce.core import MECHANISMS, Mechanism, Shape, get_mechanism, sum_squares
from sottovoce.core.bounds import (
    MAX_ALPHA,
    MAX_DUMMIES,
    MAX_REPORTS,
    MAX_RIDGE,
    MIN_RIDGE,
)
from sottovoce.core.coin import MAX_EPSILON, MIN_EPSILON
from sottovoce.errors import SettingsError
from sottovoce.privacy import Reporting, format_epsilon
from sottovoce.settings import Setting, check, format_value, get_settings, setting
from sottovoce.training.counts import compute_min_participants


@dataclass(frozen=True)
class Settings:
    """The settings of one training. `Settings.preset(name)` returns the settings of a preset.

    docs/reference/model.md has a table of all fields except this one:

    Args:
        options: Options of the mechanism, by name; missing ones get their default.
    """

    mechanism: str = setting("loudest", "mechanism by which a device makes its reports")
    epsilon: float = setting(
        2.5, "epsilon of one report", min_value=MIN_EPSILON, max_value=MAX_EPSILON
    )
    reports: int = setting(
        100,
        "reports of one person in one epoch (k); an epoch costs k * epsilon",
        min_value=1,
        max_value=MAX_REPORTS,
    )
    epochs: int = setting(
        20,
        "number of epochs (T); training ends after them if half_life is 0",
        min_value=1,
    )
    lifetime: int = setting(
        0,
        "number of epochs in which one person takes part (E); their device draws them at random; "
        "0: all epochs",
        min_value=0,
    )
    half_life: float = setting(
        0.0,
        "number of epochs after which a report has half its weight; training then never ends; 0: "
        "all reports weigh the same, and training ends after T epochs",
        min_value=0,
        max_value=1e9,
    )
    dummies: int = setting(
        0,
        "number of random reports that the proxy adds to every epoch (D); they hide a person's "
        "reports even if few other people report",
        min_value=0,
        max_value=MAX_DUMMIES,
    )
    factors: int = setting(5, "number of factors in the vector of an item (F)", min_value=1)
    alpha: float = setting(
        1.0,
        "extra weight of touched items: a touched item weighs 1 + alpha, any other item 1",
        min_value=0,
        max_value=MAX_ALPHA,
    )
    regularization: float = setting(
        1e-6,
        "regularization of user vectors and items (lambda)",
        min_value=MIN_RIDGE,
        max_value=MAX_RIDGE,
    )
    ridge: float = setting(
        0.0,
        "additional regularization of user vectors, as a multiple of the mean squared length of "
        "the item matrix's columns",
        min_value=0,
        max_value=MAX_RIDGE,
    )
    learning_rate: float = setting(100.0, "length of a step along the estimated gradient", above=0)
    steps: int = setting(
        1, "number of gradient steps in one epoch, all with the same reports", min_value=1
    )
    rate_grows_with_reports: bool = setting(
        default=False,
        # The paper averages over users where it should average over reports.
        help="multiply the length of a step by the number of reports (k), as the paper does",
    )
    # The first matrix must be negligible next to the first estimate, above all if blocks are small.
    initial_scale: float = setting(
        1e-7, "standard deviation of the entries of the first item matrix", above=0
    )
    head_start: float = setting(
        1.0,
        "value of every item's first factor at the start, in multiples of initial_scale; 0: random "
        "values",
        min_value=0,
    )
    rotate: bool = setting(
        default=True, help="rotate the item matrix to a new random basis after every epoch"
    )
    seed: int = setting(
        0,
        "seed of the first item matrix and of the directions, which is public; in a simulation "
        "also of all reports",
        min_value=0,
        max_value=2**53 - 1,
    )
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Options of the mechanism, by name; missing ones get their default."""

    def __post_init__(self) -> None:
        check(self)
        declared = get_mechanism(self.mechanism).options()
        for name in self.options:
            if name not in declared:
                raise SettingsError(
                    f"{name} is no option of {self.mechanism!r}"
                    f"{_describe_owners(name)}; leave it out",
                    setting=name,
                )
        complete = {
            name: option.check_value(self.options.get(name, option.default))
            for name, option in declared.items()
        }
        # Defaults are filled in, so that equal trainings have equal settings.
        object.__setattr__(self, "options", complete)

    def __str__(self) -> str:
        options = "".join(f", {name} {value}" for name, value in self.options.items() if value)
        model = (
            ""
            if self.asks_for_names
            else f", factors {self.factors}, alpha {self.alpha:.3g}, ridge {self.ridge:.3g}"
        )
        return self._describe(f"{model}{options}")

    @property
    def reporting(self) -> str:
        """What people report, and what hides it, in words: the settings that concern them."""
        return self._describe("")

    def _describe(self, model: str) -> str:
        turns = "" if self.turns == self.epochs else f"{self.turns} of "
        dummies = f"; the proxy adds {self.dummies:,} dummies an epoch" if self.dummies else ""
        return (
            f"{self.mechanism}: epsilon {format_epsilon(self.epsilon)}, reports "
            f"{self.reports} in each of {turns}{pluralize(self.epochs, 'epoch')}{model}{dummies}"
        )

    def _repr_html_(self) -> str:
        """Return the table that notebooks show."""
        return format_html_table(self.as_dict())

    @classmethod
    def preset(cls, preset: str, /, **changes: Any) -> Self:
        """Return a mechanism's usual settings, or the paper's, with some values changed.

        Args:
            preset: `paper`, or the name of a mechanism.
            changes: Values that differ from the preset, by name, including options of the
                mechanism. A value of None changes nothing.

        Raises:
            SettingsError: There is no such preset or setting, or a value is out of range.

        >>> Settings.preset("paper").steps
        20
        """
        presets = list_basic_presets()
        if preset not in presets:
            raise SettingsError(
                f"no preset {format_value(preset)}; there are {', '.join(presets)}",
                setting="preset",
            )
        kind = get_mechanism({PAPER_PRESET: "coordinate"}.get(preset, preset))
        return cls(
            **_to_arguments({"mechanism": kind.name, **kind.preset_settings, **_drop_none(changes)})
        )

    def copy_with(self, **changes: Any) -> Self:
        """Return a copy with some values changed.

        Args:
            changes: The new values by name, including options of the mechanism. A value of None
                changes nothing.
        """
        arguments = _to_arguments(_drop_none(changes))
        # A different mechanism has different options, so the present options are dropped.
        if arguments.get("mechanism", self.mechanism) == self.mechanism:
            arguments["options"] = {**self.options, **arguments["options"]}
        return replace(self, **arguments)

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> Self:
        """Read a table of a settings file: the name of a preset, and values that differ from it."""
        changes = dict(table)
        return cls.preset(changes.pop("preset", DEFAULT_PRESET), **changes)

    def as_dict(self) -> dict[str, Any]:
        """Return all settings for JSON, with the mechanism's options on the same level."""
        content = asdict(self)
        options = content.pop("options")
        return {**content, **options}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Return the settings from a result of `as_dict`."""
        # All settings must be there, because defaults may be different in another version.
        missing = set(get_settings(cls)) - set(content)
        if missing:
            raise SettingsError(f"settings must have {', '.join(sorted(missing))}")
        return cls(**_to_arguments(content))

    def compute_user_ridge(self, V: NDArray[np.float32]) -> float:
        """Return lambda of the users' equations, which the manifest of every epoch states.

        The part from `ridge` is relative to what V adds to the diagonal of these equations, because
        V grows while it is learnt.

        Args:
            V: The item matrix of the epoch.
        """
        squares = sum_squares(V)
        # V adds the squared lengths of its columns to the diagonal. squares / F is their mean.
        ridge = self.regularization + self.ridge * squares / len(V.T)
        return min(ridge, MAX_RIDGE)

    @property
    def max_turns(self) -> int:
        """The largest number of epochs for which a device spends epsilon: `epochs` in the terms.

        This limit also holds for a training without an end. It may be larger than the number of
        epochs, because an epoch that is discarded costs a turn and is repeated.
        """
        return self.lifetime or self.epochs

    @property
    def turns(self) -> int:
        """E: the number of epochs in which each person takes part if no epoch is discarded."""
        return min(self.max_turns, self.epochs)

    @property
    def share(self) -> float:
        """The fraction of people who take part in an epoch: E / T."""
        return self.turns / self.epochs

    @property
    def asks_for_names(self) -> bool:
        """Whether reports name items, and not directions of a gradient."""
        return get_mechanism(self.mechanism).asks_for_names

    @property
    def fade(self) -> float:
        """The factor that multiplies the old model in each epoch; 1 without a half-life."""
        return 0.5 ** (1 / self.half_life) if self.half_life else 1.0

    @property
    def memory(self) -> float:
        """The number of epochs that the model remembers: the sum of the weights of all epochs.

        Without a half-life, every epoch has the weight 1.

        >>> round(Settings(half_life=14).memory, 1)
        20.7
        """
        # The sum of 1 + fade + fade^2 + ..., where the newest epoch weighs 1.
        return 1 / (1 - self.fade) if self.half_life else float(self.epochs)

    def to_endless(self) -> Self:
        """Return a copy for a training without an end, with a half-life of 0.2 T."""
        # With a half-life of 0.7 T, the model would remember T epochs. But tastes change, so a
        # shorter memory is better although it has more noise. The factor 0.2 was chosen on Netflix
        # data replayed by date, with seed 1000.
        return replace(self, half_life=float(max(round(0.2 * self.epochs), 1)))

    def estimate_crowd(self, people: int) -> int:
        """Return a lower bound of the people in an epoch; it fails with probability 1e-9.

        Args:
            people: Number of people who take part in the training.

        >>> Settings().estimate_crowd(20_000), Settings(lifetime=1).estimate_crowd(20_000)
        (20000, 820)
        """
        return compute_min_participants(people, self.share)

    @property
    def rate(self) -> float:
        """The length of a step along the estimated gradient, as `update_items` takes it."""
        return self.learning_rate * (self.reports if self.rate_grows_with_reports else 1)

    def build(self, n_items: int) -> Mechanism:
        """Build the mechanism for a catalogue.

        Args:
            n_items: Number of items in the catalogue.
        """
        shape = Shape(n_items, self.factors, self.alpha)
        kind = get_mechanism(self.mechanism)
        return kind.build(shape, self.epsilon, self.seed, self.options)

    def event(self, n_items: int) -> Reporting:
        """Return the privacy event for the accountant: all reports of one person in the training.

        Args:
            n_items: Number of items in the catalogue.
        """
        return self.build(n_items).event(self.reports, self.max_turns, self.dummies)


def _drop_none(changes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in changes.items() if value is not None}


def _to_arguments(values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert settings and options from one mapping to the arguments of `Settings`."""
    names = list_settings()
    if unknown := sorted(set(values) - set(names)):
        raise SettingsError(
            f"no such setting: {', '.join(unknown)}; there are {', '.join(names)}",
            setting=unknown[0],
        )
    settings = {name: value for name, value in values.items() if name in get_settings(Settings)}
    options = {name: value for name, value in values.items() if name not in settings}
    return {**settings, "options": options}


def list_settings() -> dict[str, Setting]:
    """Return the settings of every training by name, and then the options of all mechanisms."""
    return _all_settings(tuple(MECHANISMS.values()))


@cache
def _all_settings(kinds: tuple[type[Mechanism], ...]) -> dict[str, Setting]:
    options: dict[str, Setting] = {}
    for kind in kinds:
        for name, option in kind.options().items():
            if name in get_settings(Settings):
                raise SettingsError(
                    f"{kind.name!r} has an option {name}, a setting of any training: choose another"
                )
            # Several mechanisms may have an option of the same name. Then their help texts are
            # joined.
            other_help = f"{options[name].help}; " if name in options else ""
            options[name] = replace(option, help=f"{other_help}{kind.name} only: {option.help}")
    mechanism = get_settings(Settings)["mechanism"]
    names = ", ".join(kind.name for kind in kinds)
    mechanism = replace(mechanism, help=f"{mechanism.help}: {names}")
    return {**get_settings(Settings), "mechanism": mechanism, **options}


def _describe_owners(name: str) -> str:
    owners = [repr(kind.name) for kind in MECHANISMS.values() if name in kind.options()]
    return f"; it is for {', '.join(owners)}" if owners else ""


# Preset that is used if none is named.
DEFAULT_PRESET = "loudest"
# Preset with the settings of the paper.
PAPER_PRESET = "paper"


def list_basic_presets() -> list[str]:
    """Return the names of presets with fixed values: the paper's, and one for each mechanism.

    Presets whose values follow from a budget are in `sottovoce.training.planning`.
    """
    return [PAPER_PRESET, *MECHANISMS]


@dataclass(frozen=True)
class Participation:
    """The operator's terms that are not settings of the training, such as the size of a crowd."""

    min_clients: int = setting(
        100,
        "minimum number of people whose reports are mixed; an epoch stays open until they have "
        "reported",
        min_value=1,
    )
    hold: int = setting(
        7 * 86_400,
        "seconds that an epoch waits after its end for min_clients people; then it is discarded",
        min_value=0,
    )
    max_items: int = setting(
        0,
        "largest number of items that the catalogue may ever have, in a training of names below "
        "`names`; 0: twice the number at the beginning",
        min_value=0,
    )
    accounts: bool = setting(
        default=False,
        help="whether people need an account of the product to report; an account can report once "
        "in an epoch",
    )
    trial: bool = setting(
        default=False,
        help="whether devices tell people that this is a trial, in which invented people take part",
    )

    def __post_init__(self) -> None:
        check(self)
