"""How fast is an epoch? Side by side with implicit's ALS and with a plain numpy loop."""

from sottovoce.experiments.bench.comparison import (
    BenchPlan,
    BenchResult,
    Comparison,
    Memory,
    run_bench,
)
from sottovoce.experiments.bench.growth import Growth, Point
from sottovoce.experiments.bench.timing import Spread

__all__ = [
    "BenchPlan",
    "BenchResult",
    "Comparison",
    "Growth",
    "Memory",
    "Point",
    "Spread",
    "run_bench",
]
