"""The engine for a cluster: people are divided among the processes of Ray, on any machines."""

import os
from dataclasses import dataclass
from importlib.util import find_spec

from sottovoce.errors import MissingExtraError
from sottovoce.settings import setting
from sottovoce.simulation.interface import Engine
from sottovoce.simulation.population import Parts
from sottovoce.training import Settings


@dataclass(frozen=True)
class Options:
    ray_address: str | None = setting(
        None, "address of a Ray cluster, such as 10.0.0.1:6379", none_meaning="Ray on this machine"
    )
    ray_workers: int | None = setting(
        None,
        "number of worker processes, each of which uses one core",
        min_value=1,
        none_meaning="one for each core",
    )


def build(parts: Parts, settings: Settings, options: Options) -> Engine:
    # By default, Ray sends usage statistics to its makers.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if find_spec("ray") is None:
        raise MissingExtraError("the ray engine needs Ray: pip install 'sottovoce[ray]'")
    from sottovoce.simulation.ray.engine import Cluster, RayEngine

    return RayEngine(parts, settings, Cluster(options.ray_address), options.ray_workers)
