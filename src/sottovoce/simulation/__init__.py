"""Simulated trainings: engines that compute the reports of all devices, and runs that use them."""

from sottovoce.simulation.comparison import Popularity, evaluate
from sottovoce.simulation.engines import build_engine, register_engine
from sottovoce.simulation.federated import FederatedMF, HoldoutScorer
from sottovoce.simulation.interface import Engine
from sottovoce.simulation.run import Run, Simulation, simulate

__all__ = [
    "Engine",
    "FederatedMF",
    "HoldoutScorer",
    "Popularity",
    "Run",
    "Simulation",
    "build_engine",
    "evaluate",
    "register_engine",
    "simulate",
]
