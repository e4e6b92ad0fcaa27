"""A client of the protocol that shares nothing but the mechanisms with the package.

It was first written from docs/protocol.md alone, to find out whether that page is enough, and
follows the page since. Where it and the package disagree, the page says who is right; where the
page does not say, the page is wrong. Nothing in this folder but the tests and `mechanisms.py` knows
the package.
"""
