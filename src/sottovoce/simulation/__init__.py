"""Everybody's devices on one machine: engines behind one interface, and what is built on them."""

from sottovoce.simulation.engines import ENGINES, build_engine
from sottovoce.simulation.federated import FederatedMF
from sottovoce.simulation.interface import Collected, Engine, LocalEngine
from sottovoce.simulation.run import Run, Simulation, simulate

__all__ = [
    "ENGINES",
    "Collected",
    "Engine",
    "FederatedMF",
    "LocalEngine",
    "Run",
    "Simulation",
    "build_engine",
    "simulate",
]
