"""How fast is an epoch? Side by side with implicit's ALS and with a plain numpy loop."""

from sottovoce.experiments.bench.growth import Growth, Point
from sottovoce.experiments.bench.running import BenchResult, Comparison, Memory, Plan, run_bench
from sottovoce.experiments.bench.timing import Spread

__all__ = [
    "BenchResult",
    "Comparison",
    "Growth",
    "Memory",
    "Plan",
    "Point",
    "Spread",
    "run_bench",
]
