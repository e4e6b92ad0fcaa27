"""MF-NP: matrix factorisation that is not private, by alternating least squares."""

from __future__ import annotations

from typing import Any

from sottovoce.core import Histories, initial_items
from sottovoce.simulation import build_engine
from sottovoce.training import Settings
from sottovoce_lab.baselines.ranking import Factorization

FIRST = 0.1
"""Scale of the first V, whose entries are random."""


class MatrixFactorization(Factorization):
    """The paper's upper bound: V from everybody's data in one place.

    People and items take turns. Both sides' equations are those of a device, which an engine
    solves: items are the people of the transposed histories. Nothing but V differs from a federated
    model, whose people solve the same equations for theirs.
    """

    @classmethod
    def fit(
        cls,
        train: Histories,
        *,
        factors: int,
        alpha: float,
        regularization: float,
        iterations: int,
        seed: int,
        engine: str = "cpu",
        **options: Any,
    ) -> MatrixFactorization:
        """Alternate `iterations` times between people and items, from a V drawn by the seed."""
        # A preset for what is not asked of these engines: they solve, and nobody reports.
        settings = Settings.preset(
            "paper", factors=factors, alpha=alpha, regularization=regularization, seed=seed
        )
        V = initial_items(train.n_items, factors, FIRST, seed)
        with (
            build_engine(engine, train, settings, **options) as people,
            build_engine(engine, _by_item(train), settings, **options) as items,
        ):
            for _ in range(iterations):
                V = items.user_vectors(people.user_vectors(V))
            return cls(people.user_vectors(V), V)


def _by_item(train: Histories) -> Histories:
    """Who touched each item."""
    return Histories.from_csr(train.to_csr().T.tocsr())
