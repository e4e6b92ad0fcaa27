"""Bugs that the tests must see: `python -m tests.planted` plants each in a copy of the sources.

A test that goes, or is made cheaper, took nothing away if all of them are still caught. Every bug
that somebody planted and that the tests did not see is here.
"""
