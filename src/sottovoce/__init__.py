"""The recommender that never learns what you did.

Federated matrix factorisation for implicit feedback under local differential privacy.

    from sottovoce import FederatedMF
    model = FederatedMF(factors=5, epochs=20, epsilon=2.5, reports=100).fit(user_items)
    items, scores = model.recommend(userid, user_items[userid])
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sottovoce.errors import MissingExtraError

if TYPE_CHECKING:
    from sottovoce.simulation.federated import FederatedMF

__all__ = ["FederatedMF", "__version__"]
__version__ = "1.0.0"


def __getattr__(name: str) -> object:
    """Import the simulator only when asked for: a client needs numpy alone."""
    if name == "FederatedMF":
        try:
            from sottovoce.simulation.federated import FederatedMF
        except ModuleNotFoundError as error:
            raise MissingExtraError(
                f"FederatedMF needs {error.name}: pip install 'sottovoce[sim]'"
            ) from error
        return FederatedMF
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
