"""A client as the audit sees it: histories go in, reports come out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import Histories, Mechanism, os_words, user_vectors
from sottovoce.training import Settings

Client = Callable[[NDArray[np.float32], Sequence[int], int], NDArray[Any]]
"""`(V, history, k) -> k reports`. Nothing else of it is looked at."""
Maker = Callable[[Settings, int], Client]
"""A fresh client for these settings and a catalogue of this size."""


def live_client(settings: Settings, n_items: int) -> Client:
    """The shipped code, with the words that a device would use: the operating system's."""
    mechanism = settings.build(n_items)

    def client(V: NDArray[np.float32], history: Sequence[int], k: int) -> NDArray[np.uint32]:
        own = Histories.from_lists([history], n_items)
        return answer(mechanism, settings, V, own, os_words(1, k))

    return client


def answer(
    mechanism: Mechanism,
    settings: Settings,
    V: NDArray[np.float32],
    own: Histories,
    words: NDArray[np.uint64],
) -> NDArray[np.uint32]:
    """One person's reports: the user vector, then the mechanism."""
    X = user_vectors(V, own, alpha=settings.alpha, regularization=settings.user_ridge(V))
    own_reports: NDArray[np.uint32] = mechanism.reports(V, X, own, words)[0]
    return own_reports


def sample(
    client: Client, V: NDArray[np.float32], history: Sequence[int], calls: int, k: int
) -> NDArray[np.int64]:
    """Reports, one row for each call of the client."""
    rows = [client(V, history, k) for _ in range(calls)]
    return np.stack(rows).astype(np.int64)
