"""How fast is an epoch? Side by side with implicit's ALS and with the numpy reference."""

from sottovoce.experiments.bench.comparison import BenchPlan, BenchResult, run_bench
from sottovoce.experiments.bench.timing import Spread

__all__ = ["BenchPlan", "BenchResult", "Spread", "run_bench"]
