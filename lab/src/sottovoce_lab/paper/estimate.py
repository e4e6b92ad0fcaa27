"""How long the rest of a run takes, from the work that is left and the pace so far.

Cells differ a thousandfold, so each is weighed by its work. The time for compiling loops says
nothing about the pace, so it is measured separately.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sottovoce_lab.paper.cells import PAPER_METHODS, Cell, Method
from sottovoce_lab.paper.poisoning.audience import KNOWN_PEOPLE
from sottovoce_lab.paper.store import About

# Units of work that count as done in as many seconds, so that the first cell has less weight.
PRIOR_WORK = 5.0


def estimate_work(cell: Cell, about: About) -> float:
    """Return about how many seconds one core needs, on the machine where this was measured.

    Only ratios matter: the pace of the machine at hand is measured while it works.
    """
    users, items = cell.size.users or about.users, cell.size.items or about.items
    history, factors = about.interactions / about.users / about.items * items, _get_factors(cell)
    vector_time = 0.4 * (history * factors**2 + factors**3)
    tests = cell.options["epochs"] if cell.curve else 1 + len(cell.side_information)
    test_time = tests * users * (10_000 + vector_time)
    if cell.measured != "left-out":
        test_time += 4.0 * users * items * factors
    model_time = _estimate_model_time(cell, cell.resample or users, items, vector_time)
    return 0.02 + 1e-9 * (test_time + model_time)


def _get_factors(cell: Cell) -> int:
    return int(cell.options.get("factors", 1))


def _estimate_model_time(cell: Cell, people: int, items: int, vector_time: float) -> float:
    """Return the nanoseconds to compute the model."""
    options, method = cell.options, cell.method
    if method in ("popularity", "random", "cost"):
        return 0.0
    if method in ("private-popularity", "named-counts"):
        return 50.0 * people * float(options["reports"])
    if method == "dplcf":
        return (60 + 0.006 * people) * items**2
    if method == "ease":
        return 0.02 * people * items**2 + 0.1 * items**3
    if method in ("mf", "named-als", "dp-als"):
        steps = float(options["steps"] if method == "dp-als" else options["iterations"])
        return steps * (2 * people * vector_time + 0.5 * items * _get_factors(cell) ** 3)
    return _estimate_training_time(cell, people, items, vector_time)


def _estimate_training_time(cell: Cell, people: int, items: int, vector_time: float) -> float:
    """Return the nanoseconds of a training, with an attack or without."""
    options, entries = cell.options, items * _get_factors(cell)
    epochs = float(options["epochs"])
    trained = options.get("attacked", cell.method)
    # The paper's mechanism and FCF do not look at every direction.
    report_time = 2_500.0 if trained in (*PAPER_METHODS, "fcf") else 10_000.0 + entries
    turns = min(options["lifetime"] or epochs, epochs)
    person_time = vector_time + 30 * options["reports"] + report_time
    training_time = 5e7 + 2e6 * epochs + people * turns * person_time
    if cell.method == "attacker":
        crowds, trials = options["crowds"], options["trials"]
        return float(training_time * (1 + crowds) + 50 * trials * turns * entries)
    is_adaptive = options.get("attacker") == "adaptive"
    planning_time = 130.0 * epochs * KNOWN_PEOPLE * entries if is_adaptive else 0.0
    return float(training_time + planning_time)


@dataclass
class Pace:
    """Progress of one method."""

    work_left: float = 0.0
    work_done: float = 0.0
    seconds: float = 0.0
    """Seconds that `work_done` took."""


class Estimate:
    """The time left for the cells of one run; each method that has begun has its own pace."""

    def __init__(
        self, cells: Iterable[Cell], about: About, clock: Callable[[], float] = time.monotonic
    ):
        self._about, self._clock = about, clock
        self._paces: dict[Method, Pace] = defaultdict(Pace)
        self._compile_seconds = 0.0
        for cell in cells:
            self._paces[cell.method].work_left += estimate_work(cell, about)

    @contextmanager
    def watch(self, cell: Cell) -> Iterator[None]:
        """Measure how long a cell takes."""
        # Imported here, because it is slow to import and not needed to read results.
        from numba.core import event

        started = self._clock()
        with event.install_listener("numba:compile", event.TimingListener()) as compiling:
            yield
        self.add(cell, self._clock() - started, compiling.duration if compiling.done else 0.0)

    def add(self, cell: Cell, seconds: float, compiling: float = 0.0) -> None:
        """Record that a cell took this many seconds, some of them for compiling."""
        pace, work = self._paces[cell.method], estimate_work(cell, self._about)
        pace.work_left -= work
        pace.work_done += work
        pace.seconds += max(seconds - compiling, 0.0)
        self._compile_seconds += compiling

    @property
    def seconds_left(self) -> float | None:
        """Seconds left; None before the first cell is done."""
        paces = self._paces.values()
        seconds = sum(pace.seconds for pace in paces)
        begun = sum(pace.work_done > 0 for pace in paces)
        if not begun:
            return None
        usual = (seconds + PRIOR_WORK) / (sum(pace.work_done for pace in paces) + PRIOR_WORK)
        left = sum(pace.work_left * (pace.seconds + usual) / (pace.work_done + 1) for pace in paces)
        # Methods that have not begun have loops of their own to compile, but most are shared.
        return max(left, 0.0) + self._compile_seconds * (1 - begun / len(paces))
