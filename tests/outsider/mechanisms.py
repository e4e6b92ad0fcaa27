"""The mechanisms: the only file here that takes them from the package.

Their arithmetic is held by `tests/vectors/mechanisms.json`, which the browser's tests read as well.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import (
    MECHANISMS,
    WORDS_PER_DRAW,
    Histories,
    Mechanism,
    Shape,
    solve_user_vectors,
)
from sottovoce.errors import SettingsError
from tests.outsider.strict import LAST, Refused, keyed, need, ranged

Terms = dict[str, Any]


def build(terms: Terms, items: int, alpha: float = 0.0) -> Mechanism:
    """Return the mechanism of the terms, with its parameters checked."""
    name = terms["mechanism"]
    need(isinstance(name, str) and name in MECHANISMS, "an unknown mechanism")
    parameters = keyed(terms["parameters"], MECHANISMS[name].public_names())
    for value in parameters.values():
        ranged(value, int, 0, LAST)
    try:
        shape = Shape(items, terms["factors"], alpha)
        return MECHANISMS[name].from_manifest(shape, terms["epsilon"], parameters)
    except SettingsError as error:
        raise Refused(str(error)) from error


def pinned(terms: Terms) -> Terms:
    """Return the terms with the parameters that are not free."""
    free = MECHANISMS[terms["mechanism"]].changeable_parameters
    return {name: value for name, value in terms["parameters"].items() if name not in free}


def make_reports(
    terms: Terms,
    fields: dict[str, Any],
    model: NDArray[np.float32],
    touched: Iterable[int],
    words: Sequence[int],
) -> list[int]:
    histories = Histories.from_lists([sorted(set(touched))], len(model))
    solving = {name: fields[name] for name in ("alpha", "regularization")}
    X = solve_user_vectors(model, histories, **solving)
    draws = np.array(words, np.uint64).reshape(1, -1, WORDS_PER_DRAW)
    reports = build(terms, len(model), fields["alpha"]).reports(model, X, histories, draws)
    return [int(report) for report in reports[0]]
