"""Privacy accounting: how much a training reveals about one person, in numbers and in words.

The package does no input or output.
"""

from sottovoce.privacy.events import COIN_RHO, DEFAULT_DELTA, Reporting
from sottovoce.privacy.gaussian import max_gaussian_mu
from sottovoce.privacy.ledger import Charge, Entry, Ledger, Limit, round_down, round_up
from sottovoce.privacy.local import local_epsilon
from sottovoce.privacy.promises import Promise, promise
from sottovoce.privacy.shuffle import central_epsilon, gaussian_mu
from sottovoce.privacy.statement import Figures, PrivacyReport, format_epsilon, make_privacy_report

__all__ = [
    "COIN_RHO",
    "DEFAULT_DELTA",
    "Charge",
    "Entry",
    "Figures",
    "Ledger",
    "Limit",
    "PrivacyReport",
    "Promise",
    "Reporting",
    "central_epsilon",
    "format_epsilon",
    "gaussian_mu",
    "local_epsilon",
    "make_privacy_report",
    "max_gaussian_mu",
    "promise",
    "round_down",
    "round_up",
]
