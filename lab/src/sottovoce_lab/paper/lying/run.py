"""From a cell to its numbers: one training under one attack and one defence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import Histories
from sottovoce.simulation.engines import build_engine
from sottovoce.simulation.evaluation import rank_factors, summary
from sottovoce.training import Settings
from sottovoce_lab.paper.cells import Cell
from sottovoce_lab.paper.lying.attackers import COMPANY, Liars, OpenEpoch, invented
from sottovoce_lab.paper.lying.reporting import Reporters
from sottovoce_lab.paper.lying.sending import Senders
from sottovoce_lab.paper.lying.targets import Audience, solved, targets
from sottovoce_lab.paper.methods import CellContext

Float32 = NDArray[np.float32]
System = Reporters | Senders
Send = Callable[[Liars, OpenEpoch], NDArray[np.float64]]

OWN = ("attacked", "attacker", "defence", "pushed", "share")
"""Parameters of a cell beside the settings of the training that is attacked."""
SENDING: dict[str, Send] = {"reports": Liars.blunt, "adaptive": Liars.adapted}
"""Attackers who leave the protocol."""
NOBODY = "nobody"
"""The attacker where there is none; then nothing is pushed."""


def lie(cell: Cell, context: CellContext) -> dict[str, Any]:
    """HR@10 of honest people and the exposure of each item, of which one may be pushed."""
    candidates, settings = context.prepared(cell).candidates, _settings(cell)
    split = candidates.split
    honest, items = split.train, targets(split.train, cell.seed)
    liars = liars_among(honest.n_users, cell.named["share"])
    with _system(cell, context, honest, liars, items) as system:
        audiences = {
            name: Audience.of(item, split, settings.alpha, system.ridge)
            for name, item in items.items()
        }
        who = None
        if cell.named["attacker"] in SENDING:
            pushed = cell.named["pushed"]
            who = Liars(items[pushed], audiences[pushed].sample(cell.seed))
        V = _trained(system, who, SENDING.get(cell.named["attacker"]), context.on_part)
    X = solved(V, honest, settings.alpha, system.ridge(V))
    exposed = {exposure_of(name): each.exposure(V) for name, each in audiences.items()}
    final = {**summary(rank_factors(X, V, candidates)), **exposed}
    return {"final": final, "liars": liars, "people": honest.n_users}


def _trained(
    system: System, who: Liars | None, send: Send | None, on_part: Callable[[float], None]
) -> Float32:
    V, epochs = system.first(), system.settings.epochs
    for number in range(epochs):
        if who is None or send is None:
            V = system.open(V, number).close()
        else:
            epoch = system.open(V, number, who.known)
            V = epoch.close(send(who, epoch))
        on_part((number + 1) / epochs)
    return V


def exposure_of(pushed: str) -> str:
    """What this number is called in a result."""
    return f"exposure@10 {pushed}"


def liars_among(honest: int, share: float) -> int:
    """So many beside honest people are this share of all, and one at least.

    >>> liars_among(9_900, 0.01), liars_among(100, 0.0), liars_among(10, 0.001)
    (100, 0, 1)
    """
    return max(round(honest * share / (1 - share)), 1) if share else 0


def joined(one: Histories, other: Histories) -> Histories:
    """Both, one after the other."""
    offsets = np.concatenate([one.indptr, one.indptr[-1] + other.indptr[1:]])
    return Histories(offsets, np.concatenate([one.indices, other.indices]), one.n_items)


def _settings(cell: Cell) -> Settings:
    given = {name: value for name, value in cell.named.items() if name not in OWN}
    return Settings.from_dict({**given, "seed": cell.seed})


@contextmanager
def _system(
    cell: Cell, context: CellContext, honest: Histories, liars: int, items: dict[str, int]
) -> Iterator[System]:
    """Liars who invent a history are people among others; the rest come beside them."""
    people, named, settings = honest, cell.named, _settings(cell)
    if named["attacker"] == "history":
        company, among = COMPANY[named["attacked"]]
        item = items[named["pushed"]]
        made = invented(honest, item, liars, cell.seed, company=company, pool=among)
        people = joined(honest, made)
    beside = honest.n_users + liars - people.n_users
    if named["attacked"] == "fcf":
        with ThreadPoolExecutor(context.threads) as pool:
            yield Senders(people, beside, settings, named["defence"], pool)
        return
    with build_engine(context.engine, people, settings, **context.engine_options) as engine:
        yield Reporters(engine, people.n_users, beside, named["defence"])
