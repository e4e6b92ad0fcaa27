"""How long the rest takes: the work that is left, at the pace of what has been done.

Cells differ a thousandfold, so each is weighed by what it has to do. Loops that are compiled on the
way say nothing about the pace: their time is measured apart.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sottovoce_lab.paper.cells import THEIRS, About, Cell, Method
from sottovoce_lab.paper.lying import SAMPLE

PRIOR = 5.0
"""Units of work that count as done in as many seconds, so that no first cell decides alone."""


def work(cell: Cell, about: About) -> float:
    """About how many seconds a core needs, on the machine where the weights were measured.

    Only ratios count: the machine's own pace is found on the way.
    """
    users, items = cell.size.users or about.users, cell.size.items or about.items
    history, factors = about.interactions / about.users / about.items * items, _factors(cell)
    one_vector = 0.4 * (history * factors**2 + factors**3)
    tests = cell.named["epochs"] if cell.curve else 1 + len(cell.known)
    tested = tests * users * (10_000 + one_vector)
    if cell.measured != "left-out":
        tested += 4.0 * users * items * factors
    return 0.02 + 1e-9 * (tested + _made(cell, cell.resample or users, items, one_vector))


def _factors(cell: Cell) -> int:
    return int(cell.named.get("factors", 1))


def _made(cell: Cell, people: int, items: int, one_vector: float) -> float:
    """Nanoseconds until there is a model."""
    named, method = cell.named, cell.method
    if method in ("popularity", "random", "cost"):
        return 0.0
    if method in ("private-popularity", "named-counts"):
        return 50.0 * people * float(named["reports"])
    if method == "dplcf":
        return (60 + 0.006 * people) * items**2
    if method == "ease":
        return 0.02 * people * items**2 + 0.1 * items**3
    if method in ("mf", "named-als", "dp-als"):
        steps = float(named["steps"] if method == "dp-als" else named["iterations"])
        return steps * (2 * people * one_vector + 0.5 * items * _factors(cell) ** 3)
    return _trained(cell, people, items, one_vector)


def _trained(cell: Cell, people: int, items: int, one_vector: float) -> float:
    """Of a training, attacked or not."""
    named, entries, epochs = cell.named, items * _factors(cell), float(cell.named["epochs"])
    trained = named.get("attacked", cell.method)
    looked_at = 2_500.0 if trained in (*THEIRS, "fcf") else 10_000.0 + entries
    turns = min(named["lifetime"] or epochs, epochs)
    made = 5e7 + 2e6 * epochs + people * turns * (one_vector + 30 * named["reports"] + looked_at)
    if cell.method == "attacker":
        return float(made * (1 + named["crowds"]) + 50 * named["trials"] * turns * entries)
    tried = 130.0 * epochs * SAMPLE * entries if named.get("attacker") == "adaptive" else 0.0
    return float(made + tried)


@dataclass
class Pace:
    """Of one method."""

    left: float = 0.0
    done: float = 0.0
    """In units of work, and the seconds that these took."""
    seconds: float = 0.0


class Estimate:
    """Of the cells of one run; each method has its own pace once there is one."""

    def __init__(
        self, cells: Iterable[Cell], about: About, clock: Callable[[], float] = time.monotonic
    ):
        self._about, self._clock = about, clock
        self._paces: dict[Method, Pace] = defaultdict(Pace)
        self._compiled = 0.0
        for cell in cells:
            self._paces[cell.method].left += work(cell, about)

    @contextmanager
    def watch(self, cell: Cell) -> Iterator[None]:
        """While a cell is computed."""
        from numba.core import event  # heavy, and not needed to read results

        began = self._clock()
        with event.install_listener("numba:compile", event.TimingListener()) as compiling:
            yield
        self.add(cell, self._clock() - began, compiling.duration if compiling.done else 0.0)

    def add(self, cell: Cell, seconds: float, compiled: float = 0.0) -> None:
        """A cell that took so many seconds, with those of compiling."""
        pace, units = self._paces[cell.method], work(cell, self._about)
        pace.left -= units
        pace.done += units
        pace.seconds += max(seconds - compiled, 0.0)
        self._compiled += compiled

    @property
    def left(self) -> float | None:
        """In seconds; None before there is anything to go by."""
        paces = self._paces.values()
        seconds = sum(pace.seconds for pace in paces)
        begun = sum(pace.done > 0 for pace in paces)
        if not begun:
            return None
        usual = (seconds + PRIOR) / (sum(pace.done for pace in paces) + PRIOR)
        rest = sum(pace.left * (pace.seconds + usual) / (pace.done + 1) for pace in paces)
        # Methods that have not begun have loops of their own to compile, but most are shared.
        return max(rest, 0.0) + self._compiled * (1 - begun / len(paces))
