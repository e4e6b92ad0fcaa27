"""What `FederatedMF` is told, checked: its parameters, and the arguments of its methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from sottovoce.core import Histories
from sottovoce.core.recommending import Tag, Tags, Traits, tags_of
from sottovoce.errors import DataError, SettingsError
from sottovoce.settings import Setting
from sottovoce.simulation.engines import AUTO, chosen_options
from sottovoce.training import DEFAULT, Budget, Settings, planned, unplanned

if TYPE_CHECKING:
    # The protocol brings cryptography, which a simulator does not need.
    from sottovoce.protocol import Catalogue

Int64 = NDArray[np.int64]
Matrix = sparse.csr_matrix | sparse.csr_array
ItemFeatures: TypeAlias = "Matrix | Catalogue | Sequence[Mapping[str, Any]]"

NOT_OF_TRAINING = (
    *("preset", "budget", "central_budget", "history"),
    *("options", "engine", "engine_options", "threads"),
)
"""Parameters that are no settings of a training."""


@dataclass(repr=False, eq=False)
class Parameters:
    """What `FederatedMF` can be told, by the conventions of scikit-learn.

    The arguments of the constructor are kept as they were given, in attributes of their names: so
    `clone` and `ParameterGrid` work.

    None leaves a value to the planner, which knows people and items once `fit` is called. `budget`
    is what each person may spend in all (epsilon, with nobody to trust); `central_budget` the same
    after an honest shuffle. Without either, the preset has its usual reports; there are `strong`,
    `crowd`, `paper` and one for each mechanism. `history` is how many items a typical person has
    touched (by default the median of the data, to two digits). The other settings are those of
    `sottovoce.training.Settings`. `options` are the mechanism's, as `{"block": 8}` for `loudest`;
    `engine_options` are the engine's, as `{"card": 1}` for `cuda`; `threads` is short for that
    option of `cpu` and `auto`.
    """

    factors: int | None = None
    epochs: int | None = None
    epsilon: float | None = None
    reports: int | None = None
    mechanism: str | None = None
    seed: int = 0
    _: KW_ONLY
    preset: str = DEFAULT
    budget: float | None = None
    central_budget: float | None = None
    history: float | None = None
    lifetime: int | None = None
    half_life: float | None = None
    dummies: int | None = None
    alpha: float | None = None
    regularization: float | None = None
    ridge: float | None = None
    learning_rate: float | None = None
    steps: int | None = None
    rate_grows_with_reports: bool | None = None
    initial_scale: float | None = None
    head_start: float | None = None
    rotate: bool | None = None
    options: Mapping[str, Any] | None = None
    engine: str = AUTO
    engine_options: Mapping[str, Any] | None = None
    threads: int | None = None

    def __post_init__(self) -> None:
        """Refuses what cannot be, before any data is read."""
        unplanned(self.preset, self._given())
        self._spend()
        _number("history", self.history)
        chosen_options(self.engine, self._engine_options())

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """By name, in the order of the constructor."""
        return {each.name: each.default for each in fields(cls)}

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002, FBT001, FBT002 - scikit-learn's signature
        """The arguments of the constructor, as they were given. No parameter is a model itself."""
        return {name: getattr(self, name) for name in self.defaults()}

    def set_params(self, **params: Any) -> Self:
        """Change some parameters. What was fitted stays as it is until the next `fit`."""
        known = self.get_params()
        if unknown := sorted(set(params) - set(known)):
            said = f"no such parameter: {', '.join(unknown)}; there are {', '.join(known)}"
            raise SettingsError(said)
        type(self)(**{**known, **params})  # refuses values that cannot be
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        """With the parameters that are not the default."""
        defaults = self.defaults()
        given = {name: plain(value) for name, value in self.get_params().items()}
        named = [f"{name}={value!r}" for name, value in given.items() if value != defaults[name]]
        return f"{type(self).__name__}({', '.join(named)})"

    def _given(self) -> dict[str, Any]:
        """The settings of the training; None where one is not named."""
        named, options = self.get_params(), _mapping("options", self.options, "{'block': 8}")
        if twice := sorted(set(options) & set(named)):
            raise SettingsError(f"give {', '.join(twice)} as an argument, not among the options")
        training = {name: each for name, each in named.items() if name not in NOT_OF_TRAINING}
        return {**training, **options}

    def _spend(self) -> Budget | None:
        local, central = self.budget, self.central_budget
        return Budget.of(_number("budget", local), _number("central_budget", central))

    def _engine_options(self) -> dict[str, Any]:
        given = _mapping("engine_options", self.engine_options, "{'card': 1}")
        if self.threads is None:
            return given
        if "threads" in given:
            raise SettingsError("threads must be given once: as an argument or in engine_options")
        return {**given, "threads": self.threads}

    def _planned(self, histories: Histories) -> Settings:
        history = _number("history", self.history)
        return planned(
            histories.n_users,
            histories.n_items,
            history=histories.typical_length() if history is None else history,
            preset=self.preset,
            budget=self._spend(),
            **self._given(),
        )


def _mapping(name: str, given: Any, example: str) -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(each, str) for each in given):
        raise SettingsError(f"{name} must be a mapping by name, as {example}; got {given!r:.80}")
    return dict(given)


def _number(name: str, value: Any) -> float | None:
    checked: float | None = Setting(name, float, optional=True).checked(value)
    return checked


def plain(value: Any) -> Any:
    """Numbers of numpy as Python's, and any mapping as a dict: for JSON and for people."""
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    return value.item() if isinstance(value, np.generic) else value


def histories_from(user_items: Matrix | Histories, name: str = "user_items") -> Histories:
    """Of a sparse matrix; one row of a sparse array, which has one dimension, is one person."""
    if isinstance(user_items, Histories):
        return user_items
    return Histories.from_csr(matrix_from(user_items, name, "a sparse matrix or Histories"))


def matrix_from(given: Any, name: str, kind: str = "a sparse matrix") -> Matrix:
    """A sparse matrix of numbers whose arrays fit together; compiled code relies on that."""
    if not hasattr(given, "tocsr"):
        raise DataError(f"{name} must be {kind}, got {type(given).__name__}")
    if given.dtype.kind not in "biuf":
        raise DataError(f"{name} must hold numbers, got {given.dtype}")
    if hasattr(given, "indptr"):
        try:
            if (np.diff(given.indptr) < 0).any():
                raise ValueError("indptr decreases")
            # Another one around the same arrays: the check may cut them off.
            given = type(given)((given.data, given.indices, given.indptr), shape=given.shape)
            given.check_format(full_check=True)
        except ValueError as error:
            raise DataError(f"{name} is a damaged sparse matrix: {error}") from error
    if given.ndim == 1:
        given = given.reshape((1, given.shape[0]))
    matrix: Matrix = given.tocsr()
    return matrix


def at_least_one(name: str, value: Any) -> int:
    return int(Setting(name, int, least=1).checked(value))


def ids_in(given: ArrayLike, n: int | None, name: str) -> Int64:
    """Whole numbers below n (None: any), in one dimension."""
    try:
        ids = np.atleast_1d(np.asarray(given))
    except ValueError as error:
        raise DataError(
            f"{name} must be a whole number or an array of them with one dimension: {error}"
        ) from error
    if ids.ndim != 1 or (len(ids) and ids.dtype.kind not in "iu"):
        raise DataError(
            f"{name} must be a whole number or an array of them with one dimension, got "
            f"{ids.dtype} with {ids.ndim}"
        )
    outside = ids[(ids < 0) | (ids >= (np.iinfo(np.int64).max if n is None else n))]
    if len(outside):
        bounds = "at least 0" if n is None else f"from 0 to {n - 1}"
        raise DataError(f"{name} must be {bounds}, found {outside[0]}")
    return ids.astype(np.int64)


WANTED = "a Catalogue, a mapping for each item or a sparse matrix"


def tags_from(item_features: ItemFeatures, n_items: int) -> Tags:
    """Columns of a catalogue, of a list of mappings, or of a matrix as it is."""
    known = getattr(item_features, "tags", None)  # of a catalogue, which needs cryptography
    if isinstance(known, Tags):
        tags = known
    elif hasattr(item_features, "tocsr"):
        matrix = matrix_from(item_features, "item_features")
        table = sparse.csr_array(matrix.astype(bool).astype(np.float64))
        names = (Tag("column", str(number)) for number in range(matrix.shape[1]))
        tags = Tags(tuple(names), table)
    else:
        tags = tags_of([_traits(row, given) for row, given in enumerate(_items(item_features))])
    if tags.n_items != n_items:
        raise DataError(f"item_features must describe {n_items} items, not {tags.n_items}")
    return tags


def _items(item_features: Any) -> list[Any]:
    if hasattr(item_features, "columns") or isinstance(item_features, Mapping):
        raise DataError(
            f"item_features must be {WANTED}; a {type(item_features).__name__} is not taken. "
            "Make a list of its rows, as [{'genre': ['Horror'], 'year': 1979}, ...]"
        )
    try:
        return list(item_features)
    except TypeError as error:
        raise DataError(
            f"item_features must be {WANTED}; got {type(item_features).__name__}"
        ) from error


def _traits(row: int, given: Any) -> Traits:
    """Of one item, as `tags_of` needs them: labels in a tuple, each once, or a finite number."""
    if not isinstance(given, Mapping):
        raise DataError(f"item_features must be {WANTED}; item {row} is {type(given).__name__}")
    traits: dict[str, tuple[str, ...] | float] = {}
    for kind, value in given.items():
        if isinstance(value, list | tuple) and all(isinstance(label, str) for label in value):
            traits[kind] = tuple(dict.fromkeys(value))
        elif isinstance(value, int | float | np.number) and abs(float(value)) < 2**53:
            traits[kind] = float(value)  # not a NaN
        else:
            raise DataError(
                f"item_features: {kind!r} of item {row} is {value!r}; it must be a list of labels "
                "or a finite number"
            )
    return traits


def times_of(given: Matrix, histories: Histories) -> NDArray[np.int64]:
    """In the order of the histories' entries; one that has no time there is an error."""
    times = matrix_from(given, "times")
    if times.shape != (histories.n_users, histories.n_items):
        raise DataError(
            f"times must have the shape of user_items, {histories.n_users} x {histories.n_items}, "
            f"not {times.shape[0]} x {times.shape[1]}"
        )
    if not histories.n_interactions:
        return np.zeros(0, np.int64)
    at = sparse.csr_array(times, copy=True)
    at.sort_indices()
    users, known = histories.users_of_entries(), at.tocoo()
    places = np.searchsorted(
        known.row.astype(np.int64) * histories.n_items + known.col,
        users.astype(np.int64) * histories.n_items + histories.indices,
    )
    found = np.minimum(places, max(at.nnz - 1, 0))
    if not at.nnz or ((known.row[found] != users) | (known.col[found] != histories.indices)).any():
        raise DataError("times must have an entry wherever user_items has an interaction")
    when = known.data[found]
    if not np.isfinite(when).all():
        raise DataError("times must be finite numbers")
    return np.unique(when, return_inverse=True)[1].astype(np.int64)
