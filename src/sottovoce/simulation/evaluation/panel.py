"""How good a published model is, measured by anybody: HR@10 on a panel of public test people."""

import numpy as np

from sottovoce.core import Histories
from sottovoce.core.recommending import WideModel, build_popularity_model
from sottovoce.core.tags import Tags
from sottovoce.data import Interactions, Split, leave_one_out
from sottovoce.errors import DataError
from sottovoce.protocol.panel import Panel, Panellist
from sottovoce.simulation.evaluation.metrics import hit_ratio
from sottovoce.simulation.evaluation.ranking import DEFAULT_NEGATIVES, Candidates, sample_candidates
from sottovoce.simulation.evaluation.side_information import rank_devices

PANEL_CUTOFF = 10


def make_panel(data: Interactions, catalogue: bytes, seed: int = 0) -> Panel:
    """One item of everybody left out, and others that they never touched, all by the seed.

    The data's items must be the catalogue's, in its order. Who cannot be tested is not on it.
    """
    split = leave_one_out(data, "random", seed)
    others = sample_candidates(split, DEFAULT_NEGATIVES, seed).items
    people = [
        # In order: their order says nothing, and so the file compresses better by a quarter.
        Panellist(tuple(split.train[user].tolist()), int(left), tuple(sorted(competing.tolist())))
        for user, left in enumerate(split.test)
        if left >= 0 and len(competing := others[user][others[user] >= 0])
    ]
    return Panel(catalogue, tuple(people))


def measure_on_panel(model: WideModel, panel: Panel) -> float:
    """HR@10 of a model. Ties count by a fair coin in expectation, as in every evaluation here.

    A panel knows no order, so all of a history weighs the same.
    """
    return hit_ratio(rank_devices(model, _candidates(panel, len(model.V))), PANEL_CUTOFF)


def measure_popularity_on_panel(panel: Panel, tags: Tags) -> float | None:
    """The same of what most people touched, with the same tags: nothing is learnt.

    None where the panel does not say what that is. Counts are in shares of the largest.
    """
    if not any(panel.touched):
        return None
    counts = np.array(panel.touched)
    return measure_on_panel(build_popularity_model(counts, int(counts.max()), tags), panel)


def _candidates(panel: Panel, n_items: int) -> Candidates:
    rows = [row for each in panel.people for row in (*each.seen, each.left, *each.others)]
    if max(rows) >= n_items:
        raise DataError(f"panel: row {max(rows)} must be below the {n_items} of the model")
    most = max(len(each.others) for each in panel.people)
    items = np.full((len(panel.people), most), -1, np.int32)
    for row, each in zip(items, panel.people, strict=True):
        row[: len(each.others)] = each.others
    train = Histories.from_lists([each.seen for each in panel.people], n_items)
    test = np.array([each.left for each in panel.people], np.int32)
    return Candidates(items, Split(train, test, "random", 0))
