"""Which engines compute which mechanisms.

`python -m tests.kernels` compiles every kernel, so that no test has to wait for it.
"""

from importlib.util import find_spec

import numpy as np

from sottovoce.core import MECHANISMS, draw_initial_items
from sottovoce.simulation import build_engine
from sottovoce.simulation.engines import ENGINE_MODULES, has_kernel, load_engine_package
from sottovoce.training import Settings
from tests.core.compiled_loud import list_loud
from tests.people import random_people


def can_compute(engine: str, mechanism: str) -> bool:
    """Return whether the engine has a kernel for it; an engine without any asks the mechanism."""
    folder = f"{ENGINE_MODULES[engine]}.kernels"
    is_one_file = not hasattr(load_engine_package(engine), "__path__")
    return is_one_file or find_spec(folder) is None or has_kernel(folder, mechanism)


COMPILED = [name for name in MECHANISMS if can_compute("cpu", name)]


def main() -> None:
    for mechanism in COMPILED:
        engine = build_engine("cpu", random_people(3, 5), Settings(mechanism=mechanism, factors=2))
        engine.solve_user_vectors(draw_initial_items(5, 2, 0.1, 0))
        engine.list_reports(draw_initial_items(5, 2, 0.1, 0), 0)
    list_loud(np.ones(3, np.float32), np.ones(2, np.float32), 1, 0)


if __name__ == "__main__":
    main()
