"""What every result must be read against."""

from sottovoce.baselines.simple import Popularity, Random

__all__ = ["Popularity", "Random"]
