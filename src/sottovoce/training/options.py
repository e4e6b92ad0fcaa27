"""The planner's rules for the options of mechanisms; without rules, they keep their defaults."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import log
from typing import Any

from sottovoce.core import Shape
from sottovoce.core.blocks import MAX_BLOCK_SIZE
from sottovoce.core.loudest import LOW_EPSILON, Loudest, choose_block_size, choose_loud_fraction
from sottovoce.privacy import COIN_RHO

# Epsilon of one report where only a central budget counts, for a mechanism without rules.
DEFAULT_CROWD_EPSILON = 2.5


@dataclass(frozen=True)
class OptionRules:
    """The rules for one mechanism."""

    choose_crowd_epsilon: Callable[[int], float]
    """The best epsilon of a report for this number of items, if only a central budget counts."""
    choose_crowd_fraction: Callable[[float, int, float], float]
    """The largest loud fraction of a plan for a crowd, by epsilon, items and history length."""
    choose_options: Callable[[Shape, float, float, Mapping[str, Any], float], dict[str, Any]]
    """The best options: see `choose_loudest_options`."""


def choose_crowd_epsilon(n_items: int) -> float:
    """Return the best epsilon of `loudest` if only a central budget counts."""
    # It grows with the catalogue, because a smaller fraction of directions is loud.
    return min(max(1.45 * log(n_items) - 9.3, 2.0), 4.0)


def choose_crowd_fraction(epsilon: float, n_items: int, history: float) -> float:
    """Return a third of the usual fraction of `loudest`: fewer directions are easier to hide."""
    block = choose_block_size(epsilon, n_items, history)
    return choose_loud_fraction(epsilon, n_items, history, block) / 3


def choose_loudest_options(
    shape: Shape, epsilon: float, history: float, fixed: Mapping[str, Any], loud_scale: float
) -> dict[str, Any]:
    """Return the best block size and number of loud directions.

    Args:
        shape: The model's shape.
        epsilon: The budget of one report.
        history: How many items a typical person has touched.
        fixed: Options and settings by name that stay as they are.
        loud_scale: How many directions may be loud, in multiples of the usual number; below 1 if a
            crowd must hide each report.
    """
    # One factor is popularity.
    is_one, is_quiet = shape.factors == 1, epsilon <= LOW_EPSILON
    usual = choose_block_size(epsilon, shape.n_items, history)
    usual = MAX_BLOCK_SIZE if is_one and is_quiet else usual
    block = fixed.get("block") or (max(usual // 4, 1) if loud_scale < 1 else usual)
    if loud_scale < 1:
        # A crowd hides the report: fewer loud directions in smaller blocks, each agreeing more.
        rho = choose_crowd_fraction(epsilon, shape.n_items, history)
    else:
        rho = choose_loud_fraction(epsilon, shape.n_items, history, block) * loud_scale
        if is_one:
            # At a low epsilon every touched item says something about popularity, so more
            # directions are loud. At a larger one, people with short histories would name items
            # that they have not touched, so fewer are.
            few = loud_scale * history / 10 * block**0.8 / shape.n_items
            rho = min(max(1.5 * rho, 0.2), 0.4) if is_quiet else min(1.5 * rho, few)
    rho = min(rho, COIN_RHO)
    n_signed = Loudest(shape, epsilon, block=block, loud=1).n_signed
    # Rounded down, because the planner's budget allows for rho.
    return {"block": block, "loud": fixed.get("loud") or max(int(n_signed * rho), 1)}


OPTION_RULES = {
    Loudest.name: OptionRules(choose_crowd_epsilon, choose_crowd_fraction, choose_loudest_options)
}
