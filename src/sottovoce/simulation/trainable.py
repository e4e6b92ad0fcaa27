"""Everything that `FederatedMF` can be told about a training, by name, and the plan made of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sottovoce.errors import SettingsError
from sottovoce.simulation.engines import AUTO, chosen_options
from sottovoce.simulation.lists import number
from sottovoce.simulation.parameters import Parameters
from sottovoce.training import DEFAULT, Budget, Settings, all_settings, planned, unplanned

if TYPE_CHECKING:
    from sottovoce.model import Histories

NOT_OF_TRAINING = (
    "preset",
    "budget",
    "central_budget",
    "history",
    "options",
    "engine",
    "engine_options",
    "threads",
)
"""Parameters that are no settings of a training."""


class Trainable(Parameters):
    def __init__(
        self,
        factors: int | None = None,
        epochs: int | None = None,
        epsilon: float | None = None,
        reports: int | None = None,
        mechanism: str | None = None,
        seed: int = 0,
        *,
        preset: str = DEFAULT,
        budget: float | None = None,
        central_budget: float | None = None,
        history: float | None = None,
        lifetime: int | None = None,
        half_life: float | None = None,
        alpha: float | None = None,
        regularization: float | None = None,
        ridge: float | None = None,
        learning_rate: float | None = None,
        steps: int | None = None,
        rate_grows_with_reports: bool | None = None,
        initial_scale: float | None = None,
        head_start: float | None = None,
        rotate: bool | None = None,
        options: Mapping[str, Any] | None = None,
        engine: str = AUTO,
        engine_options: Mapping[str, Any] | None = None,
        threads: int | None = None,
    ):
        """None leaves a value to the planner, which knows people and items once `fit` is called.

        `budget` is what each person may spend in all (epsilon, with nobody to trust);
        `central_budget` the same after an honest shuffle. Without either, the preset has its usual
        reports; there are `strong`, `crowd`, `paper` and one for each mechanism. `history` is how
        many items a typical person has touched (by default the median of the data, to two digits).
        The other settings are those of `sottovoce.training.Settings`. `options` are the
        mechanism's, as `{"block": 8}` for `loudest`; `engine_options` are the engine's, as
        `{"card": 1}` for `cuda`; `threads` is short for that option of `cpu` and `auto`.
        """
        self.factors = factors
        self.epochs = epochs
        self.epsilon = epsilon
        self.reports = reports
        self.mechanism = mechanism
        self.seed = seed
        self.preset = preset
        self.budget = budget
        self.central_budget = central_budget
        self.history = history
        self.lifetime = lifetime
        self.half_life = half_life
        self.alpha = alpha
        self.regularization = regularization
        self.ridge = ridge
        self.learning_rate = learning_rate
        self.steps = steps
        self.rate_grows_with_reports = rate_grows_with_reports
        self.initial_scale = initial_scale
        self.head_start = head_start
        self.rotate = rotate
        self.options = options
        self.engine = engine
        self.engine_options = engine_options
        self.threads = threads
        # Refuses what cannot be, before any data is read.
        unplanned(preset, self._given())
        self._spend()
        number("history", history)
        chosen_options(engine, self._engine_options())

    def _given(self) -> dict[str, Any]:
        """The settings of the training that are named, as plain numbers."""
        known, named = all_settings(), self.get_params()
        options = _mapping("options", self.options, "{'block': 8}")
        if twice := sorted(set(options) & set(named)):
            raise SettingsError(f"give {', '.join(twice)} as an argument, not among the options")
        training = {name: each for name, each in named.items() if name not in NOT_OF_TRAINING}
        return {
            name: known[name].checked(value) if name in known else value
            for name, value in {**training, **options}.items()
            if value is not None
        }

    def _spend(self) -> Budget | None:
        return Budget.of(
            number("budget", self.budget), number("central_budget", self.central_budget)
        )

    def _engine_options(self) -> dict[str, Any]:
        given = _mapping("engine_options", self.engine_options, "{'card': 1}")
        if self.threads is None:
            return given
        if "threads" in given:
            raise SettingsError("threads is given twice: as an argument and in engine_options")
        return {**given, "threads": self.threads}

    def _planned(self, histories: Histories) -> Settings:
        history = number("history", self.history)
        return planned(
            histories.n_users,
            histories.n_items,
            history=histories.typical_length() if history is None else history,
            preset=self.preset,
            budget=self._spend(),
            **self._given(),
        )


def _mapping(name: str, given: Any, example: str) -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(each, str) for each in given):
        raise SettingsError(f"{name} must be a mapping by name, as {example}; got {given!r:.80}")
    return dict(given)
