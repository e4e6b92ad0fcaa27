"""Matrix factorisation that is not private, with everybody's data in one place (MF-NP)."""

from __future__ import annotations

from typing import Any

from sottovoce.core import Histories, draw_initial_items
from sottovoce.simulation import build_engine
from sottovoce.training import Settings
from sottovoce_lab.baselines.models import Factorization

# Standard deviation of the entries of the first V.
INITIAL_SCALE = 0.1


class MatrixFactorization(Factorization):
    """The paper's upper bound: V from everybody's data.

    It solves least squares for people and for items in turn. The equations of both are those of a
    device, and an engine solves them. For items, the engine gets the transposed histories, in which
    each item has the people who touched it. Vectors of people are computed as in a federated model,
    so only V differs.
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
        # Engines need complete settings. The preset's settings of reports have no effect.
        settings = Settings.preset(
            "paper", factors=factors, alpha=alpha, regularization=regularization, seed=seed
        )
        V = draw_initial_items(train.n_items, factors, INITIAL_SCALE, seed)
        by_item = Histories.from_csr(train.to_csr().T.tocsr())
        with (
            build_engine(engine, train, settings, **options) as people,
            build_engine(engine, by_item, settings, **options) as items,
        ):
            for _ in range(iterations):
                V = items.solve_user_vectors(people.solve_user_vectors(V))
            return cls(people.solve_user_vectors(V), V)
