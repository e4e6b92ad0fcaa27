"""How fast an epoch is, on every engine and beside implicit's ALS; and the live system.

`timing` needs numpy alone: the live system's benchmark measures processes that should hold no more.
"""

from sottovoce_lab.bench.timing import Spread

__all__ = [
    "Spread",
]
