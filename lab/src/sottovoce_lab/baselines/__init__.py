"""What every result must be read against."""

from sottovoce_lab.baselines.counting import NamedItems, PrivatePopularity, factorized
from sottovoce_lab.baselines.ease import EASE
from sottovoce_lab.baselines.federated import Federated, MatrixFactorization
from sottovoce_lab.baselines.models import Popularity, rank
from sottovoce_lab.baselines.neighbours import DPLCF
from sottovoce_lab.baselines.trusted import DPALS, TrustedSettings

__all__ = [
    "DPALS",
    "DPLCF",
    "EASE",
    "Federated",
    "MatrixFactorization",
    "NamedItems",
    "Popularity",
    "PrivatePopularity",
    "TrustedSettings",
    "factorized",
    "rank",
]
