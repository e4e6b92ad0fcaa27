"""The reports of `coordinate`, computed on a graphics card."""

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import Histories
from sottovoce.core.coordinate import Coordinate
from sottovoce.simulation.cuda.memory import Memory

SOURCE = "coordinate.cu"


def allocate(memory: Memory, mechanism: Coordinate, histories: Histories) -> None:  # noqa: ARG001
    memory.numbers |= {"threshold": mechanism.flip_below, "always_needs_history": 1}


def prepare(memory: Memory, mechanism: Coordinate, V: NDArray[np.float32]) -> None:
    """Do nothing: a report of `coordinate` needs only V."""


def report(memory: Memory) -> None:
    memory.run("report_coordinate")


def sum_by_item(memory: Memory, mechanism: Coordinate, n_reports: int) -> float:
    memory.run("copy_sums")
    return mechanism.bound / n_reports
