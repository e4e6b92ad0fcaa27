"""The recommender that never learns what you did.

Federated matrix factorisation for implicit feedback under local differential privacy.

    from sottovoce import FederatedMF
    model = FederatedMF(budget=10).fit(user_items)
    items, scores = model.recommend(userid, user_items[userid])
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from sottovoce.errors import MissingExtraError

if TYPE_CHECKING:
    from sottovoce.simulation.federated import FederatedMF

__all__ = ["FederatedMF", "__version__"]
__version__ = "1.1.0"
_EXTRAS = {"FederatedMF": "sim", "client": "client", "data": "sim"}
_PUBLIC = (*_EXTRAS, "errors", "privacy", "training")


def __dir__() -> list[str]:
    """List the public names whose extras are installed."""
    installed = {"sim": find_spec("polars"), "client": find_spec("httpx")}
    return [
        "__version__",
        *(name for name in _PUBLIC if installed.get(_EXTRAS.get(name, ""), True)),
    ]


def __getattr__(name: str) -> object:
    """Import a name when it is first used, so that a client needs only numpy."""
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        if name != "FederatedMF":
            return import_module(f"{__name__}.{name}")
        from sottovoce.simulation.federated import FederatedMF
    except ModuleNotFoundError as error:
        message = f"{name} needs {error.name}: pip install 'sottovoce[{_EXTRAS.get(name, 'sim')}]'"
        raise MissingExtraError(message) from error
    return FederatedMF
