"""The planner's rules for the options of mechanisms.

Options of a mechanism without rules keep their defaults.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import log
from typing import Any

from sottovoce.core import Shape
from sottovoce.core.loudest import Loudest, choose_block_size, choose_loud_fraction
from sottovoce.privacy import COIN_RHO

# Epsilon of one report in a plan for a crowd, for a mechanism without rules.
DEFAULT_CROWD_EPSILON = 2.5


@dataclass(frozen=True)
class OptionRules:
    """The rules for one mechanism.

    A plan for a crowd has a central budget only: the reports of other people hide those of a
    person.
    """

    choose_crowd_epsilon: Callable[[int], float]
    """The best epsilon of a report in a plan for a crowd, by the number of items."""
    choose_crowd_fraction: Callable[[float, int, float], float]
    """The largest loud fraction of a plan for a crowd, by epsilon, items and history length."""
    choose_options: Callable[[Shape, float, float, Mapping[str, Any], float], dict[str, Any]]
    """The best options in other plans. Arguments: shape, epsilon, history length, fixed options,
    and the number of loud directions in multiples of the usual number."""
    choose_crowd_options: Callable[[Shape, float, float, Mapping[str, Any]], dict[str, Any]]
    """The best options in a plan for a crowd. Arguments: shape, epsilon, history length, and fixed
    options."""


def choose_crowd_epsilon(n_items: int) -> float:
    """Return the best epsilon of `loudest` in a plan for a crowd."""
    # A smaller fraction of directions is loud in a larger catalogue, so epsilon may be larger.
    return min(max(1.45 * log(n_items) - 9.3, 2.0), 4.0)


def choose_crowd_fraction(epsilon: float, n_items: int, history: float) -> float:
    """Return the loud fraction of `loudest` in a plan for a crowd."""
    # The fraction is a third of the usual one, because fewer loud directions are easier to hide.
    block = choose_block_size(epsilon, n_items, history)
    return choose_loud_fraction(epsilon, n_items, history, block) / 3


def choose_loudest_options(
    shape: Shape, epsilon: float, history: float, fixed: Mapping[str, Any], loud_scale: float
) -> dict[str, Any]:
    """Return the best block size and number of loud directions of `loudest`.

    Args:
        shape: Size of the model, and alpha.
        epsilon: Epsilon of one report.
        history: Number of items in a typical history.
        fixed: Options that stay as they are.
        loud_scale: Number of loud directions in multiples of the usual number.
    """
    block = fixed.get("block") or choose_block_size(epsilon, shape.n_items, history)
    rho = choose_loud_fraction(epsilon, shape.n_items, history, block) * loud_scale
    return _to_options(shape, epsilon, block, rho, fixed)


def choose_loudest_crowd_options(
    shape: Shape, epsilon: float, history: float, fixed: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the best options of `loudest` in a plan for a crowd.

    They are as for `choose_loudest_options`, but with fewer loud directions and smaller blocks.
    """
    # The loud directions of smaller blocks agree more with a gradient.
    block = fixed.get("block") or max(choose_block_size(epsilon, shape.n_items, history) // 4, 1)
    rho = choose_crowd_fraction(epsilon, shape.n_items, history)
    return _to_options(shape, epsilon, block, rho, fixed)


def _to_options(
    shape: Shape, epsilon: float, block: int, rho: float, fixed: Mapping[str, Any]
) -> dict[str, Any]:
    n_signed = Loudest(shape, epsilon, block=block, loud=1).n_signed
    # The number is rounded down, so that the fraction of loud directions does not exceed `rho`.
    loud = fixed.get("loud") or max(int(n_signed * min(rho, COIN_RHO)), 1)
    return {"block": block, "loud": loud}


OPTION_RULES = {
    Loudest.name: OptionRules(
        choose_crowd_epsilon,
        choose_crowd_fraction,
        choose_loudest_options,
        choose_loudest_crowd_options,
    )
}
