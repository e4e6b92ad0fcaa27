"""Everything that one training fixes, stated once: frozen, checked, one name on every surface.

The command line, the server's settings file and its template, `FederatedMF` and the files of a
simulation read this statement (`all_settings`) or go through `Settings.preset`.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import MECHANISMS, Mechanism, Shape, mechanism_named
from sottovoce.core.bounds import (
    LEAST_RIDGE,
    MOST_ALPHA,
    MOST_DUMMIES,
    MOST_REPORTS,
    MOST_RIDGE,
)
from sottovoce.core.coin import LEAST_EPSILON, MAX_EPSILON
from sottovoce.errors import SettingsError
from sottovoce.privacy import Reporting
from sottovoce.settings import Setting, check, setting, shown, stated
from sottovoce.training.counts import least_of


@dataclass(frozen=True)
class Settings:
    """One training. `Settings.preset(name)` gives a preset's values.

    The fields are those of the table of settings in docs/reference/model.md, and one more:

    Args:
        options: The mechanism's, by name; what is not given is its default.
    """

    mechanism: str = setting("loudest", "how devices report")
    epsilon: float = setting(2.5, "epsilon of one report", least=LEAST_EPSILON, most=MAX_EPSILON)
    reports: int = setting(
        100,
        "reports of one person in one epoch (k); an epoch costs k * epsilon",
        least=1,
        most=MOST_REPORTS,
    )
    epochs: int = setting(
        20,
        "number of epochs with reports (T); without a half-life, training ends after them",
        least=1,
    )
    lifetime: int = setting(
        0, "epochs in which one person takes part, drawn by their own device; 0 means all", least=0
    )
    half_life: float = setting(
        0.0,
        "epochs after which old reports weigh half, and learning never ends; 0: it ends after T",
        least=0,
        most=1e9,
    )
    dummies: int = setting(
        0,
        "uniform random reports that the proxy mixes into every epoch (D): they hide a person "
        "where others do not",
        least=0,
        most=MOST_DUMMIES,
    )
    factors: int = setting(5, "numbers that describe an item (F)", least=1)
    alpha: float = setting(
        1.0, "weight of a touched item is 1 + alpha, of any other item 1", least=0, most=MOST_ALPHA
    )
    regularization: float = setting(
        1e-6,
        "regularization of user vectors and items (lambda)",
        least=LEAST_RIDGE,
        most=MOST_RIDGE,
    )
    ridge: float = setting(
        0.0,
        "further regularization of user vectors, relative to the mean squared length of V's "
        "columns",
        least=0,
        most=MOST_RIDGE,
    )
    learning_rate: float = setting(100.0, "length of a step along the estimated gradient", above=0)
    steps: int = setting(1, "steps in one epoch, all from the same reports", least=1)
    rate_grows_with_reports: bool = setting(
        default=False,
        # The paper averages over users where it should over reports.
        help="multiply the step by k, as the paper does",
    )
    # So small that it is nothing next to the first estimate, which small blocks need most.
    initial_scale: float = setting(1e-7, "standard deviation of the first item matrix", above=0)
    head_start: float = setting(
        1.0,
        "first value of the first factor, in multiples of initial_scale; 0 means random",
        least=0,
    )
    rotate: bool = setting(default=True, help="turn the factors to a fresh basis after every epoch")
    seed: int = setting(
        0,
        "public seed of the first item matrix, the directions and, in a simulation, all reports",
        least=0,
        most=2**53 - 1,
    )
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """The mechanism's, by name; what is not given is its default."""

    def __post_init__(self) -> None:
        check(self)
        known = mechanism_named(self.mechanism).options()
        for name in self.options:
            if name not in known:
                raise SettingsError(f"{name} must be for {self.mechanism!r}{_whose(name)}")
        complete = {
            name: each.checked(self.options.get(name, each.default)) for name, each in known.items()
        }
        object.__setattr__(self, "options", complete)

    @classmethod
    def preset(cls, preset: str, /, **changes: Any) -> Self:
        """A mechanism's usual settings, or the paper's, with some values changed.

        Args:
            preset: `paper`, or the name of a mechanism.
            changes: Other values by name, options of the mechanism included; None changes nothing.

        >>> Settings.preset("paper").steps
        20
        """
        known = presets()
        if preset not in known:
            raise SettingsError(f"no preset {shown(preset)}; there are {', '.join(known)}")
        kind = mechanism_named({PAPER: "coordinate"}.get(preset, preset))
        return cls(**_arguments({"mechanism": kind.name, **kind.usual, **_given(changes)}))

    def changed(self, **changes: Any) -> Self:
        """The same with other values, options included; None changes nothing."""
        given = _arguments(_given(changes))
        if given.get("mechanism", self.mechanism) == self.mechanism:
            given["options"] = {**self.options, **given["options"]}
        return replace(self, **given)

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> Self:
        """From a table of a settings file: the name of a preset, and what differs from it."""
        given = dict(table)
        return cls.preset(given.pop("preset", DEFAULT), **given)

    def as_dict(self) -> dict[str, Any]:
        """For JSON: one level, the mechanism's options among the settings."""
        content = asdict(self)
        options = content.pop("options")
        return {**content, **options}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """From what `as_dict` gave."""
        missing = set(stated(cls)) - set(content)
        if missing:
            raise SettingsError(f"settings must have {', '.join(sorted(missing))}")
        return cls(**_arguments(content))

    def user_ridge(self, V: NDArray[np.float32]) -> float:
        """Lambda of the users' equations, which the manifest of every epoch names as a number.

        A share of what V itself adds to their diagonal, for V grows while it is learnt. Squares are
        added one after the other, so that every machine finds the same.
        """
        squares = float(np.cumsum(np.square(V, dtype=np.float64).ravel())[-1])
        wanted = self.regularization + self.ridge * squares / len(V.T)
        return min(wanted, MOST_RIDGE)

    @property
    def most_turns(self) -> int:
        """What a device is asked to agree to, and so what a training costs at most.

        In one without end too: a device stops after so many. More than its epochs, if so many are
        named: one that came to nothing is paid for and held again.
        """
        return self.lifetime or self.epochs

    @property
    def turns(self) -> int:
        """E: in how many of its epochs each person takes part, where none comes to nothing."""
        return min(self.most_turns, self.epochs)

    @property
    def share(self) -> float:
        """Of all people, those who take part in an epoch: E / T."""
        return self.turns / self.epochs

    @property
    def fade(self) -> float:
        """What an epoch leaves of the model before it."""
        return 0.5 ** (1 / self.half_life) if self.half_life else 1.0

    @property
    def memory(self) -> float:
        """How many epochs a model is made of, as far as its noise is concerned.

        The sum of all weights where old epochs fade: as many equal ones would say as much.

        >>> round(Settings(half_life=14).memory, 1)
        20.7
        """
        return 1 / (1 - self.fade) if self.half_life else float(self.epochs)

    def endless(self) -> Self:
        """The same without an end.

        A half-life of 0.7 T would remember as many epochs, but tastes move, and a shorter memory is
        worth its noise: chosen on the Netflix days, seed 1000 (lab/docs/report.md).
        """
        return replace(self, half_life=float(max(round(0.2 * self.epochs), 1)))

    def crowd(self, people: int) -> int:
        """Of so many people, those who take part in an epoch: at least, but for a chance of 1e-9.

        >>> Settings().crowd(20_000), Settings(lifetime=1).crowd(20_000)
        (20000, 820)
        """
        return least_of(people, self.share)

    @property
    def rate(self) -> float:
        """What `update` is given."""
        return self.learning_rate * (self.reports if self.rate_grows_with_reports else 1)

    def build(self, n_items: int) -> Mechanism:
        """The mechanism.

        Args:
            n_items: How many the catalogue has.
        """
        shape = Shape(n_items, self.factors, self.alpha)
        kind = mechanism_named(self.mechanism)
        return kind.build(shape, self.epsilon, self.seed, self.options)

    def event(self, n_items: int) -> Reporting:
        """What a training does to each person, for the accountant.

        Args:
            n_items: How many the catalogue has.
        """
        return self.build(n_items).event(self.reports, self.most_turns, self.dummies)


def _given(changes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in changes.items() if value is not None}


def _arguments(named: Mapping[str, Any]) -> dict[str, Any]:
    """Those of `Settings`, from settings and options on one level."""
    known = all_settings()
    if unknown := sorted(set(named) - set(known)):
        raise SettingsError(f"no such setting: {', '.join(unknown)}; there are {', '.join(known)}")
    settings = {name: value for name, value in named.items() if name in stated(Settings)}
    options = {name: value for name, value in named.items() if name not in settings}
    return {**settings, "options": options}


def all_settings() -> dict[str, Setting]:
    """Every setting of a training by name, then the options of single mechanisms."""
    return _all_settings(tuple(MECHANISMS.values()))


@cache
def _all_settings(kinds: tuple[type[Mechanism], ...]) -> dict[str, Setting]:
    options: dict[str, Setting] = {}
    for kind in kinds:
        for name, each in kind.options().items():
            if name in stated(Settings):
                raise SettingsError(
                    f"{kind.name!r} has an option {name}, a setting of any training: choose another"
                )
            said = f"{options[name].help}; " if name in options else ""
            options[name] = replace(each, help=f"{said}{kind.name} only: {each.help}")
    which = stated(Settings)["mechanism"]
    which = replace(which, help=f"{which.help}: {', '.join(kind.name for kind in kinds)}")
    return {**stated(Settings), "mechanism": which, **options}


def _whose(name: str) -> str:
    owners = [repr(kind.name) for kind in MECHANISMS.values() if name in kind.options()]
    return f"; it is for {', '.join(owners)}" if owners else ""


DEFAULT, PAPER = "loudest", "paper"


def presets() -> list[str]:
    """The usual settings of each mechanism; `paper` is the paper's system.

    Those that follow from a budget, people and items are in `sottovoce.training.planning`.
    """
    return [PAPER, *MECHANISMS]


@dataclass(frozen=True)
class Participation:
    """What an operator asks of devices in addition to a training: the crowd and the size."""

    least_clients: int = setting(
        100, "devices whose reports are mixed, at least; an epoch waits for them", least=1
    )
    hold: int = setting(
        7 * 86_400,
        "seconds that an epoch waits for its crowd beyond its end; then it is thrown away",
        least=0,
    )
    most_items: int = setting(
        0, "items that the catalogue may grow to; 0: twice as many as at the beginning", least=0
    )
    accounts: bool = setting(
        default=False,
        help="whether each account reports once in an epoch, with a token; the proxy gives them",
    )
    trial: bool = setting(
        default=False,
        help="whether devices tell their owners that this is a trial with invented people",
    )

    def __post_init__(self) -> None:
        check(self)
