"""What is promised, in numbers and in words."""

from sottovoce.privacy.account import Account, Figures, account
from sottovoce.privacy.events import SIGN, Reporting
from sottovoce.privacy.ledger import Charge, Entry, Head, Ledger, Limit, rounded_up
from sottovoce.privacy.local import local_delta, local_epsilon
from sottovoce.privacy.shuffle import Crowd, central_epsilon, gaussian_mu

__all__ = [
    "SIGN",
    "Account",
    "Charge",
    "Crowd",
    "Entry",
    "Figures",
    "Head",
    "Ledger",
    "Limit",
    "Reporting",
    "account",
    "central_epsilon",
    "gaussian_mu",
    "local_delta",
    "local_epsilon",
    "rounded_up",
]
