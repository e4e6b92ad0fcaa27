"""How fast an epoch is: beside implicit's ALS and the numpy reference, on every engine, by threads.

`timing` needs numpy alone: the live system's benchmark measures processes that should hold no more.
"""

from sottovoce_lab.bench.timing import Spread

__all__ = [
    "Spread",
]
