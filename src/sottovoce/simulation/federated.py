"""`FederatedMF`: the whole system behind the interface that users of `implicit` know."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sottovoce.errors import DataError, SettingsError
from sottovoce.model import Histories, user_vectors
from sottovoce.model.recency import recency_of
from sottovoce.model.tags import no_tags
from sottovoce.model.wide import WideModel
from sottovoce.privacy import Account, Crowd, account
from sottovoce.privacy.account import DELTA
from sottovoce.simulation.engines import build_engine
from sottovoce.simulation.features import all_scores, tags_from, times_of
from sottovoce.simulation.files import ModelFile, read_model, write_model
from sottovoce.simulation.loop import Trained, begin, train
from sottovoce.training import DEFAULT, Budget, Settings, planned

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sottovoce.model.tags import Tags
    from sottovoce.simulation.features import ItemFeatures, Matrix

    Float32 = NDArray[np.float32]
    Int32 = NDArray[np.int32]


USERS_AT_ONCE = 512
"""Whose scores of the whole catalogue are held at the same time."""


class FederatedMF:
    """Federated matrix factorisation under local differential privacy, simulated.

    The trained model is the item matrix alone: no user's vector is kept, since none leaves a
    device. `recommend` solves it from the history that it is given, so new users need no training.

    >>> from scipy import sparse
    >>> history = sparse.csr_matrix([[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]])
    >>> model = FederatedMF(factors=1, epochs=2, reports=10).fit(history)
    >>> items, scores = model.recommend(0, history[0], N=2)
    >>> sorted(items.tolist())
    [2, 3]

    What is known of the items makes lists better and costs no report: `fit` takes tags as a
    `Catalogue`, a list with a mapping for each item, or a sparse 0/1 matrix (items x tags).

    >>> films = [{"genre": ("Horror",)}, {"genre": ("Comedy",)}] * 2
    >>> tagged = FederatedMF(factors=1, epochs=2, reports=10).fit(history, item_features=films)
    >>> sorted(tagged.recommend(0, history[0], N=2)[0].tolist())
    [2, 3]

    >>> model.privacy().training
    50.0
    >>> 9.99 < FederatedMF(budget=10).fit(history).privacy().training <= 10
    True
    """

    def __init__(
        self,
        factors: int | None = None,
        epochs: int | None = None,
        epsilon: float | None = None,
        reports: int | None = None,
        mechanism: str = DEFAULT,
        seed: int = 0,
        *,
        budget: float | None = None,
        central_budget: float | None = None,
        history: float | None = None,
        engine: str = "cpu",
        threads: int | None = None,
        **settings: Any,
    ):
        """None leaves a value to the planner, which knows people and items once `fit` is called.

        `budget` is what each person may spend in all (epsilon, with nobody to trust);
        `central_budget` the same after an honest shuffle. Without either, the preset of the
        mechanism has its usual reports. `history` is how many items a typical person has touched
        (by default the median of the data, to two digits). `settings` are further fields of
        `Settings`.
        """
        self._given: dict[str, Any] = {
            "factors": factors,
            "epochs": epochs,
            "epsilon": epsilon,
            "reports": reports,
            "seed": seed,
            **settings,
        }
        self._mechanism = mechanism
        self._budget = Budget.of(budget, central_budget)
        self._history = history
        Settings.preset(mechanism, **self._given)  # refuses what cannot be, before any data is read
        self._settings: Settings | None = None
        self._engine = engine
        self._threads = threads
        self._tags: Tags | None = None
        self._state: Trained | None = None
        self._crowd: int | None = None

    @property
    def settings(self) -> Settings:
        """All of them, as planned for the people and items of `fit`."""
        if self._settings is None:
            raise SettingsError("the settings follow from the data: call fit() or load()")
        return self._settings

    def fit(
        self,
        user_items: Matrix | Histories,
        callback: Callable[[int, float], None] | None = None,
        *,
        item_features: ItemFeatures | None = None,
    ) -> FederatedMF:
        """Train on an N x M matrix; any value above 0 is an interaction.

        `callback(epoch, seconds)` is called after every epoch. Training does not look at
        `item_features`: recommending does.
        """
        histories = _histories(user_items)
        if not (histories.n_users and histories.n_items):
            raise DataError("there is nobody to learn from: user_items has no rows or no columns")
        self._tags = None if item_features is None else tags_from(item_features, histories.n_items)
        settings = planned(
            histories.n_users,
            histories.n_items,
            history=histories.typical_length() if self._history is None else self._history,
            preset=self._mechanism,
            budget=self._budget,
            **self._given,
        )
        self._settings, self._crowd = settings, histories.n_users
        start = begin(settings, histories.n_items)
        with build_engine(self._engine, histories, settings, threads=self._threads) as engine:
            for state in train(settings, engine, start):
                self._state = state
                self._crowd = min(self._crowd, state.n_reports // settings.reports)
                if callback is not None:
                    callback(state.epochs_done, state.seconds)
        return self

    @property
    def item_factors(self) -> Float32:
        """V, M x F."""
        if self._state is None:
            raise SettingsError("this model is not trained yet: call fit() or load()")
        return self._state.V

    def user_vectors(self, user_items: Matrix | Histories) -> Float32:
        """Each row's vector, solved here and now as a device would."""
        V, histories = self.item_factors, self._checked(user_items)
        return user_vectors(
            V, histories, alpha=self.settings.alpha, regularization=self.settings.user_ridge(V)
        )

    def recommend(
        self,
        userid: int | NDArray[np.integer],
        user_items: Matrix | Histories,
        N: int = 10,
        *,
        filter_already_liked_items: bool = True,
        filter_items: NDArray[np.integer] | None = None,
        item_features: ItemFeatures | None = None,
        times: Matrix | None = None,
    ) -> tuple[Int32, Float32]:
        """The N best items and their scores, best first; 2-D where `userid` is an array.

        `user_items` holds the users' rows, in the order of `userid`. Where fewer than N items are
        left, the list ends with item -1 and score -inf.

        `item_features` takes the place of those that `fit` was given. `times` has, where
        `user_items` has an interaction, when it was (any number; a later one is larger): then what
        came last counts most.
        """
        histories = self._checked(user_items)
        users = np.atleast_1d(userid)
        if histories.n_users != len(users):
            raise DataError(
                f"user_items must hold one row for each user: {len(users)} users, "
                f"{histories.n_users} rows (pass user_items[userid])"
            )
        if N < 1:
            raise SettingsError(f"N must be at least 1, got {N}")
        if not len(users):
            raise DataError("there is nobody to recommend to: userid is empty")
        model = self._wide(item_features)
        weights = None if times is None else recency_of(histories, times_of(times, histories))
        blocks = []
        for start in range(0, len(users), USERS_AT_ONCE):
            chosen = np.arange(start, min(start + USERS_AT_ONCE, len(users)))
            some, ends = histories.take(chosen), histories.indptr[[chosen[0], chosen[-1] + 1]]
            theirs = None if weights is None else weights[slice(*ends)]
            scores = all_scores(model, some, theirs)
            if filter_already_liked_items:
                scores[some.users_of_entries(), some.indices] = -np.inf
            if filter_items is not None:
                scores[:, filter_items] = -np.inf
            blocks.append(_top(scores, N))
        items, best = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
        return (items[0], best[0]) if np.ndim(userid) == 0 else (items, best)

    def _checked(self, user_items: Matrix | Histories) -> Histories:
        histories, n_items = _histories(user_items), len(self.item_factors)
        if histories.n_items != n_items:
            raise DataError(f"the model has {n_items} items, the histories {histories.n_items}")
        return histories

    def _wide(self, item_features: ItemFeatures | None) -> WideModel:
        V = self.item_factors
        tags = self._tags if item_features is None else tags_from(item_features, len(V))
        return WideModel.of(
            V,
            no_tags(len(V)) if tags is None else tags,
            alpha=self.settings.alpha,
            regularization=self.settings.user_ridge(V),
        )

    def similar_items(self, itemid: int, N: int = 10) -> tuple[Int32, Float32]:
        """Items whose vectors point the same way (cosine), the item itself first."""
        V = self.item_factors
        length = np.linalg.norm(V, axis=1)
        cosine = (V @ V[itemid]) / np.maximum(length * length[itemid], np.float32(1e-30))
        items, best = _top(cosine.astype(np.float32)[None, :], N)
        return items[0], best[0]

    def privacy(self, clients: int | None = None, delta: float = DELTA) -> Account:
        """What training costs each person; `clients` take part in an epoch.

        By default those of the smallest epoch of `fit`.

        Without a crowd, of a model that was loaded, there is no central figure.
        """
        crowd = Crowd.of(self._crowd if clients is None else clients)
        return account(self.settings.event(len(self.item_factors)), crowd, delta)

    def save(self, path: str | Path) -> None:
        """One safetensors file with the item matrix, and the settings as JSON in its header.

        Tags are not in it: give `item_features` to `recommend` after `load`.
        """
        V = self.item_factors
        assert self._state is not None
        write_model(Path(path), ModelFile(V, self.settings, self._state.epochs_done))

    @classmethod
    def load(cls, path: str | Path) -> FederatedMF:
        saved = read_model(Path(path))
        return cls.from_items(saved.V, saved.settings, saved.epochs_done)

    @classmethod
    def from_items(
        cls, V: Float32, settings: Settings, epochs_done: int | None = None
    ) -> FederatedMF:
        """A model around an item matrix that was trained elsewhere."""
        model = cls(mechanism=settings.mechanism)
        model._settings = settings
        model._state = Trained(settings.epochs if epochs_done is None else epochs_done, V)
        return model


def _histories(user_items: Matrix | Histories) -> Histories:
    if isinstance(user_items, Histories):
        return user_items
    if not hasattr(user_items, "tocsr"):
        raise DataError(
            f"user_items must be a sparse matrix or Histories, got {type(user_items).__name__}"
        )
    return Histories.from_csr(user_items.tocsr())


def _top(scores: Float32, n: int) -> tuple[Int32, Float32]:
    """The n largest of every row, ties to the lower number; -1 where nothing is left."""
    order = np.argsort(-scores, axis=1, kind="stable")[:, :n]
    best = np.take_along_axis(scores, order, axis=1)
    return np.where(np.isneginf(best), -1, order).astype(np.int32), best
