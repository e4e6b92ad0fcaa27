"""Synthetic people: invented viewers over real films, for demos and tests.

Nobody in here exists, and no history is a real viewer's or a variation of one. What is real are
the films and sums over many viewers of the bundled MovieLens data:

1. A *taste* is a genre or a time of release. Its pool is the 40 of 610 viewers who lean to it
   most. The lift of a film in a taste is how often the pool saw it over how often it would have
   by the film's popularity alone, both plus `_SMOOTHING`, and at most `_MOST_LIFT`.
2. A person mixes two or three tastes, drawn uniformly, with Dirichlet(1) weights w, and wants
   film i in proportion to popularity_i * sum_t w_t lift_ti^3. The cube makes up for the pools,
   which blur their members: with it, matrix factorisation beats popularity about as clearly as
   on the real ratings.
3. The number of films is log-normal with median 50 and sigma 0.8, at least 20 and at most a third
   of the films. They are drawn without replacement by those proportions (an exponential race).
4. A person watches for two years, beginning on a random day from 1996 to 2016, at random times.

Tastes come from counts, ratios and products alone, so no platform's linear algebra can change
them. People are drawn in fixed blocks, each with its own stream: the first 100 are the same
people however many are asked for.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.data.fetching import entry
from sottovoce.data.interactions import Interactions, Pairs, pack, row_sums
from sottovoce.data.published import read_published
from sottovoce.data.streams import stream
from sottovoce.errors import SettingsError

SYNTHETIC = "synthetic"
_PEOPLE, _FILMS = 2000, 1000
"""Unless others are asked for."""
_POOL = 40
_SMOOTHING = 0.8
_MOST_LIFT = 6.0
_MEDIAN_FILMS = 50.0
_SIGMA_FILMS = 0.8
_FEWEST_FILMS = 20
_LEAST_ITEMS = 10
_ERAS = (0, 1970, 1985, 1993, 1999, 2006, 2012, 9999)
_BLOCK = 256
_FIRST_DAY, _LAST_DAY = 820_454_400, 1_451_606_400  # 1996-01-01 and 2016-01-01
_TWO_YEARS = 2 * 365 * 86_400
_PARAMETERS = {"N": "n_users", "M": "n_items", "seed": "seed"}


@dataclass(frozen=True, eq=False)
class _Tastes:
    """What the films are and how tastes favour them."""

    films: Interactions
    popularity: NDArray[np.float64]
    """Of each film."""
    favour: NDArray[np.float64]
    """The cubed lift, a row for each taste."""


def synthetic_people(n_users: int = _PEOPLE, n_items: int = _FILMS, seed: int = 0) -> Interactions:
    """Invented viewers of the most popular films of the bundled MovieLens data.

    Args:
        n_users: How many people.
        n_items: How many films.
        seed: Of everything that is drawn.

    >>> people = synthetic_people(n_users=100, n_items=200, seed=1)
    >>> people.histories.n_users, people.histories.n_items
    (100, 200)
    """
    if n_users < 1:
        raise SettingsError(f"there must be at least 1 synthetic person, found {n_users}")
    tastes = _tastes(n_items)
    parts = [_watched(tastes, seed, number) for number in range(-(-n_users // _BLOCK))]
    users = np.concatenate([part.users for part in parts])
    items = np.concatenate([part.items for part in parts])
    times = np.concatenate([part.timestamps for part in parts if part.timestamps is not None])
    asked = users < n_users
    histories, moments, _ = pack(Pairs(users[asked], items[asked], times[asked]), n_users, n_items)
    ids = np.arange(n_users)
    return replace(tastes.films, histories=histories, user_ids=ids, timestamps=moments)


def endless_people(n_items: int, seed: int, part: int = 0, parts: int = 1) -> Iterator[list[int]]:
    """What each of them touched, one after the other, without end: every `parts`-th block of them.

    >>> first = synthetic_people(n_users=1, n_items=200, seed=1).histories[0]
    >>> next(endless_people(200, seed=1)) == first.tolist()
    True
    """
    tastes = _tastes(n_items)
    for number in count(part, parts):
        block = _watched(tastes, seed, number)
        edges = np.flatnonzero(np.diff(block.users)) + 1
        yield from (sorted(items.tolist()) for items in np.split(block.items, edges))


def parse_synthetic(text: str) -> dict[str, int]:
    """The parameters in a name such as `synthetic:N=3000,M=1000,seed=0`; each may be left out.

    >>> parse_synthetic("synthetic:N=300,seed=7")
    {'n_users': 300, 'seed': 7}
    """
    _, _, rest = text.partition(":")
    parts = [part.partition("=") for part in rest.split(",") if part]
    for key, _, value in parts:
        if key not in _PARAMETERS or not (value.isascii() and value.isdecimal()):
            raise SettingsError(
                f"synthetic people must be asked for as 'synthetic:N=3000,M=1000,seed=0', "
                f"found {text!r}"
            )
    return {_PARAMETERS[key]: int(value) for key, _, value in parts}


@cache
def _tastes(n_items: int) -> _Tastes:
    bundled = entry("ml-latest-small").bundled
    assert bundled is not None
    real = read_published(bundled)
    assert real is not None
    available = real.histories.n_items
    if not _LEAST_ITEMS <= n_items <= available:
        raise SettingsError(
            f"synthetic people need {_LEAST_ITEMS}..{available} films, found {n_items}"
        )
    popularity = real.histories.popularity()
    top = np.sort(np.argsort(-popularity, kind="stable")[:n_items])
    counts = _pool_counts(real)[:, top]
    expected = counts.sum(axis=1, keepdims=True) * (popularity[top] / popularity[top].sum())
    lift = np.minimum((counts + _SMOOTHING) / (expected + _SMOOTHING), _MOST_LIFT)
    films = replace(real.select(None, top), name=SYNTHETIC, loaded=None)
    return _Tastes(films, popularity[top].astype(float), lift * lift * lift)


def _pool_counts(real: Interactions) -> NDArray[np.float64]:
    """For each taste, how many of its pool saw each film."""
    histories = real.histories
    traits = _traits(real)
    lengths = np.diff(histories.indptr)
    counts = np.zeros((len(traits), histories.n_items))
    for taste, has_trait in enumerate(traits):
        share = row_sums(histories, has_trait[histories.indices]) / lengths
        pool = np.argsort(-share, kind="stable")[:_POOL]
        counts[taste] = histories.take(pool).popularity()
    return counts


def _traits(real: Interactions) -> NDArray[np.bool_]:
    """A row for each genre and each era: which films belong to it."""
    assert real.tags is not None
    films: list[dict[str, Any]] = real.tags.tolist()
    genres: list[tuple[str, ...]] = [film.get("genre", ()) for film in films]
    names = sorted({name for film in genres for name in film})
    rows = [[name in film for film in genres] for name in names]
    era = np.searchsorted(_ERAS, [film.get("year", 0) for film in films], side="right")
    rows += [(era == number).tolist() for number in range(1, len(_ERAS))]
    return np.array(rows)


def _watched(tastes: _Tastes, seed: int, number: int) -> Pairs:
    """A whole block of people, even if fewer are needed: so their number changes nothing."""
    rng, n_items = stream(seed, "synth", number), len(tastes.popularity)
    own = np.argsort(rng.random((_BLOCK, len(tastes.favour))), axis=1)[:, :3]
    weights = rng.standard_exponential((_BLOCK, 3))  # normalised: Dirichlet(1)
    weights[rng.random(_BLOCK) < 0.5, 2] = 0.0
    weights /= weights.sum(axis=1, keepdims=True)
    films = np.floor(_MEDIAN_FILMS * np.exp(_SIGMA_FILMS * rng.standard_normal(_BLOCK)))
    most = n_items // 3
    films = np.clip(films, min(_FEWEST_FILMS, most), most).astype(np.int64)
    start = rng.integers(_FIRST_DAY, _LAST_DAY, _BLOCK)
    chosen = []
    for person in range(_BLOCK):
        first, second, third = tastes.favour[own[person]]
        one, two, three = weights[person]
        wanted = tastes.popularity * (one * first + two * second + three * third)
        race = rng.standard_exponential(n_items) / wanted
        chosen.append(np.argpartition(race, films[person])[: films[person]])
    moments = np.repeat(start, films) + rng.integers(0, _TWO_YEARS, int(films.sum()))
    people = np.arange(_BLOCK, dtype=np.int32) + np.int32(number * _BLOCK)
    return Pairs(np.repeat(people, films), np.concatenate(chosen).astype(np.int32), moments)
