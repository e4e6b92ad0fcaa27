"""How good the lists of a fitted model are expected to be, compared with popularity."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Literal

import numpy as np

from sottovoce.characters import format_html_table
from sottovoce.core import Histories
from sottovoce.core.recommending import WideModel
from sottovoce.core.tags import Tags
from sottovoce.data.split import draw_choices
from sottovoce.privacy.statement import format_epsilon
from sottovoce.simulation.evaluation.lists import to_factors
from sottovoce.simulation.evaluation.quality import measure_scores
from sottovoce.simulation.evaluation.ranking import Factors
from sottovoce.training.budget import DEFAULT_BUDGET_NOTE

# An item is expected in a list of this length (HR@10).
LIST_LENGTH = 10
METRIC = f"hr@{LIST_LENGTH}"
# Largest and smallest number of people whose lists are tried.
MAX_PEOPLE_TRIED = 2_000
MIN_PEOPLE_TRIED = 50
# Largest number of products for the lists that are tried, about a fifth of a second.
MAX_PRODUCTS = 2e7
# With fewer items, a list shows a large part of them to everybody.
MIN_ITEMS = 2 * LIST_LENGTH
# The difference between two hit ratios must be this number of standard errors to count.
MIN_STANDARD_ERRORS = 2.0

Verdict = Literal["better", "no better", "unknown"]


@dataclass(frozen=True)
class FitOutlook:
    """The expected quality of lists: HR@10 in the whole catalogue, of the model and of popularity.

    One item of each person is left out of what the list is made from. Model and popularity have
    seen it in training, so this is an estimate and no test; with large budgets it is too high.
    """

    epsilon: float
    """Epsilon of one person's reports in the whole training."""
    is_default_budget: bool
    """Whether the budget is the default, because none was given."""
    people: int
    """Number of people whose lists were tried."""
    lists: float
    """HR@10 of the model's lists, with the tags of `fit`."""
    popularity: float
    """HR@10 of the items that most people have touched; counting them is not private."""
    standard_error: float
    """Standard error of the difference between both."""

    @property
    def verdict(self) -> Verdict:
        """Whether lists are better than popularity; `unknown`: too few people or items to say."""
        if self.people < MIN_PEOPLE_TRIED:
            return "unknown"
        gain = self.lists - self.popularity
        is_better = gain > 0 and gain >= MIN_STANDARD_ERRORS * self.standard_error
        return "better" if is_better else "no better"

    def __str__(self) -> str:
        cost = f"epsilon {format_epsilon(self.epsilon)} in a lifetime"
        cost = DEFAULT_BUDGET_NOTE if self.is_default_budget else cost
        if self.verdict == "unknown":
            return f"{cost}; too few people or items to compare the lists with popularity"
        is_close = self.verdict == "no better" and self.lists > self.popularity
        verdict = "not clearly better" if is_close else self.verdict
        return (
            f"{cost}; expected HR@{LIST_LENGTH} {self.lists:.3f}, {verdict} than popularity "
            f"with {self.popularity:.3f} (estimated from the training data, which is no test)"
        )

    def _repr_html_(self) -> str:
        """Return the table that notebooks show."""
        rows = {
            "epsilon in a lifetime": format_epsilon(self.epsilon),
            f"expected HR@{LIST_LENGTH}": f"{self.lists:.3f}",
            f"HR@{LIST_LENGTH} of popularity": f"{self.popularity:.3f}",
            "verdict": self.verdict,
            "people tried": f"{self.people:,}",
        }
        return format_html_table(rows)


def estimate_quality(
    model: WideModel, histories: Histories, tags: Tags, seed: int
) -> tuple[int, float, float, float]:
    """Return the people tried, HR@10 of the lists and of popularity, and the standard error.

    Args:
        model: The model as devices use it.
        histories: The histories that it was trained on.
        tags: The tags of the model.
        seed: Seed of the items that are left out.
    """
    size = model.V.shape[1] + len(tags.names)
    lengths = np.diff(histories.indptr)
    per_person = size**3 / 3 + histories.n_items * size + lengths.mean() * model.V.shape[1] ** 2
    limit = int(min(max(MAX_PRODUCTS / per_person, MIN_PEOPLE_TRIED), MAX_PEOPLE_TRIED))
    testable = np.flatnonzero(lengths >= 2)
    if len(testable) < MIN_PEOPLE_TRIED or histories.n_items - np.median(lengths) < MIN_ITEMS:
        return 0, 0.0, 0.0, 0.0
    # Every nth person, so that no part of the people is left out.
    some = histories.take(testable[:: -(-len(testable) // limit)])
    picks = draw_choices(np.diff(some.indptr), seed)
    entries = some.indptr[:-1] + picks
    hidden = Histories(np.arange(some.n_users + 1), some.indices[entries], some.n_items)
    rest = Histories(
        some.indptr - np.arange(some.n_users + 1), np.delete(some.indices, entries), some.n_items
    )
    counts = histories.popularity().astype(np.float32)[:, None]
    by_count = Factors(np.ones((some.n_users, 1), np.float32), counts)
    hits, popular = (
        measure_scores(scorer, rest, hidden, [METRIC]).by_person[METRIC]
        for scorer in (Factors(*to_factors(model, rest)), by_count)
    )
    error = float(np.std(hits - popular)) / sqrt(some.n_users)
    return some.n_users, float(hits.mean()), float(popular.mean()), error
