"""Checks of the parameters of `FederatedMF`, and the settings that follow from them."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

import numpy as np

from sottovoce.core import Histories
from sottovoce.errors import SettingsError, UnknownParameterError
from sottovoce.settings import Setting
from sottovoce.simulation.engines import make_engine_options
from sottovoce.training import (
    Budget,
    Settings,
    choose_base_settings,
    list_settings,
    plan_training,
)
from sottovoce.training.budget import needs_default_budget

# What the parameters of other libraries are called here.
_OTHER_NAMES = {
    "seed": "random_state rng rng_seed seed_value",
    "epsilon": "eps epsilon0 report_epsilon",
    "budget": "privacy_budget total_epsilon epsilon_total max_epsilon target_epsilon",
    "factors": "n_factors num_factors no_components n_components embedding_size embedding_dim "
    "embedding_dimension latent_dim rank dim features d",
    "epochs": "iterations n_iterations num_iterations n_iter max_iter n_epochs num_epochs",
    "reports": "n_reports num_reports",
    "reports (k), or factors for the length of vectors": "k",
    "regularization": "reg reg_weight reg_lambda lambda lambda_ lambda_reg l2 l2_reg damping "
    "weight_decay",
    "learning_rate": "lr eta step_size",
    "alpha": "weight confidence",
    "threads": "n_jobs num_threads n_threads workers num_workers",
    "engine": "device backend use_gpu",
    "verbose": "verbosity verbose_eval quiet silent show_progress",
}
NAMES_ELSEWHERE = {
    elsewhere: here for here, names in _OTHER_NAMES.items() for elsewhere in names.split()
}


def check_parameters(parameters: Mapping[str, Any]) -> None:
    """Refuse impossible values before any data is read.

    Raises:
        SettingsError: A value is impossible, or does not go with another one.
    """
    # These calls only raise errors here; `fit` computes their results again.
    choose_base_settings(parameters["preset"], _select_settings(parameters))
    _make_budget(parameters)
    _check_number("history", parameters["history"])
    make_engine_options(parameters["engine"], select_engine_options(parameters))


def check_names(kind: str, unknown: Mapping[str, Any], names: Iterable[str]) -> None:
    """Refuse a parameter that a class does not have, and suggest the one that is meant."""
    for name in unknown:
        meant = [NAMES_ELSEWHERE[name.lower()]] if name.lower() in NAMES_ELSEWHERE else None
        near = "".join(f": use {match}" for match in meant or get_close_matches(name, names, n=1))
        raise UnknownParameterError(
            f"{kind} has no parameter {name}{near}; there are {', '.join(names)}"
        )


def plan_settings(
    parameters: Mapping[str, Any], histories: Histories, start_factors: int = 0
) -> Settings:
    """Plan the settings for these people and items. Parameters that a caller gives are kept."""
    history = _check_number("history", parameters["history"])
    return plan_training(
        histories.n_users,
        histories.n_items,
        history=histories.typical_length() if history is None else history,
        preset=parameters["preset"],
        budget=_make_budget(parameters),
        start_factors=start_factors,
        **_select_settings(parameters),
    )


def select_engine_options(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of the engine, including the parameter `threads` if it is given."""
    options = _check_mapping("engine_options", parameters["engine_options"], "{'card': 1}")
    threads = parameters["threads"]
    if threads is None:
        return options
    if "threads" in options:
        raise SettingsError("threads must be given once: as an argument or in engine_options")
    return {**options, "threads": threads}


def _select_settings(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of the training. A setting that the caller did not give is None."""
    options = _check_mapping("options", parameters["options"], "{'block': 8}")
    if twice := sorted(set(options) & set(parameters)):
        raise SettingsError(f"give {', '.join(twice)} as an argument, not among the options")
    # `list_settings` includes the options of mechanisms, which are not parameters of `FederatedMF`.
    settings = {name: parameters[name] for name in list_settings() if name in parameters}
    return {**settings, **options}


def has_default_budget(parameters: Mapping[str, Any]) -> bool:
    """Return whether the settings are planned for the default budget."""
    settings = _select_settings(parameters)
    return needs_default_budget(parameters["preset"], _make_budget(parameters), settings)


def _make_budget(parameters: Mapping[str, Any]) -> Budget | None:
    return Budget.from_options(
        _check_number("budget", parameters["budget"]),
        _check_number("central_budget", parameters["central_budget"]),
    )


def _check_mapping(name: str, raw: Any, example: str) -> dict[str, Any]:
    if raw is None:
        return {}
    if not isinstance(raw, Mapping) or not all(isinstance(key, str) for key in raw):
        raise SettingsError(f"{name} must be a mapping by name, as {example}; got {raw!r:.80}")
    return dict(raw)


def _check_number(name: str, value: Any) -> float | None:
    number: float | None = Setting(name, float, optional=True).check_value(value)
    return number


def to_plain(value: Any) -> Any:
    """Convert numbers of numpy to Python's, and any mapping to a dict, for JSON and for people."""
    if isinstance(value, Mapping):
        return {str(name): to_plain(item) for name, item in value.items()}
    return value.item() if isinstance(value, np.generic) else value
