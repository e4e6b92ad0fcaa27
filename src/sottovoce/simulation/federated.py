"""`FederatedMF`: the whole system behind the interface that users of `implicit` know."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from sottovoce.characters import format_html_table
from sottovoce.core import Histories, solve_user_vectors
from sottovoce.core.recommending import MAX_REASONS, Taste, WideModel, weigh_histories
from sottovoce.core.tags import Tag, Tags, make_empty_tags
from sottovoce.data import leave_out
from sottovoce.data.interactions import to_id_array
from sottovoce.errors import CheckpointError, DataError, SettingsError
from sottovoce.privacy import DEFAULT_DELTA, PrivacyReport, make_privacy_report
from sottovoce.simulation.engines import AUTO_ENGINE, build_engine
from sottovoce.simulation.evaluation.lists import make_device_model, to_factors
from sottovoce.simulation.evaluation.metrics import Metric
from sottovoce.simulation.evaluation.quality import (
    DEFAULT_METRICS,
    Evaluation,
    measure_scores,
)
from sottovoce.simulation.evaluation.ranking import Factors, sample_negatives
from sottovoce.simulation.evaluation.side_information import solve_wide_vectors
from sottovoce.simulation.files import ModelFile, compute_fingerprint, read_model, write_model
from sottovoce.simulation.fit_outlook import FitOutlook, estimate_quality
from sottovoce.simulation.inputs import (
    ItemFeatures,
    Labels,
    Times,
    UserItems,
    check_positive,
    parse_ids,
    parse_rows,
    parse_tags,
    parse_test,
    parse_times,
    read_times,
)
from sottovoce.simulation.parameters import (
    check_names,
    check_parameters,
    has_default_budget,
    plan_settings,
    select_engine_options,
    to_plain,
)
from sottovoce.simulation.progress import FitTest, refresh_metrics, show_epoch_bar
from sottovoce.simulation.start import make_start
from sottovoce.simulation.training import Record, TrainingLog, TrainingState, select_metrics
from sottovoce.training import DEFAULT_PRESET, Settings

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
# Ids of items: column numbers (int32) after a fit to a matrix, otherwise the ids of the table.
Ids = NDArray[Any]
Callback = Callable[[int, float, dict[str, float]], None]

# Users whose scores of the whole catalogue are in memory at the same time.
USERS_PER_SCORE_BLOCK = 512


class FederatedMF:
    """Federated matrix factorisation under local differential privacy, simulated.

    The trained model is only the item matrix: no user's vector is kept, since none leaves a
    device. `recommend` solves the vector of a user from the history that it gets, so new users need
    no training.

    >>> from scipy import sparse
    >>> history = sparse.csr_matrix([[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]])
    >>> model = FederatedMF(factors=1, epochs=2, reports=10, verbose=False).fit(history)
    >>> items, scores = model.recommend(0, history[0], N=2)
    >>> sorted(items.tolist())
    [2, 3]

    After a fit to a table of interactions, people and items have the ids of the table:

    >>> bought = {"user": ["ann", "ann", "bob", "bob"], "item": ["tea", "pot", "tea", "cup"]}
    >>> shop = FederatedMF(factors=1, epochs=2, reports=10, verbose=False).fit(bought)
    >>> shop.recommend("ann", bought, N=1)[0].tolist()
    ['cup']

    Tags of the items make lists better, and reports do not depend on them. `fit` takes them as a
    table, a `Catalogue`, a mapping for each item in a list or by id, or a sparse 0/1 matrix (items
    x tags).

    >>> goods = {"cup": {"kind": ["china"]}, "tea": {"kind": ["food"]}}
    >>> tagged = shop.fit(bought, item_features=goods)
    >>> tagged.recommend("ann", bought, N=1)[0].tolist()
    ['cup']

    `fit` plans all settings that are not given, from the numbers of people and items, for the
    budget. Without a budget, all reports of one person have epsilon 10 together:

    >>> 9.99 < model.privacy().training.pure <= 10
    True

    It ends with a line about the expected quality, which `outlook` keeps. Parameters work as in
    scikit-learn, so its `clone` and `GridSearchCV` can be used; `score` is explained below.

    >>> FederatedMF(budget=10).set_params(preset="crowd", seed=3)
    FederatedMF(seed=3, preset='crowd', budget=10)

    Parameters
    ----------
    factors : int of at least 1, optional
        number of factors in the vector of an item (F).
    epochs : int of at least 1, optional
        number of epochs (T); training ends after them if half_life is 0.
    epsilon : float from 1e-06 to 40, optional
        epsilon of one report.
    reports : int from 1 to 10000, optional
        reports of one person in one epoch (k); an epoch costs k * epsilon.
    mechanism : str, optional
        mechanism by which a device makes its reports: coordinate, loudest, named.
    seed : int from 0 to 9007199254740991, default 0
        seed of the first item matrix and of the directions, which is public; in a simulation also
        of all reports. None draws another seed in each `fit`, which `settings.seed` keeps.
    preset : str, default 'loudest'
        settings to start from: paper, coordinate, loudest, named, strong, crowd.
    start : UserItems or path, optional
        public interactions from which the first item matrix is learnt, or a file of `sottovoce
        start`. If reports would teach nothing more, `fit` raises `NothingToLearnError`: then name a
        larger budget, or epsilon=1e-6, reports=1 and epochs=1 for lists from the start alone.
    budget : float, optional
        local privacy budget: the largest sum of the epsilons of one person's reports; None: that of
        the preset, if it has one, and otherwise 10. The preset `paper`, which costs 5,000, and
        models with epsilon, reports and epochs or lifetime need no budget.
    central_budget : float, optional
        central privacy budget: the largest epsilon of one person after an honest shuffle of all
        reports; None: that of the preset, if it has one.
    history : float, optional
        number of items in a typical history; None: the median of the data, rounded to two digits.
    lifetime : int of at least 0, optional
        number of epochs in which one person takes part (E); their device draws them at random; 0:
        all epochs.
    half_life : float from 0 to 1000000000, optional
        number of epochs after which a report has half its weight; training then never ends; 0: all
        reports weigh the same, and training ends after T epochs.
    dummies : int from 0 to 10000000, optional
        number of random reports that the proxy adds to every epoch (D); they hide a person's
        reports even if few other people report.
    alpha : float from 0 to 1024, optional
        extra weight of touched items: a touched item weighs 1 + alpha, any other item 1.
    regularization : float from 1e-12 to 1000000, optional
        regularization of user vectors and items (lambda).
    ridge : float from 0 to 1000000, optional
        additional regularization of user vectors, as a multiple of the mean squared length of the
        item matrix's columns.
    learning_rate : float above 0, optional
        length of a step along the estimated gradient.
    steps : int of at least 1, optional
        number of gradient steps in one epoch, all with the same reports.
    rate_grows_with_reports : bool, optional
        multiply the length of a step by the number of reports (k), as the paper does.
    initial_scale : float above 0, optional
        standard deviation of the entries of the first item matrix.
    head_start : float of at least 0, optional
        value of every item's first factor at the start, in multiples of initial_scale; 0: random
        values.
    rotate : bool, optional
        rotate the item matrix to a new random basis after every epoch.
    options : Mapping[str, Any], optional
        options of the mechanism, such as `{'block': 8}` for `loudest`.
    engine : str, default 'auto'
        engine that simulates the devices: auto, cpu, cuda, ray, reference.
    engine_options : Mapping[str, Any], optional
        options of the engine, such as `{'card': 1}` for `cuda`.
    threads : int, optional
        number of threads; short for the option `threads` of the engines `cpu` and `auto`.
    verbose : bool, default True
        whether `fit` ends with a line on standard error: cost and expected quality.
    unknown : Any
        any other parameter is refused; the error suggests the parameter with the most similar name.
    """

    # Attributes that `fit` sets. The constructor of a scikit-learn estimator sets only parameters.
    _labels: Labels | None = None
    _settings: Settings | None = None
    _tags: Tags | None = None
    _state: TrainingState | None = None
    _crowd: int | None = None
    outlook: FitOutlook | None = None
    """The expected quality of lists against popularity; None without `fit`."""

    def __init__(
        self,
        factors: int | None = None,
        epochs: int | None = None,
        epsilon: float | None = None,
        reports: int | None = None,
        mechanism: str | None = None,
        seed: int | None = 0,
        *,
        preset: str = DEFAULT_PRESET,
        start: UserItems | str | Path | None = None,
        budget: float | None = None,
        central_budget: float | None = None,
        history: float | None = None,
        lifetime: int | None = None,
        half_life: float | None = None,
        dummies: int | None = None,
        alpha: float | None = None,
        regularization: float | None = None,
        ridge: float | None = None,
        learning_rate: float | None = None,
        steps: int | None = None,
        rate_grows_with_reports: bool | None = None,
        initial_scale: float | None = None,
        head_start: float | None = None,
        rotate: bool | None = None,
        options: Mapping[str, Any] | None = None,
        engine: str = AUTO_ENGINE,
        engine_options: Mapping[str, Any] | None = None,
        threads: int | None = None,
        verbose: bool = True,
        **unknown: Any,
    ):
        check_names(type(self).__name__, unknown, self._list_parameters())
        # scikit-learn's `clone` checks that each attribute is the argument itself.
        self.factors = factors
        self.epochs = epochs
        self.epsilon = epsilon
        self.reports = reports
        self.mechanism = mechanism
        self.seed = seed
        self.preset = preset
        self.start = start
        self.budget = budget
        self.central_budget = central_budget
        self.history = history
        self.lifetime = lifetime
        self.half_life = half_life
        self.dummies = dummies
        self.alpha = alpha
        self.regularization = regularization
        self.ridge = ridge
        self.learning_rate = learning_rate
        self.steps = steps
        self.rate_grows_with_reports = rate_grows_with_reports
        self.initial_scale = initial_scale
        self.head_start = head_start
        self.rotate = rotate
        self.options = options
        self.engine = engine
        self.engine_options = engine_options
        self.threads = threads
        self.verbose = verbose
        check_parameters(self.get_params())

    @classmethod
    def _list_parameters(cls) -> dict[str, Any]:
        """Return the default of each parameter, in the order of the constructor."""
        parameters = signature(cls).parameters.values()
        return {p.name: p.default for p in parameters if p.kind is not Parameter.VAR_KEYWORD}

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002, FBT001, FBT002 - scikit-learn's signature
        """Return the arguments of the constructor, as they were given.

        Args:
            deep: Has no effect: no parameter is a model itself.
        """
        return {name: getattr(self, name) for name in self._list_parameters()}

    def set_params(self, **params: Any) -> Self:
        """Change some parameters. What was fitted stays as it is until the next `fit`.

        Args:
            params: New values of parameters of the constructor, by name.

        Raises:
            SettingsError: A value is impossible, or there is no such parameter. Nothing is changed.
        """
        # The constructor of another model checks all values before any parameter is changed.
        type(self)(**{**self.get_params(), **params})
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = self._list_parameters()
        values = {name: to_plain(value) for name, value in self.get_params().items()}
        changed = [
            f"{name}={_abbreviate(value)}"
            for name, value in values.items()
            if value is not defaults[name] and (name == "start" or value != defaults[name])
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    def _repr_html_(self) -> str:
        """Return the table that notebooks show."""
        rows: dict[str, object] = {"model": self}
        if self._state is not None:
            rows |= {"settings": self.settings, "items": f"{len(self._state.V):,}"}
        if self.outlook is not None:
            rows["outlook"] = self.outlook
        return format_html_table(rows)

    def __sklearn_tags__(self) -> Any:
        # Only scikit-learn calls this, so it is installed then.
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            transformer_tags=None,
            classifier_tags=None,
            regressor_tags=None,
            input_tags=InputTags(sparse=True, positive_only=True),
        )

    def __sklearn_is_fitted__(self) -> bool:
        return self._state is not None

    @property
    def settings(self) -> Settings:
        """All settings, as planned for the people and items of `fit`."""
        if self._settings is None:
            raise SettingsError("the settings follow from the data: call fit() or load()")
        return self._settings

    def fit(
        self,
        user_items: UserItems,
        y: None = None,  # noqa: ARG002 - scikit-learn's signature
        *,
        item_features: ItemFeatures | None = None,
        test: UserItems | None = None,
        show_progress: bool = False,
        callback: Callback | None = None,
        checkpoint: str | Path | None = None,
    ) -> Self:
        """Train on interactions. A rating above 0 is an interaction; any other rating is none.

        Args:
            y: Is not used; for scikit-learn.
            user_items: A matrix of N people x M items, sparse or dense; people and items are the
                numbers of rows and columns. Or a table with ids: a DataFrame of any library with
                columns for user and item, a mapping of such columns, a pair `(users, items)`, or
                what `sottovoce.data.load` returns. The names of columns are recognised as in files;
                for other names `load` takes `columns`. After a fit to a table, all methods use its
                ids for items, in the order of `item_ids`.
            item_features: Tags of the items, for recommending; training does not look at them. A
                `Catalogue`, a table with a column of items, a list with a mapping for each item, a
                dict of such mappings by id, or a sparse matrix, items x tags.
            test: Test items of the same people, in a form that `user_items` can have. If they are
                given, the metrics of `evaluate` are measured after every epoch: on all people after
                the last epoch, on at most 10,000 people after earlier ones.
            show_progress: Whether a bar shows the epochs.
            callback: Called after every epoch as `callback(epoch, seconds, metrics)`.
            checkpoint: A file to which the state is written after every epoch. If the file exists,
                the training continues from it, and ends with the same model as if it had never
                stopped. The callback is first called for the epochs in the file. If they were
                measured on another `test`, only the last of them gets metrics.

        Returns:
            The model itself.
        """
        histories, users, labels = parse_rows(user_items, None)
        if not (histories.n_users and histories.n_items):
            raise DataError("user_items must have a row and a column to learn from")
        tags = None if item_features is None else parse_tags(item_features, labels)
        hidden = None if test is None else parse_test(test, labels, histories, users)
        start = None if self.start is None else make_start(self.start, labels)
        start_factors = 0 if start is None else start.shape[1]
        parameters = self.get_params()
        if self.seed is None:
            parameters["seed"] = secrets.randbits(53)
        settings = plan_settings(parameters, histories, start_factors)
        # Drop the results of the last fit before the new one begins, so that a failure leaves no
        # mixture.
        self._tags, self._settings, self._state, self._labels = tags, settings, None, labels
        self._crowd = crowd = histories.n_users
        self.outlook = None
        known_tags = make_empty_tags(histories.n_items) if tags is None else tags
        fit_test = None
        if hidden is not None:
            fit_test = FitTest(histories, hidden, known_tags, settings)
        file = None if checkpoint is None else Path(checkpoint)
        # The fingerprint prevents a training from continuing a checkpoint of other data. It is
        # needed only with a file.
        identity = {"data": compute_fingerprint(histories), "resample": None} if file else {}
        log = TrainingLog.open(settings, histories.n_items, file, identity, start)
        refresh_metrics(log, fit_test)

        with show_epoch_bar(settings.epochs, is_shown=show_progress) as show:

            def on_epoch(record: Record) -> None:
                nonlocal crowd
                # The privacy report counts the smallest crowd of all epochs.
                crowd = min(crowd, int(record["people"]))
                self._state, self._crowd = log.state, crowd
                show(record)
                if callback is not None:
                    callback(record["epoch"], record["seconds"], select_metrics(record))

            # A callback sees every epoch, also those of the checkpoint.
            for record in log.records:
                on_epoch(record)
            # Building an engine may take seconds, which a complete training does not need.
            if not log.is_complete:
                options = select_engine_options(self.get_params())
                measure = fit_test.measure if fit_test else lambda _: {}
                with build_engine(self.engine, histories, settings, **options) as engine:
                    log.run(engine, measure, on_epoch)
        model = self._build_model(None)
        self.outlook = FitOutlook(
            settings.event(histories.n_items).pure,
            has_default_budget(parameters),
            *estimate_quality(model, histories, known_tags, settings.seed),
        )
        if self.verbose:
            print(f"{type(self).__name__}: {self.outlook}", file=sys.stderr)  # noqa: T201
        return self

    @property
    def item_factors(self) -> Float32:
        """The item matrix V, M x F."""
        if self._state is None:
            raise SettingsError("this model is not trained yet: call fit() or load()")
        return self._state.V

    @property
    def item_ids(self) -> Ids:
        """The ids of the rows of `item_factors`: numbers, or the ids of a table."""
        return self._items.ids

    @property
    def _items(self) -> Labels:
        if self._labels is None:
            self._labels = Labels(np.arange(len(self.item_factors), dtype=np.int32))
        return self._labels

    def user_vectors(self, user_items: UserItems) -> Float32:
        """Solve each person's vector as a device does, from the history that is given.

        Args:
            user_items: Their histories, in a form that `fit` takes.

        Returns:
            N x F, in the order of the rows of the matrix, or in ascending order of the ids of the
            table.
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
        times: Times | None = None,
    ) -> tuple[Ids, Float32]:
        """Return the N best items and their scores, best first; 2-D if `userid` is an array.

        A person without a history gets the items that are popular by the model's estimate. If fewer
        than N items are left, the list is filled up with item -1 (None if ids are text) and score
        -inf.

        Args:
            userid: One user or several.
            user_items: The histories of these users, because the model keeps none. In a table,
                `userid` is looked up, and a user who is not in it raises an error. A matrix must
                have only the rows of these users, in the order of `userid`, as in `implicit`. A
                table without a column of users is the history of one user.
            N: How many items.
            filter_already_liked_items: Whether items of the person's history are left out.
            filter_items: Further items to leave out.
            items: The only items to rank; by default all.
            item_features: Tags of the items, instead of those that `fit` got.
            times: The time of each interaction of `user_items`; later items then count more. True
                takes the timestamps of the table, which are not used otherwise. Or a sparse matrix
                of numbers that grow with time, or an array, in the order of the rows and, in each
                row, of the items.
        """
        histories, n = self._select_rows(userid, user_items), check_positive("N", N)
        allowed = _mask_allowed(self._items, items, filter_items)
        times = self._select_times(times, userid, user_items)
        model, weights = self._build_model(item_features), _weigh(histories, times)
        blocks = []
        for start in range(0, histories.n_users, USERS_PER_SCORE_BLOCK):
            rows = np.arange(start, min(start + USERS_PER_SCORE_BLOCK, histories.n_users))
            block, ends = histories.take(rows), histories.indptr[[rows[0], rows[-1] + 1]]
            block_weights = None if weights is None else weights[slice(*ends)]
            scores = _score_all_items(model, block, block_weights)
            if filter_already_liked_items:
                scores[block.users_of_entries(), block.indices] = -np.inf
            scores[:, ~allowed] = -np.inf
            blocks.append(_take_best(scores, n))
        numbers, best = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
        lists = self._items.get_ids(numbers)
        return (lists[0], best[0]) if np.ndim(userid) == 0 else (lists, best)

    def explain(
        self,
        userid: Any,
        user_items: UserItems,
        itemid: Any,
        N: int = MAX_REASONS,
        *,
        item_features: ItemFeatures | None = None,
        times: Times | None = None,
    ) -> tuple[float, list[tuple[Any, float]]]:
        """Return the score of an item and the reasons for it, as a device gives them.

        A reason is an item of the history, a `Tag`, or None, which means that many people touch the
        item now. Each reason has its share of all reasons for the item.

        Args:
            userid: The user.
            user_items: Their history, as `recommend` takes it.
            itemid: The item.
            N: Maximum number of reasons.
            item_features: Tags of the items, instead of those that `fit` got.
            times: The time of each interaction, as for `recommend`.
        """
        histories, max_reasons = self._select_rows(userid, user_items), check_positive("N", N)
        ids = self._items.parse_numbers(itemid, "itemid")
        if np.ndim(userid) or np.ndim(itemid):
            raise DataError("userid and itemid must be one user and one item")
        item = int(ids[0])
        tags, model = self._get_tags(item_features), self._build_model(item_features)
        times = self._select_times(times, userid, user_items)
        own, weights = histories[0].tolist(), _weigh(histories, times)
        shares = model.shares(own, np.ones(len(own)) if weights is None else weights)
        taste = Taste(model, tags, own, shares)
        reasons = [
            (self.item_ids.item(reason) if isinstance(reason, int) else reason, share)
            for reason, share in taste.list_reasons(item, max_reasons)
        ]
        scores = taste.scores()
        return float(scores[item] if own else _scale_popularity(scores)[item]), reasons

    def evaluate(
        self,
        user_items: UserItems,
        test: UserItems,
        *,
        metrics: Sequence[str] = DEFAULT_METRICS,
        negatives: int | None = None,
        seed: int | None = None,
        filter_already_liked_items: bool = True,
        item_features: ItemFeatures | None = None,
        times: Times | None = None,
    ) -> Evaluation:
        """Measure lists made from `user_items`, as `sottovoce.simulation.evaluate` does.

        The result also has `negatives`, the mean number of items that a test item is ranked with.
        Coverage, novelty and Gini are always measured on lists from the whole catalogue.

        Args:
            user_items: The histories, in a form that `fit` takes.
            test: The test items of the same people, in the same rows, or with the same ids in a
                table.
            metrics: Names with a length: hr, recall, precision, map, mrr, ndcg, coverage, novelty
                and gini, as "ndcg@100".
            negatives: Number of untouched items that each test item is ranked with. None ranks it
                in the whole catalogue, like a real list; the metrics are then much lower.
            seed: The seed of the negatives; None: that of the settings, as in `sottovoce simulate`.
            filter_already_liked_items: Whether lists leave out the items of the person's history.
                If so, test items that are in it do not count. If not, repurchases count.
            item_features: Tags of the items, instead of those that `fit` got.
            times: The time of each interaction, as for `recommend`.
        """
        histories, users, _ = parse_rows(user_items, self._items)
        repurchases = not filter_already_liked_items
        hidden = parse_test(test, self._items, histories, users, repurchases=repurchases)
        if times is True:
            times = read_times(user_items, self._items)
        model, weights = self._build_model(item_features), _weigh(histories, times)
        others = None
        if negatives is not None:
            n_negatives = check_positive("negatives", negatives)
            others = sample_negatives(
                histories, hidden, n_negatives, self.settings.seed if seed is None else seed
            )
        factors = Factors(*to_factors(model, histories, weights))
        result = measure_scores(factors, histories, hidden, metrics, others, may_repeat=repurchases)
        if users is not None:
            result.people = users.ids[result.people]
        return result

    def score(self, user_items: UserItems, y: None = None) -> float:  # noqa: ARG002 - scikit-learn's
        """Return HR@10 of these people, with one random item of each left out of the histories.

        scikit-learn calls it in cross-validation, in which these people took no part in training.
        Pass what `load` returns, or a matrix: scikit-learn divides its rows, which are people. The
        rows of a table are interactions.

        Args:
            user_items: The histories, in a form that `fit` takes.
            y: Is not used.
        """
        return HoldoutScorer()(self, user_items)

    def similar_items(
        self,
        itemid: ArrayLike,
        N: int = 10,
        *,
        filter_items: ArrayLike | None = None,
        items: ArrayLike | None = None,
    ) -> tuple[Ids, Float32]:
        """Return the items whose vectors have the largest cosine with an item, with these cosines.

        The item itself is the first. Both arrays are 2-D if `itemid` is an array.

        Args:
            itemid: One item or several.
            N: How many items.
            filter_items: Items to leave out.
            items: The only items to rank; by default all.
        """
        V = self.item_factors
        ids, n = self._items.parse_numbers(itemid, "itemid"), check_positive("N", N)
        lengths = np.linalg.norm(V, axis=1)
        # A row of zeros has cosine 0 with all others, and not 0 / 0.
        products = np.maximum(lengths[ids][:, None] * lengths, np.float32(1e-30))
        cosine = ((V[ids] @ V.T) / products).astype(np.float32)
        # Rounding could put another item before the item itself.
        cosine[np.arange(len(ids)), ids] = np.inf
        cosine[:, ~_mask_allowed(self._items, items, filter_items)] = -np.inf
        numbers, best = _take_best(cosine, n)
        lists = self._items.get_ids(numbers)
        best[np.isposinf(best)] = 1
        return (lists[0], best[0]) if np.ndim(itemid) == 0 else (lists, best)

    def _select_rows(self, userid: ArrayLike, user_items: UserItems) -> Histories:
        users, only_user = parse_ids(userid, "userid"), userid if np.ndim(userid) == 0 else None
        histories, labels, _ = parse_rows(user_items, self._items, user=only_user)
        if labels is not None:
            histories = histories.take(labels.parse_numbers(users, "userid"))
        if histories.n_users != len(users):
            rows = "user_items.take([row])" if histories is user_items else "user_items[userid]"
            raise DataError(
                f"user_items must hold one row for each user: {len(users)} users, "
                f"{histories.n_users} rows (pass {rows})"
            )
        if not len(users):
            raise DataError("userid must name somebody to recommend to")
        return histories

    def _select_times(
        self, times: Times | None, userid: ArrayLike, user_items: UserItems
    ) -> Times | None:
        """Return the times of these users, if `times` is True those of the table."""
        if times is not True:
            return times
        only_user = userid if np.ndim(userid) == 0 else None
        matrix = read_times(user_items, self._items, only_user)
        _, labels, _ = parse_rows(user_items, self._items, user=only_user)
        assert labels is not None, "a table has ids"
        return matrix[labels.parse_numbers(userid, "userid")]

    def _get_tags(self, item_features: ItemFeatures | None) -> Tags:
        n_items = len(self.item_factors)
        if item_features is not None:
            return parse_tags(item_features, self._items)
        return make_empty_tags(n_items) if self._tags is None else self._tags

    def _build_model(self, item_features: ItemFeatures | None) -> WideModel:
        return make_device_model(self.item_factors, self.settings, self._get_tags(item_features))

    def privacy(self, clients: int | None = None, delta: float = DEFAULT_DELTA) -> PrivacyReport:
        """Return the privacy report, which says what the training costs each person.

        Args:
            clients: How many people take part in an epoch; by default as many as in the smallest
                epoch of `fit`. A loaded model does not know this number, so without `clients` it
                has no central figure.
            delta: The delta of the central figures, and of the tighter local one.
        """
        people = self._crowd if clients is None else check_positive("clients", clients)
        return make_privacy_report(self.settings.event(len(self.item_factors)), people, delta)

    def save(self, path: str | Path) -> None:
        """Write the item matrix and the tags, with settings, parameters and ids in the header.

        Args:
            path: The safetensors file. An existing one is replaced.
        """
        V, arrays = self.item_factors, dict[str, NDArray[Any]]()
        # The start is in the item matrix already, and a table is no JSON.
        parameters = {**self.get_params(), "start": None}
        extra: dict[str, Any] = {"parameters": to_plain(parameters)}
        # Without a state, `item_factors` has raised an error above.
        assert self._state is not None
        # Ids that are only the numbers of the rows need not be written.
        if not np.array_equal(self.item_ids, np.arange(len(V))):
            extra["item_ids"] = self.item_ids.tolist()
        if self.outlook is not None:
            extra["outlook"] = asdict(self.outlook)
        if self._tags is not None:
            extra["tags"] = [[tag.kind, tag.name] for tag in self._tags.names]
            table = self._tags.table
            arrays["tag_starts"] = table.indptr.astype(np.int64)
            arrays["tag_columns"] = table.indices.astype(np.int32)
        model = ModelFile(V, self.settings, self._state.epochs_done, extra, arrays)
        write_model(Path(path), model)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a model.

        Args:
            path: A file that `save` wrote, with parameters, tags and ids; or a checkpoint, which
                has none of these.
        """
        saved = read_model(Path(path))
        parameters = saved.extra.get("parameters", {})
        # This model is only a check: the settings of the file are planned already.
        try:
            cls(**parameters)
        except (TypeError, SettingsError) as error:
            raise CheckpointError(f"{path}: its parameters cannot be read: {error}") from error
        try:
            tags = _read_tags(saved) if "tags" in saved.extra else None
            ids = to_id_array(saved.extra["item_ids"]) if "item_ids" in saved.extra else None
            model = cls.from_items(saved.V, saved.settings, saved.epochs_done, tags, ids)
            if "outlook" in saved.extra:
                model.outlook = FitOutlook(**saved.extra["outlook"])
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
        """Make a model around an item matrix that was trained elsewhere.

        Args:
            V: The item matrix, M x F, float32.
            settings: The settings that V was trained with.
            epochs_done: Number of epochs that V was trained for; None: all epochs of the settings.
            tags: Tags of the items; None: the items have none.
            item_ids: The ids of the rows; None: their numbers.
        """
        if item_ids is not None and len(item_ids) != len(V):
            raise DataError(f"item_ids must be {len(V)}, one for each row, not {len(item_ids)}")
        values, options = settings.as_dict(), dict(settings.options)
        training = {name: value for name, value in values.items() if name not in options}
        model = cls(**training, options=options or None)
        model._tags = tags
        model._labels = None if item_ids is None else Labels(item_ids)
        model._settings = settings
        model._state = TrainingState(settings.epochs if epochs_done is None else epochs_done, V)
        return model


def _abbreviate(value: Any) -> str:
    """Return the value of a parameter as text; of a table only its type."""
    is_simple = value is None or isinstance(value, str | int | float | dict | Path)
    return repr(value) if is_simple else f"<{type(value).__name__}>"


class HoldoutScorer:
    """A scorer for scikit-learn: a metric of people from whom random items are left out.

    >>> HoldoutScorer("ndcg@100", n=2)
    HoldoutScorer('ndcg@100', n=2, seed=0)

    Args:
        metric: Name of the metric, as `FederatedMF.evaluate` takes it.
        n: Number of items that are left out of each history.
        seed: Seed of the draws.
    """

    def __init__(self, metric: str = "hr@10", *, n: int = 1, seed: int = 0):
        Metric.from_name(metric)
        self.metric = metric
        self.n = n
        self.seed = seed

    def __repr__(self) -> str:
        return f"HoldoutScorer({self.metric!r}, n={self.n}, seed={self.seed})"

    def __call__(self, model: FederatedMF, user_items: UserItems, y: None = None) -> float:  # noqa: ARG002 - scikit-learn's
        """Return the metric of a fitted model.

        Args:
            model: The model.
            user_items: The histories, in a form that `FederatedMF.fit` takes.
            y: Is not used.
        """
        histories, *_ = parse_rows(user_items, model._items)  # noqa: SLF001 - the same module
        train, test = leave_out(histories, self.n, seed=self.seed)
        ids = Labels(np.arange(histories.n_items))
        hidden = parse_test(test.histories, ids, train.histories, None)
        factors = Factors(*to_factors(model._build_model(None), train.histories))  # noqa: SLF001
        return measure_scores(factors, train.histories, hidden, [self.metric])[self.metric]


def _weigh(histories: Histories, times: Times | None) -> Float64 | None:
    return None if times is None else weigh_histories(histories, parse_times(times, histories))


def _score_all_items(model: WideModel, histories: Histories, weights: Float64 | None) -> Float32:
    """Return N x M scores; those of a person without a history are popularity, at most 1."""
    X = solve_wide_vectors(model, histories, weights).astype(np.float64)
    lengths = np.diff(histories.indptr)
    popularity = _scale_popularity(model.popularity)
    return np.array(
        [model.scores(x) if n_own else popularity for x, n_own in zip(X, lengths, strict=True)],
        np.float32,
    )


def _scale_popularity(popularity: Float64) -> Float64:
    """Divide popularity by its largest value: it has another unit than the scores of a person."""
    return popularity / (popularity.max(initial=0) or 1)


def _mask_allowed(
    labels: Labels, items: ArrayLike | None, filter_items: ArrayLike | None
) -> NDArray[np.bool_]:
    """Return a mask of what a list may hold: `items` (None: all) without `filter_items`."""
    allowed = np.full(len(labels), items is None)
    if items is not None:
        allowed[labels.parse_numbers(items, "items")] = True
    if filter_items is not None:
        allowed[labels.parse_numbers(filter_items, "filter_items")] = False
    return allowed


def _take_best(scores: Float32, n: int) -> tuple[NDArray[np.int32], Float32]:
    """Return the n best items of every row and their scores; item -1 for a score of -inf."""
    # A stable order keeps ties in the order of their numbers.
    order = np.argsort(-scores, axis=1, kind="stable")[:, :n]
    best = np.take_along_axis(scores, order, axis=1)
    return np.where(np.isneginf(best), -1, order).astype(np.int32), best


def _read_tags(saved: ModelFile) -> Tags:
    names = tuple(Tag(str(kind), str(name)) for kind, name in saved.extra["tags"])
    starts, columns = saved.arrays["tag_starts"], saved.arrays["tag_columns"]
    shape = (len(saved.V), len(names))
    table = sparse.csr_array((np.ones(len(columns)), columns, starts), shape=shape)
    # The file may be damaged or forged, and compiled code does not check where it reads.
    table.check_format(full_check=True)
    return Tags(names, table)
