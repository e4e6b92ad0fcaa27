"""implicit's alternating least squares as a contender: what training costs without privacy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sottovoce.baselines.als import als_class, implicit_alpha
from sottovoce.experiments.bench.timing import Contender

if TYPE_CHECKING:
    from sottovoce.model import Histories
    from sottovoce.training import Settings

ALS = "als"


def als(histories: Histories, settings: Settings, threads: int) -> Contender:
    """One iteration, users and then items, with its default solver; setup is not counted."""
    model = als_class()(
        factors=settings.factors,
        regularization=settings.regularization,
        alpha=implicit_alpha(settings.alpha),
        iterations=1,
        num_threads=threads,
        random_state=settings.seed,
    )
    matrix = histories.to_csr()

    def run() -> float:
        # `fit` goes on from the factors it has; its callback gets the seconds of the iteration
        # alone, without the transposition before it.
        took: list[float] = []
        model.fit(
            matrix,
            show_progress=False,
            callback=lambda _iteration, seconds, _loss: took.append(seconds),
        )
        return took[0]

    return Contender(ALS, run)


def als_solver() -> str:
    """How implicit solves by default, in words."""
    model = als_class()()
    return f"conjugate gradient, {model.cg_steps} steps" if model.use_cg else "Cholesky"
