"""Compute one cell of the experiment: train under attack, and count who sees each item."""

from __future__ import annotations

from typing import Any

import numpy as np

from sottovoce.core import Histories
from sottovoce.simulation.engines import build_engine
from sottovoce.simulation.evaluation.metrics import summarize_ranks
from sottovoce.simulation.evaluation.ranking import rank_factors
from sottovoce.training import Settings
from sottovoce_lab.paper.cells import Cell
from sottovoce_lab.paper.methods import CellContext
from sottovoce_lab.paper.poisoning.attackers import PLANNERS, Attackers, invent_histories
from sottovoce_lab.paper.poisoning.audience import Audience, Float32, draw_targets, solve_vectors
from sottovoce_lab.paper.poisoning.reports import ReportSystem

# Parameters of a cell besides the settings of the training that is attacked.
ATTACK_PARAMETERS = ("attacker", "defended", "pushed", "share")
# Value of `attacker` and `pushed` in a cell without attackers.
NO_ATTACKER = "nobody"


def compute_poisoning(cell: Cell, context: CellContext) -> dict[str, Any]:
    """Return HR@10 of honest people and the exposure of each item.

    Attackers may push one of the items.
    """
    options = {**cell.options, "seed": cell.seed}
    attack = {name: options.pop(name) for name in ATTACK_PARAMETERS}
    settings, candidates = Settings.from_dict(options), context.prepare_test(cell).candidates
    split = candidates.split
    honest, items = split.train, draw_targets(split.train, cell.seed)
    n_attackers = count_attackers(honest.n_users, attack["share"])
    people = honest
    if attack["attacker"] == "history":
        invented = invent_histories(honest, items[attack["pushed"]], n_attackers, cell.seed)
        people = join_histories(honest, invented)
    # Attackers with an invented history run honest code, so the engine simulates them as it does
    # honest people. Attackers who run other code are not in `people`; they are added here.
    additional = honest.n_users + n_attackers - people.n_users
    with build_engine(context.engine, people, settings, **context.engine_options) as engine:
        system = ReportSystem(engine, people.n_users, additional, attack["defended"])
        audiences = {
            name: Audience.from_split(item, split, settings.alpha, system.compute_ridge)
            for name, item in items.items()
        }
        V = _train(system, attack, items, audiences, cell.seed)
    X = solve_vectors(V, honest, settings.alpha, system.compute_ridge(V))
    exposures = {
        get_exposure_metric(name): audience.compute_exposure(V)
        for name, audience in audiences.items()
    }
    final = {**summarize_ranks(rank_factors(X, V, candidates)), **exposures}
    return {"final": final, "attackers": n_attackers, "people": honest.n_users}


def _train(
    system: ReportSystem,
    attack: dict[str, Any],
    items: dict[str, int],
    audiences: dict[str, Audience],
    seed: int,
) -> Float32:
    """Return V after all epochs."""
    V, planner, attackers = system.make_first_items(), PLANNERS.get(attack["attacker"]), None
    if planner is not None:
        pushed = attack["pushed"]
        attackers = Attackers(items[pushed], audiences[pushed].sample(seed))
    for number in range(system.settings.epochs):
        if planner is None or attackers is None:
            V = system.open_epoch(V, number).close()
        else:
            epoch = system.open_epoch(V, number, attackers.known_people)
            V = epoch.close(planner(attackers, epoch))
    return V


def get_exposure_metric(pushed: str) -> str:
    """Return the name of an item's exposure in a result."""
    return f"exposure@10 {pushed}"


def count_attackers(honest: int, share: float) -> int:
    """Return how many attackers are this share of all people: at least one if it is above 0.

    >>> count_attackers(9_900, 0.01), count_attackers(100, 0.0), count_attackers(10, 0.001)
    (100, 0, 1)
    """
    return max(round(honest * share / (1 - share)), 1) if share else 0


def join_histories(first: Histories, second: Histories) -> Histories:
    """Return the people of both, one after the other."""
    offsets = np.concatenate([first.indptr, first.indptr[-1] + second.indptr[1:]])
    return Histories(offsets, np.concatenate([first.indices, second.indices]), first.n_items)
