"""Baselines: other recommenders, private and not, with which every result is compared."""

from sottovoce_lab.baselines.counting import PrivatePopularity
from sottovoce_lab.baselines.ease import EASE
from sottovoce_lab.baselines.factorization import MatrixFactorization
from sottovoce_lab.baselines.federated import FCF
from sottovoce_lab.baselines.models import rank
from sottovoce_lab.baselines.naming import NamedItems, factorize_named_items
from sottovoce_lab.baselines.neighbours import DPLCF
from sottovoce_lab.baselines.trusted import DPALS, TrustedSettings

__all__ = [
    "DPALS",
    "DPLCF",
    "EASE",
    "FCF",
    "MatrixFactorization",
    "NamedItems",
    "PrivatePopularity",
    "TrustedSettings",
    "factorize_named_items",
    "rank",
]
