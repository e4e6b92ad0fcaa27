"""Benchmarks: an epoch on every engine compared with implicit's ALS, and the live system."""

from sottovoce_lab.bench.timing import Spread

# `timing` needs only numpy, because the processes that the live benchmark measures import this
# package: anything else would count as their memory.
__all__ = [
    "Spread",
]
