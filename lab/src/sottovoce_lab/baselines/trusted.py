"""DP-ALS (Chien et al. 2021) for implicit feedback: what a *trusted* aggregator could do.

One party holds everybody's history. It alternates as ALS does: with V fixed it solves everybody's
vector, which nobody sees; with vectors fixed it needs of people only three sums, and publishes them
with normal noise. Whatever follows from these is V, which is all that leaves:

    B = sum q_u x_u^T     M x F, who likes what
    K = sum x_u x_u^T     F x F, everybody, hence the weight of what was not touched
    A_i = sum q_ui x_u x_u^T     for each item; only where touched items shall weigh more

x_u is brought to length 1 and to at most 45 degrees from the direction of a typical person, which
is known from earlier releases. q_u is the history with a weight for each item, brought to length 1:
rare items weigh more, by a power of a count of them (Krichene et al. 2023, in place of the sampling
of 2021). So no cap on histories is needed and everybody is equally loud. The count costs a release
of its own before the first step: `sum n_u^-1/2 p_u`.

Privacy. In each sum a person's part has length at most 1 (Frobenius). Adding or removing somebody
moves it by at most 1, so *replacing* a history, which is what epsilon means in this project, by at
most 2. Here it is sqrt 2: the products of two persons' parts, (p.p'), (q.q')(x.x'), (x.x')^2 and
(q.q')(x.x')^2, are not negative, and then |a - b|^2 <= |a|^2 + |b|^2. The directions and weights on
which parts depend are the same for both, since they come from earlier releases. All releases
compose exactly as Gaussian ones (`privacy.gaussian`): the squares of mu add up.

The sums of earlier steps are kept with a fading weight: a person's vector changes little from step
to step, and an average has less noise. That is free, as everything is that is made of releases.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import Histories, compute_gram
from sottovoce.data.streams import stream
from sottovoce.errors import DataError, SettingsError
from sottovoce.privacy import DEFAULT_DELTA, max_gaussian_mu
from sottovoce.privacy.gaussian import gaussian_epsilon
from sottovoce.settings import check, setting
from sottovoce_lab.baselines.models import (
    Factorization,
    build_normal_equations,
    build_outer_table,
    split_into_blocks,
)

if TYPE_CHECKING:
    from scipy import sparse


REPLACED, ADDED = sqrt(2), 1.0
"""How far a history moves each sum when it is replaced, and when somebody is added or removed."""
COUNT_SHARE, GRAM_SHARE, OUTER_SHARE = 0.02, 0.02, 0.2
"""Of mu^2: the count, of all of it; the others, of what a step has."""
FACTORS_PER_ROOT, MOST_FACTORS = 1.25, 32
"""How many factors: see `_factors`."""


@dataclass(frozen=True)
class TrustedSettings:
    """One training by a trusted party; `choose` gives those that are reported."""

    epsilon: float = setting(
        1.0, "central budget of the whole training when a history is replaced", above=0
    )
    delta: float = setting(DEFAULT_DELTA, "chance beyond epsilon", above=0)
    factors: int = setting(8, "numbers for each item (F)", min_value=1)
    steps: int = setting(12, "alternating steps, each with noise of its own", min_value=1)
    alpha: float = setting(
        1.0, "a person's own items weigh 1 + alpha for their vector", min_value=0
    )
    regularization: float = setting(
        0.01, "ridge on user vectors, where the mean squared singular value of V is 1", above=0
    )
    rare_power: float = setting(
        0.3, "an item weighs its count to the minus this power in a history", min_value=0
    )
    item_ridge: float = setting(
        12.0, "ridge on items, where the mean eigenvalue of K is 1", above=0
    )
    memory: float = setting(0.9, "weight of a sum one step later", min_value=0, max_value=1)
    observed: float = setting(
        0.0, "a touched item weighs 1 + observed for V; 0: the sums A are not released", min_value=0
    )

    def __post_init__(self) -> None:
        check(self)
        self.noise  # noqa: B018 - refuses what no noise can keep

    @classmethod
    def choose(
        cls, epsilon: float, *, people: int, items: int, delta: float = DEFAULT_DELTA
    ) -> TrustedSettings:
        """The settings that are reported: a function of public numbers alone.

        Chosen on random splits of seeds 1000 and 1001, which are not reported, mostly at epsilon 1
        on the Netflix subset, one by one around 12 factors and an item ridge of 4. HR@10 changes
        from its 0.809 by about 0.002 at most with 8 or 20 steps, memory 0.95, a ridge on vectors of
        0.001, items weighing by the power 0.2 or 0.4, alpha 0 on devices. It loses 0.003 (epsilon
        2.12) to 0.008 with an item ridge of 1,
        0.004 with a ridge on vectors of 0.1, 0.007 with the power 0.5, 0.01 with none, 0.002 to
        0.004 without the cone, and 0.004 where A is released too (`observed` 1). An item ridge of
        12 in place of 4 gains 0.003 at epsilon 0.32. Splits from seed to seed differ by 0.001.
        """
        factors = _factors(max_gaussian_mu(epsilon, delta), people, items)
        return cls(epsilon=epsilon, delta=delta, factors=factors)

    @property
    def noise(self) -> Noise:
        mu = max_gaussian_mu(self.epsilon, self.delta)
        return Noise.within(mu, self.steps, outer=self.observed > 0)

    @property
    def add_remove_epsilon(self) -> float:
        """The same releases in the sense of the paper: somebody is added or removed."""
        return gaussian_epsilon(self.noise.mu(ADDED), self.delta)


def _factors(mu: float, people: int, items: int) -> int:
    """From how far everybody's products stand above noise, whose size is near sqrt(items) / mu."""
    wanted = round(FACTORS_PER_ROOT * sqrt(people * mu / sqrt(items)))
    return max(1, min(wanted, MOST_FACTORS, items))


@dataclass(frozen=True)
class Noise:
    """Standard deviations of the releases: one count, then `steps` times the three sums."""

    steps: int
    count: float
    products: float
    gram: float
    outer: float | None

    @classmethod
    def within(cls, mu: float, steps: int, *, outer: bool) -> Noise:
        """As little as keeps all releases together within mu."""
        step = mu * sqrt((1 - COUNT_SHARE) / steps)
        outer_share = OUTER_SHARE if outer else 0.0
        return cls(
            steps,
            count=REPLACED / (mu * sqrt(COUNT_SHARE)),
            products=REPLACED / (step * sqrt(1 - GRAM_SHARE - outer_share)),
            gram=REPLACED / (step * sqrt(GRAM_SHARE)),
            outer=REPLACED / (step * sqrt(outer_share)) if outer else None,
        )

    def mu(self, moved: float = REPLACED) -> float:
        """Of all releases together, where one person moves each sum so far."""
        step = [self.products, self.gram] + ([] if self.outer is None else [self.outer])
        squares = sum((moved / deviation) ** 2 for deviation in step)
        return sqrt((moved / self.count) ** 2 + self.steps * squares)


Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
ON_AXIS = 1e-9
FIRST_SPREAD = 0.2
"""Of the first V: how far factors after the first stray from popularity."""


@dataclass(frozen=True, eq=False)
class Sums:
    """What a step needs of people."""

    products: Float64
    """B."""
    gram: Float64
    """K."""
    outer: Float64 | None
    """A, for each item the lower triangle row by row."""

    def released(self, noise: Noise, rng: np.random.Generator) -> Sums:
        """With noise of these deviations, spherical in the Frobenius norm of each sum."""
        factors = len(self.gram)
        rows, columns = np.tril_indices(factors)
        triangle = symmetric_noise(rng, 1, factors)[0] * noise.gram
        K = self.gram.copy()
        K[rows, columns] += triangle
        K[columns, rows] = K[rows, columns]
        outer = self.outer
        if outer is not None and noise.outer is not None:
            outer = outer + noise.outer * symmetric_noise(rng, len(outer), factors)
        products = self.products + noise.products * rng.standard_normal(self.products.shape)
        return Sums(products, K, outer)

    def faded(self, memory: float, now: Sums) -> Sums:
        outer = None
        if self.outer is not None and now.outer is not None:
            outer = memory * self.outer + now.outer
        return Sums(memory * self.products + now.products, memory * self.gram + now.gram, outer)


def symmetric_noise(rng: np.random.Generator, n: int, factors: int) -> Float64:
    """Lower triangles of symmetric matrices with a spherical law.

    An entry off the diagonal is there twice, so its variance is a half.
    """
    rows, columns = np.tril_indices(factors)
    return rng.standard_normal((n, len(rows))) * np.where(rows == columns, 1.0, sqrt(0.5))


@dataclass(frozen=True, eq=False)
class Aggregator:
    """The party that holds all histories. What it adds up may leave it with noise alone."""

    crowd: list[sparse.csr_matrix]
    """Zeros and ones, some thousands of people in each."""
    settings: TrustedSettings
    pool: ThreadPoolExecutor

    def count(self) -> Float64:
        """`sum n_u^-1/2 p_u`, every history at length 1."""
        ones = np.ones(self.crowd[0].shape[1])
        parts = self.pool.map(lambda people: people.T @ _inverse_lengths(people, ones), self.crowd)
        return np.asarray(np.sum(list(parts), axis=0))

    def solver(self, V: Float32) -> Solver:
        """With the weights that V's own least squares have."""
        return Solver(V, self.settings.observed, self.settings.regularization)

    def sums(self, V: Float32, weights: Float64, axis: Float64) -> Sums:
        """Everybody's parts, each at length 1, with these weights of items."""
        solve, factors = self.solver(V), V.shape[1]
        pairs = factors * (factors + 1) // 2 if self.settings.observed else 0

        def part(people: sparse.csr_matrix) -> tuple[Float64, Float64]:
            X = in_cone(solve(people), axis)
            both = build_outer_table(X)[:, -factors - pairs :]  # x x^T if it is asked for, and x
            scaled = both * _inverse_lengths(people, weights)[:, None]
            return weights[:, None] * (people.T @ scaled), X.T @ X

        found = list(self.pool.map(part, self.crowd))
        by_item, K = (np.sum(parts, axis=0) for parts in zip(*found, strict=True))
        return Sums(by_item[:, pairs:], K, by_item[:, :pairs] if pairs else None)


class Solver:
    """Everybody's vector for one V: its ridge regression, a touched item weighing 1 + alpha."""

    def __init__(self, V: Float32, alpha: float, regularization: float):
        self._alpha = alpha
        self._V = V.astype(np.float64)
        self._G = compute_gram(V) + regularization * np.eye(V.shape[1])
        self._table = build_outer_table(V) if alpha else self._V

    def __call__(self, people: sparse.csr_matrix) -> Any:
        sums = people @ self._table
        if not self._alpha:  # the same system for everybody
            return np.linalg.solve(self._G, sums.T).T
        system, right = build_normal_equations(sums, self._G, len(self._G), self._alpha)
        return np.linalg.solve(system, right[:, :, None])[:, :, 0]

    def typical(self, popularity: Float64) -> Float64:
        """Where somebody points who likes what everybody likes: known from releases alone."""
        return np.asarray(np.linalg.solve(self._G, popularity @ self._V))


def in_cone(X: Any, axis: Float64) -> Any:
    """Unit vectors at most 45 degrees from the axis, so that no two have a product below 0."""
    if not axis.any():  # no direction, no cone: nobody says anything
        return np.zeros_like(X)
    axis = _unit(axis[None])
    X = _unit(X)
    along = X @ axis.T
    across = X - along * axis
    # Of somebody on the axis only rounding is left, which points anywhere; twice, to be orthogonal.
    across[np.abs(across).max(axis=1) < ON_AXIS] = 0
    across = _unit(across)
    across = _unit(across - (across @ axis.T) * axis)
    outside = (along < sqrt(0.5)) & (np.abs(X).max(axis=1, keepdims=True) > 0)
    return np.where(outside, sqrt(0.5) * (axis + across), X)


def _unit(X: Any) -> Any:
    length = np.sqrt((X * X).sum(axis=1, keepdims=True))
    return np.divide(X, length, out=np.zeros_like(X), where=length > 0)


def _inverse_lengths(people: sparse.csr_matrix, weights: Float64) -> Float64:
    """Of everybody's weighted history; 0 where there is none."""
    length = np.sqrt(people @ (weights * weights))
    return np.asarray(np.divide(1.0, length, out=np.zeros_like(length), where=length > 0))


class DPALS(Factorization):
    """V as a trusted party would publish it, and everybody's vector for it, solved on a device."""

    @classmethod
    def fit(
        cls, train: Histories, settings: TrustedSettings, *, seed: int, threads: int | None = None
    ) -> DPALS:
        """All noise is drawn by the seed."""
        if threads is not None and threads < 1:
            raise SettingsError(f"threads must be at least 1, got {threads}")
        if not (train.n_users and train.n_items):
            raise DataError("training needs at least one person and one item")
        crowd = [some.to_csr().astype(np.float64) for some in split_into_blocks(train)]
        with ThreadPoolExecutor(threads or os.cpu_count()) as pool:
            V = published_items(Aggregator(crowd, settings, pool), stream(seed, "dpals"))
            on_device = Solver(V, settings.alpha, settings.regularization)
            X = np.concatenate([*pool.map(on_device, crowd)]).astype(np.float32)
        return cls(X, V)


def published_items(holder: Aggregator, rng: np.random.Generator) -> Float32:
    """V after all steps; histories are seen through sums with noise alone."""
    settings, noise = holder.settings, holder.settings.noise
    count = holder.count()
    count = np.maximum(count + noise.count * rng.standard_normal(len(count)), noise.count)
    weights = (count / count.mean()) ** -settings.rare_power
    popular = count * weights
    V = _first_items(popular, settings.factors, rng)
    known: Sums | None = None
    for _ in range(settings.steps):
        axis = holder.solver(V).typical(popular)
        now = holder.sums(V, weights, axis).released(noise, rng)
        known = now if known is None else known.faded(settings.memory, now)
        V = best_items(known, settings)
    return V


def best_items(sums: Sums, settings: TrustedSettings) -> Float32:
    """The least squares of a step, from the sums alone: `(K + a A_i + ridge) v_i = B_i`."""
    factors = len(sums.gram)
    values, basis = np.linalg.eigh(sums.gram)
    ridge = settings.item_ridge * max(float(np.trace(sums.gram)), 1.0) / factors
    values = np.maximum(values, 0) + ridge  # noise can take a sum of squares below 0
    if sums.outer is None:
        return _scaled((sums.products @ basis / values) @ basis.T)
    nothing = np.zeros((factors, factors))
    touched, _ = build_normal_equations(
        np.hstack([sums.outer, sums.products]), nothing, factors, 1.0
    )
    least, turned = np.linalg.eigh(touched)
    touched = (turned * np.maximum(least, 0)[:, None, :]) @ turned.transpose(0, 2, 1)
    system = settings.observed * touched + (basis * values) @ basis.T
    return _scaled(np.linalg.solve(system, sums.products[:, :, None])[:, :, 0])


def _first_items(popularity: Float64, factors: int, rng: np.random.Generator) -> Float32:
    """Popularity, and factors that stray from it at random."""
    spread = FIRST_SPREAD * rng.standard_normal((len(popularity), factors))
    spread[:, 0] = 1
    return _scaled(popularity[:, None] * spread)


def _scaled(V: Float64) -> Float32:
    """With singular values of mean square 1: what a ridge on user vectors is measured against."""
    length = float(np.sqrt((V * V).sum()))
    return np.asarray(V * (sqrt(V.shape[1]) / length), np.float32)
