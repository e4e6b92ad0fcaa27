"""Everybody's devices on one machine: engines behind one interface, and what is built on them."""

from sottovoce.simulation.engines import build_engine, register_engine
from sottovoce.simulation.federated import FederatedMF
from sottovoce.simulation.interface import Engine
from sottovoce.simulation.run import Run, Simulation, simulate

__all__ = [
    "Engine",
    "FederatedMF",
    "Run",
    "Simulation",
    "build_engine",
    "register_engine",
    "simulate",
]
