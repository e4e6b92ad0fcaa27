"""The parameters of `FederatedMF`: stated once, described in its docstring, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, fields
from difflib import get_close_matches
from functools import wraps
from textwrap import indent
from typing import Any, Self, TypeVar

import numpy as np

from sottovoce.core import Histories
from sottovoce.errors import SettingsError, UnknownParameterError
from sottovoce.settings import Setting
from sottovoce.simulation.engines import AUTO_ENGINE, ENGINE_MODULES, make_engine_options
from sottovoce.training import (
    DEFAULT_PRESET,
    Budget,
    Settings,
    choose_base_settings,
    list_presets,
    list_settings,
    plan_training,
)

Kind = TypeVar("Kind", bound=type)
_HELP = "help"


def _about(default: Any, help: str) -> Any:  # noqa: A002 - as in `setting`
    """A parameter that is no setting of a training, which says its help itself."""
    return field(default=default, metadata={_HELP: help})


def _names_checked(kind: Kind) -> Kind:
    """A class whose constructor suggests a name for one that it does not know."""
    made = vars(kind)["__init__"]
    made.__qualname__ = "FederatedMF.__init__"  # what Python's own errors call it

    @wraps(made)
    def init(self: Parameters, *args: Any, **params: Any) -> None:
        known = self.defaults()
        for name in (each for each in params if each not in known):
            near = "".join(f": use {each}" for each in get_close_matches(name, known, n=1))
            said = f"{type(self).__name__} has no parameter {name}{near}"
            raise UnknownParameterError(f"{said}; there are {', '.join(known)}")
        made(self, *args, **params)

    kind.__init__ = init  # type: ignore[misc]  # takes the same
    return kind


@_names_checked
@dataclass(repr=False, eq=False)
class Parameters:
    """What `FederatedMF` can be told, by the conventions of scikit-learn.

    The arguments of the constructor are kept as they were given, in attributes of their names: so
    `clone` and `ParameterGrid` work.
    """

    factors: int | None = None
    epochs: int | None = None
    epsilon: float | None = None
    reports: int | None = None
    mechanism: str | None = None
    seed: int = 0
    _: KW_ONLY
    preset: str = _about(DEFAULT_PRESET, f"settings to start from: {', '.join(list_presets())}")
    budget: float | None = _about(
        None,
        "epsilon that each person may spend in all, with nobody to trust; without a budget the "
        "preset has its usual reports",
    )
    central_budget: float | None = _about(None, "the same after an honest shuffle")
    history: float | None = _about(
        None, "items of a typical person; None: the median of the data, to two digits"
    )
    lifetime: int | None = None
    half_life: float | None = None
    dummies: int | None = None
    alpha: float | None = None
    regularization: float | None = None
    ridge: float | None = None
    learning_rate: float | None = None
    steps: int | None = None
    rate_grows_with_reports: bool | None = None
    initial_scale: float | None = None
    head_start: float | None = None
    rotate: bool | None = None
    options: Mapping[str, Any] | None = _about(
        None, "the mechanism's options, as `{'block': 8}` for `loudest`"
    )
    engine: str = _about(AUTO_ENGINE, f"what trains: {', '.join((AUTO_ENGINE, *ENGINE_MODULES))}")
    engine_options: Mapping[str, Any] | None = _about(
        None, "the engine's options, as `{'card': 1}` for `cuda`"
    )
    threads: int | None = _about(None, "short for that option of the engines `cpu` and `auto`")

    def __init_subclass__(cls) -> None:
        """What each parameter is, in numpy's style, from where it is stated."""
        cls.__doc__ = f"{cls.__doc__}\n{indent(_described(), ' ' * 4)}"

    def __post_init__(self) -> None:
        """Refuses what cannot be, before any data is read."""
        choose_base_settings(self.preset, self._given())
        self._spend()
        _number("history", self.history)
        make_engine_options(self.engine, self._engine_options())

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """By name, in the order of the constructor."""
        return {each.name: each.default for each in fields(cls)}

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002, FBT001, FBT002 - scikit-learn's signature
        """The arguments of the constructor, as they were given. No parameter is a model itself."""
        return {name: getattr(self, name) for name in self.defaults()}

    def set_params(self, **params: Any) -> Self:
        """Change some parameters. What was fitted stays as it is until the next `fit`."""
        type(self)(**{**self.get_params(), **params})  # refuses what cannot be
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        """With the parameters that are not the default."""
        defaults = self.defaults()
        given = {name: plain(value) for name, value in self.get_params().items()}
        named = [f"{name}={value!r}" for name, value in given.items() if value != defaults[name]]
        return f"{type(self).__name__}({', '.join(named)})"

    def _given(self) -> dict[str, Any]:
        """The settings of the training; None where one is not named."""
        named, options = self.get_params(), _mapping("options", self.options, "{'block': 8}")
        if twice := sorted(set(options) & set(named)):
            raise SettingsError(f"give {', '.join(twice)} as an argument, not among the options")
        training = {name: each for name, each in named.items() if name in list_settings()}
        return {**training, **options}

    def _spend(self) -> Budget | None:
        local, central = self.budget, self.central_budget
        return Budget.from_options(_number("budget", local), _number("central_budget", central))

    def _engine_options(self) -> dict[str, Any]:
        given = _mapping("engine_options", self.engine_options, "{'card': 1}")
        if self.threads is None:
            return given
        if "threads" in given:
            raise SettingsError("threads must be given once: as an argument or in engine_options")
        return {**given, "threads": self.threads}

    def _planned(self, histories: Histories) -> Settings:
        history = _number("history", self.history)
        return plan_training(
            histories.n_users,
            histories.n_items,
            history=histories.typical_length() if history is None else history,
            preset=self.preset,
            budget=self._spend(),
            **self._given(),
        )


def _described() -> str:
    lines = ["Parameters", "----------"]
    for each in fields(Parameters):
        about = list_settings().get(each.name, Setting(each.name, str, **each.metadata))
        kind = f"{str(each.type).removesuffix(' | None')} {about.format_bounds()}".rstrip()
        otherwise = "optional" if each.default is None else f"default {each.default!r}"
        lines += [f"{each.name} : {kind}, {otherwise}", f"    {about.help}."]
    return "\n".join([*lines, ""])


def _mapping(name: str, given: Any, example: str) -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(each, str) for each in given):
        raise SettingsError(f"{name} must be a mapping by name, as {example}; got {given!r:.80}")
    return dict(given)


def _number(name: str, value: Any) -> float | None:
    checked: float | None = Setting(name, float, optional=True).check_value(value)
    return checked


def plain(value: Any) -> Any:
    """Numbers of numpy as Python's, and any mapping as a dict: for JSON and for people."""
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    return value.item() if isinstance(value, np.generic) else value
