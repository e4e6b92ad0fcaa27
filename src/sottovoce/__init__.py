"""The recommender that never learns what you did.

Federated matrix factorisation for implicit feedback under local differential privacy.

    from sottovoce import FederatedMF
    model = FederatedMF(factors=5, epochs=20, epsilon=2.5, reports=100).fit(user_items)
    items, scores = model.recommend(userid, user_items[userid])
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from sottovoce.errors import MissingExtraError

if TYPE_CHECKING:
    from sottovoce.simulation.federated import FederatedMF

__all__ = ["FederatedMF", "__version__"]
__version__ = "1.0.0"
_ROOMS = {"client": "client", "data": "sim", "errors": "sim", "privacy": "sim", "training": "sim"}
"""Public packages, and the extra that brings what each needs."""


def __dir__() -> list[str]:
    """The public interface alone."""
    return sorted([*__all__, *_ROOMS])


def __getattr__(name: str) -> object:
    """Import only when asked for: a client needs numpy alone."""
    if name not in __dir__():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        if name in _ROOMS:
            return import_module(f"{__name__}.{name}")
        from sottovoce.simulation.federated import FederatedMF
    except ModuleNotFoundError as error:
        said = f"{name} needs {error.name}: pip install 'sottovoce[{_ROOMS.get(name, 'sim')}]'"
        raise MissingExtraError(said) from error
    return FederatedMF
