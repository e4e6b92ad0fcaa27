"""`FederatedMF`: the whole system behind the interface that users of `implicit` know."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from sottovoce.core import Histories, solve_user_vectors
from sottovoce.core.recommending import MAX_REASONS, Taste, WideModel, weigh_histories
from sottovoce.core.tags import Tag, Tags, make_empty_tags
from sottovoce.data.interactions import to_id_array
from sottovoce.errors import CheckpointError, DataError, SettingsError
from sottovoce.privacy import DEFAULT_DELTA, PrivacyReport, make_privacy_report
from sottovoce.simulation.engines import build_engine
from sottovoce.simulation.evaluation.ranking import DEFAULT_NEGATIVES, sample_negatives
from sottovoce.simulation.evaluation.side_information import solve_wide_vectors
from sottovoce.simulation.files import ModelFile, compute_fingerprint, read_model, write_model
from sottovoce.simulation.inputs import (
    ItemFeatures,
    Labels,
    Matrix,
    UserItems,
    check_positive,
    parse_ids,
    parse_rows,
    parse_tags,
    parse_test,
    parse_times,
)
from sottovoce.simulation.parameters import Parameters, plain
from sottovoce.simulation.run import make_device_model, measure_quality
from sottovoce.simulation.training import Record, TrainingState, go_on, resume, select_metrics
from sottovoce.training import Settings

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]
Ids = NDArray[Any]
"""Of items: int32 where a matrix was fitted, else of the type that they have in the table."""
Callback = Callable[[int, float, dict[str, float]], None]

USERS_AT_ONCE = 512
"""Whose scores of the whole catalogue are held at the same time."""
TESTED = "tested"
"""In the record of an epoch: what its metrics are of."""


class FederatedMF(Parameters):
    """Federated matrix factorisation under local differential privacy, simulated.

    The trained model is the item matrix alone: no user's vector is kept, since none leaves a
    device. `recommend` solves it from the history that it is given, so new users need no training.

    >>> from scipy import sparse
    >>> history = sparse.csr_matrix([[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]])
    >>> model = FederatedMF(factors=1, epochs=2, reports=10).fit(history)
    >>> items, scores = model.recommend(0, history[0], N=2)
    >>> sorted(items.tolist())
    [2, 3]

    A table of interactions has ids, and so have the lists of a model that was fitted to one:

    >>> bought = {"user": ["ann", "ann", "bob", "bob"], "item": ["tea", "pot", "tea", "cup"]}
    >>> shop = FederatedMF(factors=1, epochs=2, reports=10).fit(bought)
    >>> shop.recommend("ann", bought, N=1)[0].tolist()
    ['cup']

    What is known of the items makes lists better and costs no report: `fit` takes tags as a
    `Catalogue`, a list with a mapping for each item, or a sparse 0/1 matrix (items x tags).

    >>> films = [{"genre": ("Horror",)}, {"genre": ("Comedy",)}] * 2
    >>> tagged = FederatedMF(factors=1, epochs=2, reports=10).fit(history, item_features=films)
    >>> sorted(tagged.recommend(0, history[0], N=2)[0].tolist())
    [2, 3]

    >>> model.privacy().training.pure
    50.0
    >>> 9.99 < FederatedMF(budget=10).fit(history).privacy().training.pure <= 10
    True

    Parameters work as in scikit-learn, whose `clone` and `ParameterGrid` take it. What is not given
    is planned by `fit`, which knows people and items:

    >>> FederatedMF(budget=10).set_params(preset="crowd", seed=3)
    FederatedMF(seed=3, preset='crowd', budget=10)
    """

    _labels: Labels | None = None
    _settings: Settings | None = None
    _tags: Tags | None = None
    _state: TrainingState | None = None
    _crowd: int | None = None

    @property
    def settings(self) -> Settings:
        """All of them, as planned for the people and items of `fit`."""
        if self._settings is None:
            raise SettingsError("the settings follow from the data: call fit() or load()")
        return self._settings

    def fit(
        self,
        user_items: UserItems,
        *,
        item_features: ItemFeatures | None = None,
        test: UserItems | None = None,
        show_progress: bool = False,
        callback: Callback | None = None,
        checkpoint: str | Path | None = None,
    ) -> Self:
        """Train on who touched what; a rating above 0 is an interaction, any other counts as none.

        Args:
            user_items: A matrix of N people x M items, sparse or dense, which are known by number.
                Or a table with ids: a DataFrame of any library with columns for user and item
                (their names are recognised as in files, else `sottovoce.data.load` takes
                `columns`), a mapping of such columns, a pair `(users, items)`, or what `load`
                gives. Then the model calls items by these ids (`item_ids` has their order), here
                and in every other method.
            item_features: Tags of the items, for recommending; training does not look at them. A
                `Catalogue`, a list with a mapping for each item, or a sparse matrix, items x tags.
            test: What was left out of the same people, in a form that `user_items` can have. Then
                there are metrics after every epoch, as of `evaluate`.
            show_progress: Whether a bar shows the epochs.
            callback: Called after every epoch as `callback(epoch, seconds, metrics)`.
            checkpoint: A file to which the state is written after every epoch. A training that
                finds one there continues to the same model as if it had never stopped. The
                callback is called for its epochs again; where `test` is another, without metrics,
                except the last epoch.
        """
        histories, users, labels = parse_rows(user_items, None)
        if not (histories.n_users and histories.n_items):
            raise DataError("user_items must have a row and a column to learn from")
        tags = None if item_features is None else parse_tags(item_features, histories.n_items)
        hidden = None if test is None else parse_test(test, labels, histories, users)
        settings = self._planned(histories)
        self._tags, self._settings, self._state, self._labels = tags, settings, None, labels
        self._crowd = histories.n_users
        known = make_empty_tags(histories.n_items) if tags is None else tags
        test_of = None if hidden is None else _Test(histories, hidden, known, settings)
        with _epoch_bar(settings.epochs, shown=show_progress) as show:
            for state, record in self._epochs(histories, checkpoint, test_of):
                self._state = state
                self._crowd = min(self._crowd, int(record["people"]))
                show(record)
                if callback is not None:
                    callback(record["epoch"], record["seconds"], select_metrics(record))
        return self

    def _epochs(
        self, histories: Histories, checkpoint: str | Path | None, test: _Test | None
    ) -> Iterator[tuple[TrainingState, Record]]:
        """A state and a record after each epoch, those that the checkpoint already has included.

        Of these, metrics on something else are left out; those of the last are computed anew.
        """
        settings, file = self.settings, None if checkpoint is None else Path(checkpoint)
        identity = {"data": compute_fingerprint(histories), "resample": None} if file else {}
        start, records = resume(file, settings, identity, histories.n_items)
        for record in records:
            if not test or record.get(TESTED) != test.name:
                for name in (TESTED, *select_metrics(record)):
                    record.pop(name, None)
        if test and records and TESTED not in records[-1]:
            records[-1] |= test.metrics(start)
        for record in records:
            yield start, record
        if start.epochs_done == settings.epochs:
            return
        with build_engine(self.engine, histories, settings, **self._engine_options()) as engine:
            measure = test.metrics if test else lambda _: {}
            for state in go_on(settings, engine, start, records, measure, file, identity):
                yield state, records[-1]

    @property
    def item_factors(self) -> Float32:
        """V, M x F."""
        if self._state is None:
            raise SettingsError("this model is not trained yet: call fit() or load()")
        return self._state.V

    @property
    def item_ids(self) -> Ids:
        """What the rows of `item_factors` are called: numbers, or the ids of a table."""
        return self._items.ids

    @property
    def _items(self) -> Labels:
        if self._labels is None:
            self._labels = Labels(np.arange(len(self.item_factors), dtype=np.int32))
        return self._labels

    def user_vectors(self, user_items: UserItems) -> Float32:
        """Each person's vector, solved here and now as a device would.

        In the order of the rows of a matrix, or of the ids of a table, ascending.

        Args:
            user_items: Their histories, in a form that `fit` takes.
        """
        V, (histories, *_) = self.item_factors, parse_rows(user_items, self._items)
        return solve_user_vectors(
            V,
            histories,
            alpha=self.settings.alpha,
            regularization=self.settings.compute_user_ridge(V),
        )

    def recommend(
        self,
        userid: ArrayLike,
        user_items: UserItems,
        N: int = 10,
        *,
        filter_already_liked_items: bool = True,
        filter_items: ArrayLike | None = None,
        items: ArrayLike | None = None,
        item_features: ItemFeatures | None = None,
        times: Matrix | None = None,
    ) -> tuple[Ids, Float32]:
        """The N best items and their scores, best first; 2-D where `userid` is an array.

        Somebody without a history is shown what is popular, as far as the model knows. Where fewer
        than N items are left, the list ends with item -1 (None, where ids are text) and score -inf.

        Args:
            userid: One user or several.
            user_items: Their histories, since the model keeps none. In a table `userid` is looked
                up: somebody who is not in it is an error. A matrix has the rows of these users
                alone, in the order of `userid`, which only names them, as in `implicit`. The same
                holds for a table of one person's items, without users.
            N: How many items.
            filter_already_liked_items: Whether items of the person's history are left out.
            filter_items: Further items to leave out.
            items: The only items to rank; by default all.
            item_features: Take the place of those that `fit` was given.
            times: A matrix that has, where `user_items` has an interaction, when it was: any
                number, a later one is larger. Then what came last counts most. The timestamps of a
                table are not looked at.
        """
        histories, n = self._rows(userid, user_items), check_positive("N", N)
        allowed = _left_to_rank(self._items, items, filter_items)
        model, weights = self._wide(item_features), _weights(histories, times)
        blocks = []
        for start in range(0, histories.n_users, USERS_AT_ONCE):
            chosen = np.arange(start, min(start + USERS_AT_ONCE, histories.n_users))
            some, ends = histories.take(chosen), histories.indptr[[chosen[0], chosen[-1] + 1]]
            scores = _all_scores(model, some, None if weights is None else weights[slice(*ends)])
            if filter_already_liked_items:
                scores[some.users_of_entries(), some.indices] = -np.inf
            scores[:, ~allowed] = -np.inf
            blocks.append(_best(scores, n))
        numbers, found = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
        lists = self._items.get_ids(numbers)
        return (lists[0], found[0]) if np.ndim(userid) == 0 else (lists, found)

    def explain(
        self,
        userid: Any,
        user_items: UserItems,
        itemid: Any,
        N: int = MAX_REASONS,
        *,
        item_features: ItemFeatures | None = None,
        times: Matrix | None = None,
    ) -> tuple[float, list[tuple[Any, float]]]:
        """The score of an item, and what speaks for it most, as a device gives its reasons.

        A reason is an own item or a `Tag`, with its share of all that speaks for the item.

        Args:
            userid: The user.
            user_items: Their history, as `recommend` takes it.
            itemid: The item.
            N: How many reasons, at most.
            item_features: Take the place of those that `fit` was given.
            times: When each interaction was, as `recommend` takes it.
        """
        histories, most = self._rows(userid, user_items), check_positive("N", N)
        ids = self._items.parse_numbers(itemid, "itemid")
        if np.ndim(userid) or np.ndim(itemid):
            raise DataError("userid and itemid must be one user and one item")
        item = int(ids[0])
        tags, model = self._tags_from(item_features), self._wide(item_features)
        own, weights = histories[0].tolist(), _weights(histories, times)
        shares = model.shares(own, np.ones(len(own)) if weights is None else weights)
        taste = Taste(model, tags, own, shares)
        reasons = [
            (what if isinstance(what, Tag) else self.item_ids.item(what), share)
            for what, share in taste.list_reasons(item, most)
        ]
        return float(taste.scores()[item]), reasons

    def evaluate(
        self,
        user_items: UserItems,
        test: UserItems,
        *,
        negatives: int | None = DEFAULT_NEGATIVES,
        item_features: ItemFeatures | None = None,
        times: Matrix | None = None,
    ) -> dict[str, float]:
        """HR, NDCG, MRR, recall and coverage at 10 of lists made from `user_items`.

        The result also has `negatives`: against how many items each was ranked, in the mean over
        people. Coverage is always of lists of all items.

        Args:
            user_items: The histories, in a form that `fit` takes.
            test: What was left out of the same people: the same rows, or in a table the same ids.
            negatives: How many items that the person never touched it is ranked against. They are
                drawn by the seed as in `sottovoce simulate`. None ranks against all, as real lists
                do; then numbers are much lower.
            item_features: Take the place of those that `fit` was given.
            times: When each interaction was, as `recommend` takes it.
        """
        histories, users, _ = parse_rows(user_items, self._items)
        hidden = parse_test(test, self._items, histories, users)
        model, weights = self._wide(item_features), _weights(histories, times)
        others = None
        if negatives is not None:
            asked = check_positive("negatives", negatives)
            others = sample_negatives(histories, hidden, asked, self.settings.seed)
        return measure_quality(model, histories, hidden, others, weights)

    def similar_items(
        self,
        itemid: ArrayLike,
        N: int = 10,
        *,
        filter_items: ArrayLike | None = None,
        items: ArrayLike | None = None,
    ) -> tuple[Ids, Float32]:
        """Items whose vectors point the same way (cosine), the item itself first, with scores.

        2-D where `itemid` is an array.

        Args:
            itemid: One item or several.
            N: How many items.
            filter_items: Items to leave out.
            items: The only items to rank; by default all.
        """
        V = self.item_factors
        ids, n = self._items.parse_numbers(itemid, "itemid"), check_positive("N", N)
        length = np.linalg.norm(V, axis=1)
        products = np.maximum(length[ids][:, None] * length, np.float32(1e-30))
        cosine = ((V[ids] @ V.T) / products).astype(np.float32)
        cosine[np.arange(len(ids)), ids] = np.inf  # itself first, whatever rounding says
        cosine[:, ~_left_to_rank(self._items, items, filter_items)] = -np.inf
        numbers, found = _best(cosine, n)
        lists = self._items.get_ids(numbers)
        found[np.isposinf(found)] = 1
        return (lists[0], found[0]) if np.ndim(itemid) == 0 else (lists, found)

    def _rows(self, userid: ArrayLike, user_items: UserItems) -> Histories:
        users, one = parse_ids(userid, "userid"), userid if np.ndim(userid) == 0 else None
        histories, known, _ = parse_rows(user_items, self._items, user=one)
        if known is not None:
            histories = histories.take(known.parse_numbers(users, "userid"))
        if histories.n_users != len(users):
            rows = "user_items.take([row])" if histories is user_items else "user_items[userid]"
            raise DataError(
                f"user_items must hold one row for each user: {len(users)} users, "
                f"{histories.n_users} rows (pass {rows})"
            )
        if not len(users):
            raise DataError("userid must name somebody to recommend to")
        return histories

    def _tags_from(self, item_features: ItemFeatures | None) -> Tags:
        n_items = len(self.item_factors)
        if item_features is not None:
            return parse_tags(item_features, n_items)
        return make_empty_tags(n_items) if self._tags is None else self._tags

    def _wide(self, item_features: ItemFeatures | None) -> WideModel:
        return make_device_model(self.item_factors, self.settings)(self._tags_from(item_features))

    def privacy(self, clients: int | None = None, delta: float = DEFAULT_DELTA) -> PrivacyReport:
        """What training costs each person.

        Args:
            clients: How many people take part in an epoch; by default as many as in the smallest
                epoch of `fit`. A model that was loaded knows none: without `clients` there is no
                central figure.
            delta: The delta of the central figures, and of the tighter local one.
        """
        people = self._crowd if clients is None else check_positive("clients", clients)
        return make_privacy_report(self.settings.event(len(self.item_factors)), people, delta)

    def save(self, path: str | Path) -> None:
        """Write the model: item matrix and tags; in the header settings, parameters and ids.

        Args:
            path: The safetensors file. An existing one is replaced.
        """
        V, arrays = self.item_factors, dict[str, NDArray[Any]]()
        extra: dict[str, Any] = {"parameters": plain(self.get_params())}
        assert self._state is not None
        if not np.array_equal(self.item_ids, np.arange(len(V))):
            extra["item_ids"] = self.item_ids.tolist()
        if self._tags is not None:
            extra["tags"] = [[tag.kind, tag.name] for tag in self._tags.names]
            table = self._tags.table
            arrays["tag_starts"] = table.indptr.astype(np.int64)
            arrays["tag_columns"] = table.indices.astype(np.int32)
        done = self._state.epochs_done
        write_model(Path(path), ModelFile(V, self.settings, done, extra, arrays))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a model.

        Args:
            path: What `save` wrote, engine, tags and ids included; or a checkpoint, which has no
                ids.
        """
        saved = read_model(Path(path))
        parameters = saved.extra.get("parameters", {})
        try:
            cls(**parameters)
        except (TypeError, SettingsError) as error:
            raise CheckpointError(f"{path}: its parameters cannot be read: {error}") from error
        try:
            tags = _tags_in(saved) if "tags" in saved.extra else None
            ids = to_id_array(saved.extra["item_ids"]) if "item_ids" in saved.extra else None
            model = cls.from_items(saved.V, saved.settings, saved.epochs_done, tags, ids)
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"{path}: its tags or ids cannot be read: {error}") from error
        for name, value in parameters.items():
            setattr(model, name, value)
        return model

    @classmethod
    def from_items(
        cls,
        V: Float32,
        settings: Settings,
        epochs_done: int | None = None,
        tags: Tags | None = None,
        item_ids: Ids | None = None,
    ) -> Self:
        """A model around an item matrix that was trained elsewhere.

        Args:
            V: The item matrix, M x F, float32.
            settings: What it was trained with.
            epochs_done: In how many epochs; None: in all of the settings.
            tags: What is known of the items; None: nothing.
            item_ids: What the rows are called; None: their numbers.
        """
        if item_ids is not None and len(item_ids) != len(V):
            raise DataError(f"item_ids must be {len(V)}, one for each row, not {len(item_ids)}")
        named, options = settings.as_dict(), dict(settings.options)
        training = {name: value for name, value in named.items() if name not in options}
        model = cls(**training, options=options or None)
        model._tags = tags
        model._labels = None if item_ids is None else Labels(item_ids)
        model._settings = settings
        model._state = TrainingState(settings.epochs if epochs_done is None else epochs_done, V)
        return model


def _weights(histories: Histories, times: Matrix | None) -> Float64 | None:
    return None if times is None else weigh_histories(histories, parse_times(times, histories))


def _all_scores(model: WideModel, histories: Histories, weights: Float64 | None) -> Float32:
    """Of every item for everybody, N x M; somebody without a history is shown what is popular."""
    X = solve_wide_vectors(model, histories, weights).astype(np.float64)
    lengths = np.diff(histories.indptr)
    return np.array(
        [model.list_scores(x, n_own) for x, n_own in zip(X, lengths, strict=True)], np.float32
    )


def _left_to_rank(
    known: Labels, items: ArrayLike | None, filter_items: ArrayLike | None
) -> NDArray[np.bool_]:
    """Which items a list may hold: `items` alone (None: all), without `filter_items`."""
    allowed = np.full(len(known), items is None)
    if items is not None:
        allowed[known.parse_numbers(items, "items")] = True
    if filter_items is not None:
        allowed[known.parse_numbers(filter_items, "filter_items")] = False
    return allowed


def _best(scores: Float32, n: int) -> tuple[Int32, Float32]:
    """The n largest of every row, ties to the lower number; -1 where nothing is left."""
    order = np.argsort(-scores, axis=1, kind="stable")[:, :n]
    found = np.take_along_axis(scores, order, axis=1)
    return np.where(np.isneginf(found), -1, order).astype(np.int32), found


@dataclass(frozen=True, eq=False)
class _Test:
    """What every epoch is measured on."""

    histories: Histories
    hidden: Histories
    tags: Tags
    settings: Settings

    @cached_property
    def others(self) -> Int32:
        """The same for every epoch."""
        return sample_negatives(self.histories, self.hidden, DEFAULT_NEGATIVES, self.settings.seed)

    @cached_property
    def name(self) -> str:
        """Another one for other people, items or tags."""
        return compute_fingerprint(self.hidden, self.tags.table.indptr, self.tags.table.indices)

    def metrics(self, state: TrainingState) -> Record:
        """By name, and what they are of."""
        model = make_device_model(state.V, self.settings)(self.tags)
        found = measure_quality(model, self.histories, self.hidden, self.others)
        return {**found, TESTED: self.name}


@contextmanager
def _epoch_bar(epochs: int, *, shown: bool) -> Iterator[Callable[[Record], None]]:
    """A live bar on standard error; gives what is to be called with each record."""
    if not shown:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task("training", total=epochs)

        def show(record: Record) -> None:
            measured = [f"{name} {value:.4f}" for name, value in select_metrics(record).items()]
            said = "  ".join(["training", *measured[:1]])
            bar.update(task, completed=record["epoch"], description=said)

        yield show


def _tags_in(saved: ModelFile) -> Tags:
    names = tuple(Tag(str(kind), str(name)) for kind, name in saved.extra["tags"])
    starts, columns = saved.arrays["tag_starts"], saved.arrays["tag_columns"]
    shape = (len(saved.V), len(names))
    table = sparse.csr_array((np.ones(len(columns)), columns, starts), shape=shape)
    table.check_format(full_check=True)
    return Tags(names, table)
