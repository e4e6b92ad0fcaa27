"""Compile every kernel, so that no test has to wait for it: `python -m tests.kernels`."""

from __future__ import annotations

import numpy as np

from sottovoce.mechanism import MECHANISMS
from sottovoce.model import initial_items
from sottovoce.simulation import build_engine
from sottovoce.training import Settings
from tests.mechanism.compiled_loud import listed
from tests.people import random_people


def main() -> None:
    for mechanism in MECHANISMS:
        engine = build_engine("cpu", random_people(3, 5), Settings(mechanism=mechanism, factors=2))
        engine.user_vectors(initial_items(5, 2, 0.1, 0))
        engine.reports(initial_items(5, 2, 0.1, 0), 0)
    listed(np.ones(3, np.float32), np.ones(2, np.float32), 1, 0)


if __name__ == "__main__":
    main()
