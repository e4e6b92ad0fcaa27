"""LensKit and this project, each ranking the models of the other: `pip install lenskit`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from lenskit.data import Dataset, ItemList, QueryInput, RecQuery
from lenskit.pipeline import Component, Pipeline
from lenskit.training import TrainingOptions
from numpy.typing import NDArray

from sottovoce.core import Histories
from sottovoce.simulation import FederatedMF

# The score of an item that LensKit does not score: below all others.
UNKNOWN_SCORE = float(np.finfo(np.float32).min)


@dataclass
class FederatedConfig:
    """The arguments of `FederatedMF`."""

    parameters: dict[str, Any] = field(default_factory=dict)


class FederatedScorer(Component[ItemList]):  # type: ignore[misc]
    """Our model as a scorer of LensKit: `topn_pipeline(FederatedScorer(parameters={...}))`."""

    config: FederatedConfig

    def train(self, data: Dataset, options: TrainingOptions | None = None) -> None:  # noqa: ARG002 - LensKit's signature
        """Train on the interactions of a data set."""
        histories = Histories.from_csr(data.interactions().matrix().scipy(layout="csr"))
        self.items, self.users, self.histories = data.items, data.users, histories
        self.model = FederatedMF(**self.config.parameters).fit(histories)

    def __call__(self, query: QueryInput, items: ItemList) -> ItemList:
        """Score items by the history of the query or, if it has none, the user's training data."""
        asked = RecQuery.create(query)
        own: NDArray[np.integer] = np.empty(0, np.int64)
        if asked.user_items is not None:
            numbers = asked.user_items.numbers(vocabulary=self.items, missing="negative")
            own = numbers[numbers >= 0]
        elif (row := self.users.number(asked.user_id, missing=None)) is not None:
            own = self.histories[row]
        history = Histories.from_lists([own.tolist()], len(self.items))
        order, best = self.model.recommend(
            0, history, N=len(self.items), filter_already_liked_items=False
        )
        scores = np.empty(len(self.items), np.float32)
        scores[order] = best
        numbers = items.numbers(vocabulary=self.items, missing="negative")
        return ItemList(items, scores=np.where(numbers >= 0, scores[numbers], np.nan))


class PipelineScores:
    """A pipeline of LensKit as a model for `sottovoce.simulation.evaluate`."""

    def __init__(self, pipeline: Pipeline, user_ids: NDArray[Any], item_ids: NDArray[Any]):
        self._pipeline = pipeline
        self._user_ids = user_ids
        self._items = ItemList(item_ids=item_ids)

    def score(self, users: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the scores of all items for the people in these rows."""
        scores = [
            self._pipeline.run("scorer", query=user_id, items=self._items).scores()
            for user_id in self._user_ids[users].tolist()
        ]
        return np.nan_to_num(np.array(scores, np.float32), nan=UNKNOWN_SCORE)
