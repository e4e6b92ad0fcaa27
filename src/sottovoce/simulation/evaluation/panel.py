"""The quality of a published model that anybody can measure: HR@10 on a public panel of people."""

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

# A list of a device, and so of the panel, has ten items.
PANEL_CUTOFF = 10


def make_panel(data: Interactions, catalogue: bytes, seed: int = 0) -> Panel:
    """Make a panel: a test item of each person, and negatives that the person never touched.

    Args:
        data: The people. Its items must be those of the catalogue, in the same order. People who
            cannot be tested are left out.
        catalogue: The hash of the catalogue.
        seed: The seed of all draws.
    """
    split = leave_one_out(data, "random", seed)
    negatives = sample_candidates(split, DEFAULT_NEGATIVES, seed).items
    people = [
        # The negatives are sorted, because their order means nothing, and the compressed file is
        # then smaller by a quarter.
        Panellist(tuple(split.train[user].tolist()), int(test), tuple(sorted(others.tolist())))
        for user, test in enumerate(split.test)
        if test >= 0 and len(others := negatives[user][negatives[user] >= 0])
    ]
    return Panel(catalogue, tuple(people))


def measure_on_panel(model: WideModel, panel: Panel) -> float:
    """Return HR@10 of a model."""
    # A panel has no order, so all items of a history weigh alike.
    return hit_ratio(rank_devices(model, _make_candidates(panel, len(model.V))), PANEL_CUTOFF)


def measure_popularity_on_panel(panel: Panel, tags: Tags) -> float | None:
    """Return HR@10 of popularity with the same tags, without a trained model.

    Returns:
        The ratio, or None if the panel does not say how many people touched each item.
    """
    if not any(panel.touched):
        return None
    # Counts in the panel are relative to the largest one.
    counts = np.array(panel.touched)
    return measure_on_panel(build_popularity_model(counts, int(counts.max()), tags), panel)


def _make_candidates(panel: Panel, n_items: int) -> Candidates:
    rows = [row for person in panel.people for row in (*person.seen, person.left, *person.others)]
    if max(rows) >= n_items:
        raise DataError(f"panel: row {max(rows)} must be below the {n_items} of the model")
    max_others = max(len(person.others) for person in panel.people)
    items = np.full((len(panel.people), max_others), -1, np.int32)
    for candidates, person in zip(items, panel.people, strict=True):
        candidates[: len(person.others)] = person.others
    train = Histories.from_lists([person.seen for person in panel.people], n_items)
    test = np.array([person.left for person in panel.people], np.int32)
    return Candidates(items, Split(train, test, "random", 0))
