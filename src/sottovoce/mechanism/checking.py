"""What can be checked of a mechanism from outside, before anybody uses it.

That its reports are eps-LDP cannot: its author proves it.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sottovoce.errors import SettingsError
from sottovoce.mechanism.base import WORDS_PER_DRAW, Mechanism, Shape, agreed
from sottovoce.model import Histories

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
PRESETS = {"paper", "strong", "crowd"}
"""Presets that are no mechanisms: no mechanism is called like one."""
TRAINING = {
    "mechanism", "epsilon", "reports", "epochs", "lifetime", "half_life", "factors", "alpha",
    "regularization", "ridge", "learning_rate", "steps", "rate_grows_with_reports",
    "initial_scale", "head_start", "rotate", "seed",
}  # fmt: skip
"""The settings that every training has."""
OTHERS = {
    "shape", "directions_seed", "own", "people", "preset", "budget", "central_budget",
    "history", "engine", "engine_options", "threads", "batch", "card", "ray_address",
    "ray_workers", "checkpoint", "columns", "data", "evaluate_every", "items", "json",
    "min_interactions", "negatives", "plot", "replay", "resample", "sample_items",
    "sample_users", "seeds", "split", "switch_at", "tags", "time",
}  # fmt: skip
"""What else a training or `sottovoce simulate` is told by name, beside a mechanism's settings."""
EPSILONS = (0.5, 2.5, 10.0)
ITEMS, FACTORS, REPORTS = 30, 2, 3
"""Of a trial."""


def check_kind(kind: Any, others: Mapping[str, type[Mechanism]]) -> None:
    """A `SettingsError` for what cannot be registered beside the others."""
    if not (isinstance(kind, type) and issubclass(kind, Mechanism)):
        raise SettingsError(
            f"a mechanism is a class that extends sottovoce.mechanism.Mechanism, got {kind!r:.80}"
        )
    missing = sorted(getattr(kind, "__abstractmethods__", ()))
    if missing:
        raise SettingsError(f"the mechanism {kind.__name__} lacks {', '.join(missing)}")
    _check_name(kind, others)
    try:
        _check_settings(kind, others)
        for epsilon in EPSILONS:
            _try(kind, epsilon)
    except SettingsError as error:
        raise SettingsError(f"the mechanism {kind.name!r} cannot be used: {error}") from error
    except Exception as error:
        raise SettingsError(
            f"the mechanism {kind.name!r} cannot be used: {type(error).__name__}: {error}"
        ) from error


def _check_name(kind: type[Mechanism], others: Mapping[str, type[Mechanism]]) -> None:
    name: Any = getattr(kind, "name", None)
    if not (isinstance(name, str) and NAME.fullmatch(name)):
        raise SettingsError(
            f"the name of {kind.__name__} must be small letters, digits and _; got {name!r:.80}"
        )
    if name in PRESETS:
        raise SettingsError(f"there is a preset {name!r}: call {kind.__name__} something else")
    if name in others:
        there = others[name]
        raise SettingsError(
            f"there is a mechanism {name!r} already: {there.__module__}.{there.__qualname__}"
        )


def _check_settings(kind: type[Mechanism], others: Mapping[str, type[Mechanism]]) -> None:
    if kind.event is not Mechanism.event:
        raise SettingsError("event() follows from settings and loud_fraction: do not define it")
    unknown = set(kind.usual) - (TRAINING - {"mechanism"})
    if unknown:
        raise SettingsError(f"`usual` names no setting: {', '.join(sorted(unknown))}")
    for name in sorted({*kind.settings(), *kind.public_names()} - {"directions_seed"}):
        if name in TRAINING | OTHERS or hasattr(Mechanism, name):
            raise SettingsError(f"the name {name} is taken: call its setting something else")
    for name, each in kind.settings().items():
        if not NAME.fullmatch(name) or name == "directions_seed":
            raise SettingsError(f"a setting cannot be called {name}")
        if each.kind is not int or each.optional:
            raise SettingsError(f"its setting {name} must be a whole number (int)")
        each.checked(each.default)
        for other in others.values():
            there = other.settings().get(name, each)
            if replace(there, default=each.default, help=each.help) != each:
                raise SettingsError(f"{other.name!r} has a setting {name} with other bounds")


def _try(kind: type[Mechanism], epsilon: float) -> None:
    """Build it with its defaults, as a server and as a device do, and let two people report."""
    own = {name: each.default for name, each in kind.settings().items()}
    shape = Shape(ITEMS, FACTORS, 1.0)
    built = agreed(kind.build(shape, epsilon, 0, own), epsilon)
    public = built.published()
    for name, value in public.items():
        if type(value) is not int or value < 0:
            raise SettingsError(f"{name} must be a whole number of at least 0, got {value!r:.80}")
    if agreed(kind.from_manifest(shape, epsilon, public), epsilon) != built:
        raise SettingsError("from_manifest() makes another one of what published() says")
    built.event(REPORTS, 1)
    if not built.gain > 0:
        raise SettingsError(f"gain must be above 0, got {built.gain}")
    V = np.linspace(-1, 1, ITEMS * FACTORS, dtype=np.float32).reshape(ITEMS, FACTORS)
    people = Histories.from_lists([[0, 3, 4], []], ITEMS)
    X = np.array([[0.5, -0.25], [0, 0]], np.float32)
    words = np.random.default_rng(0).integers(
        0, 2**64, (len(X), REPORTS + 1, WORDS_PER_DRAW), dtype=np.uint64
    )
    reports = built.reports(V, X, people, words)
    if reports.shape != (len(X), REPORTS) or reports.dtype != np.uint32:
        raise SettingsError(
            f"reports() must give {len(X)} x {REPORTS} reports of type uint32 for {len(X)} people "
            f"who send {REPORTS}, got {reports.shape} of {reports.dtype}"
        )
    if (reports >> 1 >= built.n_directions).any():
        raise SettingsError(f"a report names a direction beyond {built.n_directions - 1}")
    estimate = built.estimate(np.zeros(built.n_directions, np.int64), reports.size)
    if estimate.shape != V.shape:
        raise SettingsError(f"estimate() must give {ITEMS} x {FACTORS}, got {estimate.shape}")
