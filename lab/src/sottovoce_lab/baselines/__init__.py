"""What every result must be read against."""

from sottovoce_lab.baselines.als import MatrixFactorization
from sottovoce_lab.baselines.federated import Federated
from sottovoce_lab.baselines.named_items import NamedItems, factorized
from sottovoce_lab.baselines.neighbours import DPLCF
from sottovoce_lab.baselines.private_popularity import PrivatePopularity
from sottovoce_lab.baselines.ranking import rank
from sottovoce_lab.baselines.simple import Popularity, Random
from sottovoce_lab.baselines.trusted import DPALS
from sottovoce_lab.baselines.trusted_settings import TrustedSettings

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
