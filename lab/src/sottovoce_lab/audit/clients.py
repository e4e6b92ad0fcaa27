"""A client as the audit sees it, the people it is tried on, and what its reports should be.

Catalogues are so small that every report can be counted, and the two people as unlike as can be.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import (
    Histories,
    Loudest,
    Mechanism,
    draw_os_words,
    get_mechanism,
    solve_user_vectors,
)
from sottovoce.training import Settings
from sottovoce_lab.audit.densities import loudest_densities

Client = Callable[[NDArray[np.float32], Sequence[int], int], NDArray[Any]]
"""`(V, history, k) -> k reports`. Nothing else of it is looked at."""
Maker = Callable[[Settings, int], Client]
"""A fresh client for these settings and a catalogue of this size."""


def live_client(settings: Settings, n_items: int) -> Client:
    """The shipped code, with the words that a device would use: the operating system's."""
    mechanism = settings.build(n_items)

    def client(V: NDArray[np.float32], history: Sequence[int], k: int) -> NDArray[np.uint32]:
        own = Histories.from_lists([history], n_items)
        return answer(mechanism, settings, V, own, draw_os_words(1, k))

    return client


def answer(
    mechanism: Mechanism,
    settings: Settings,
    V: NDArray[np.float32],
    own: Histories,
    words: NDArray[np.uint64],
) -> NDArray[np.uint32]:
    """One person's reports: the user vector, then the mechanism."""
    X = solve_user_vectors(
        V, own, alpha=settings.alpha, regularization=settings.compute_user_ridge(V)
    )
    own_reports: NDArray[np.uint32] = mechanism.reports(V, X, own, words)[0]
    return own_reports


def sample(
    client: Client, V: NDArray[np.float32], history: Sequence[int], calls: int, k: int
) -> NDArray[np.int64]:
    """Reports, one row for each call of the client."""
    rows = [client(V, history, k) for _ in range(calls)]
    return np.stack(rows).astype(np.int64)


Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
CHUNK = 1 << 24
"""Densities that are held at the same time while averaging over everybody."""


def report_densities(
    mechanism: Mechanism, settings: Settings, V: Float32, histories: Histories
) -> Float32:
    """Of every report under every user's history, N x 2D; a report is its own column."""
    X = solve_user_vectors(
        V, histories, alpha=settings.alpha, regularization=settings.compute_user_ridge(V)
    )
    if isinstance(mechanism, Loudest):
        return loudest_densities(mechanism, V, X, histories)
    return mechanism.densities(V, X, histories)


def mean_density(
    mechanism: Mechanism, settings: Settings, V: Float32, histories: Histories
) -> Float64:
    """Everybody's average: how the crowd's reports are spread."""
    total = np.zeros(2 * mechanism.n_directions)
    step = max(1, CHUNK // total.size)
    for start in range(0, histories.n_users, step):
        users = np.arange(start, min(start + step, histories.n_users))
        some = report_densities(mechanism, settings, V, histories.take(users))
        total += some.sum(axis=0, dtype=np.float64)
    return total / histories.n_users


SCALE = 0.01
"""Of V. Small, so that user vectors are large and `coordinate`'s values are clipped to +-1."""
MANY, PAIR = 2000, 2
"""k while sampling: even numbers, since reports are looked at in pairs."""
SLOWER = 100
"""A scene of pairs has so many times fewer reports, or its calls would take all day."""


@dataclass(frozen=True, eq=False)
class Scene:
    """A public V and the two histories that are to be told apart."""

    name: str
    settings: Settings
    V: NDArray[np.float32]
    first: tuple[int, ...]
    second: tuple[int, ...]
    per_call: int = MANY
    """k. Where directions tie, the reports of one call share their order of ties: then a pair."""

    def calls(self, samples: int) -> int:
        """How often to ask each person for about so many reports."""
        fewer = samples if self.per_call == MANY else samples // SLOWER
        return -(-fewer // self.per_call)

    @property
    def n_items(self) -> int:
        return len(self.V)

    def densities(self) -> NDArray[np.float32]:
        """Of every report under both histories, 2 x 2D."""
        both = Histories.from_lists([self.first, self.second], self.n_items)
        return report_densities(self.settings.build(self.n_items), self.settings, self.V, both)


def scenes(settings: Settings) -> list[Scene]:
    """The worst case, where reports are as telling as they may be, two like it, and nobody.

    The people of the first two have vectors of opposite sign, which turns all signs around. Who has
    no history must say nothing at all, and nobody may while the model is nothing; where directions
    tie, code of its own sees to that.
    """
    return [
        _scene("2 items", settings, [[1.0], [-0.6]], (0,), (1,)),
        _scene("4 items", settings, [[1.0], [-0.6], [0.35], [-0.85]], (0, 2), (1, 3)),
        _scene("3 items x 2", settings, [[1.0, 0.3], [-0.6, 0.9], [0.25, -0.7]], (0,), (1, 2)),
        replace(_scene("nobody", settings, [[1.0], [-0.6]], (0,), ()), per_call=PAIR),
        replace(_scene("no model", settings, [[0.0], [0.0]], (0,), (1,)), per_call=PAIR),
    ]


def _scene(
    name: str,
    settings: Settings,
    V: list[list[float]],
    first: tuple[int, ...],
    second: tuple[int, ...],
) -> Scene:
    items = (SCALE * np.asarray(V)).astype(np.float32)
    # The options are for another catalogue.
    changes = {"factors": items.shape[1], "options": get_mechanism(settings.mechanism).example}
    return Scene(name, replace(settings, **changes), items, first, second)
