"""MF-NP: matrix factorisation that is not private, by implicit's alternating least squares.

implicit is asked for here and nowhere else; `sottovoce bench` times the same class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sottovoce.baselines.devices import device_vectors
from sottovoce.baselines.ranking import Factorization
from sottovoce.errors import MissingExtraError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from sottovoce.model import Histories


class MatrixFactorization(Factorization):
    """The paper's upper bound: V from everybody's data in one place.

    V is implicit's. User vectors are solved as a device of ours would solve them, from the training
    history and V in closed form: they are the best ones for this V, so what is compared with a
    federated model is its V alone.
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
        threads: int | None = None,
    ) -> MatrixFactorization:
        """Alternate `iterations` times between users and items, from factors drawn by the seed."""
        with one_blas_thread():
            model = als_class()(
                factors=factors,
                regularization=regularization,
                alpha=implicit_alpha(alpha),
                iterations=iterations,
                num_threads=threads or 0,
                random_state=seed,
            )
            model.fit(train.to_csr(), show_progress=False)
        V = np.ascontiguousarray(model.item_factors, dtype=np.float32)
        return cls(device_vectors(V, train, alpha=alpha, regularization=regularization), V)


def implicit_alpha(alpha: float) -> float:
    """What to call alpha there: its confidence is `alpha r` where the paper has `1 + alpha r`."""
    return 1 + alpha


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
