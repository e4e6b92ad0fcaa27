"""What every result must be read against."""

from sottovoce.baselines.als import MatrixFactorization
from sottovoce.baselines.federated import Federated
from sottovoce.baselines.named_items import NamedItems, factorized
from sottovoce.baselines.neighbours import DPLCF
from sottovoce.baselines.private_popularity import PrivatePopularity
from sottovoce.baselines.ranking import rank
from sottovoce.baselines.simple import Popularity, Random
from sottovoce.baselines.trusted import DPALS
from sottovoce.baselines.trusted_settings import TrustedSettings

__all__ = [
    "DPALS",
    "DPLCF",
    "Federated",
    "MatrixFactorization",
    "NamedItems",
    "Popularity",
    "PrivatePopularity",
    "Random",
    "TrustedSettings",
    "factorized",
    "rank",
]
