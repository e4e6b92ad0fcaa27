"""implicit's alternating least squares as a contender: what training costs without privacy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sottovoce.errors import MissingExtraError
from sottovoce.experiments.bench.timing import Contender

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from sottovoce.model import Histories
    from sottovoce.training import Settings

ALS = "als"


def als(histories: Histories, settings: Settings, threads: int) -> Contender:
    """One iteration, users and then items, with its default solver; setup is not counted."""
    model = als_class()(
        factors=settings.factors,
        regularization=settings.regularization,
        alpha=1 + settings.alpha,  # its confidence is `alpha r`, the paper's `1 + alpha r`
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


def als_class() -> Any:
    """The class of implicit, or which extra brings it."""
    try:
        from implicit.cpu.als import AlternatingLeastSquares
    except ImportError as missing:
        raise _missing("implicit") from missing
    return AlternatingLeastSquares


def one_blas_thread() -> AbstractContextManager[Any]:
    """For ALS, which has threads of its own: OpenBLAS beside them would only stand in their way."""
    als_class()  # loads every copy of OpenBLAS that there is to be limited
    try:
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
    except ImportError as missing:
        raise _missing("threadpoolctl") from missing
    limits: AbstractContextManager[Any] = threadpool_limits(1, user_api="blas")
    return limits


def _missing(package: str) -> MissingExtraError:
    return MissingExtraError(
        f"alternating least squares needs {package}, which is not installed: "
        "pip install 'sottovoce[bench]'"
    )
