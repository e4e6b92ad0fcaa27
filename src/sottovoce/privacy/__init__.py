"""Accounting: what is promised, in numbers and in words. Nothing here reads or writes anything."""

from sottovoce.privacy.account import Account, Figures, Promise, account, promise
from sottovoce.privacy.events import SIGN, Reporting
from sottovoce.privacy.gaussian import mu_within
from sottovoce.privacy.ledger import Charge, Entry, Ledger, Limit, rounded_down, rounded_up
from sottovoce.privacy.local import local_epsilon
from sottovoce.privacy.shuffle import central_epsilon, gaussian_mu

__all__ = [
    "SIGN",
    "Account",
    "Charge",
    "Entry",
    "Figures",
    "Ledger",
    "Limit",
    "Promise",
    "Reporting",
    "account",
    "central_epsilon",
    "gaussian_mu",
    "local_epsilon",
    "mu_within",
    "promise",
    "rounded_down",
    "rounded_up",
]
