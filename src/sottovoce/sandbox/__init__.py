"""A whole system on one machine: its folder, its processes, and people who take part in it.

This package imports nothing, because worker processes import it and should start quickly.
"""
