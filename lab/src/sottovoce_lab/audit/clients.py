"""A client as the audit sees it: a black box that turns a history into reports."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import Histories, Mechanism, draw_os_words, solve_user_vectors
from sottovoce.training import Settings

# A function of V, a history and k that returns k reports. The audit uses nothing else of a client.
Client = Callable[[NDArray[np.float32], Sequence[int], int], NDArray[Any]]
# Makes a new client for these settings and a catalogue of this size.
ClientFactory = Callable[[Settings, int], Client]


def make_live_client(settings: Settings, n_items: int) -> Client:
    """Return a client that runs the shipped code and draws its random words from the OS."""
    mechanism = settings.build(n_items)

    def client(V: NDArray[np.float32], history: Sequence[int], k: int) -> NDArray[np.uint32]:
        own = Histories.from_lists([history], n_items)
        return make_reports(mechanism, settings, V, own, draw_os_words(1, k))

    return client


def make_reports(
    mechanism: Mechanism,
    settings: Settings,
    V: NDArray[np.float32],
    own: Histories,
    words: NDArray[np.uint64],
) -> NDArray[np.uint32]:
    """Return the reports of one person as a device makes them."""
    X = solve_user_vectors(
        V, own, alpha=settings.alpha, regularization=settings.compute_user_ridge(V)
    )
    own_reports: NDArray[np.uint32] = mechanism.reports(V, X, own, words)[0]
    return own_reports


def collect_reports(
    client: Client, V: NDArray[np.float32], history: Sequence[int], calls: int, k: int
) -> NDArray[np.int64]:
    """Return the reports of many calls of a client, one row for each call."""
    return np.stack([client(V, history, k) for _ in range(calls)]).astype(np.int64)
