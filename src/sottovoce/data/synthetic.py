"""Synthetic people: invented viewers of real films, for demos and tests.

No history is that of a real viewer, or a variation of one. Only the films and sums over many
viewers are taken from the bundled MovieLens data:

1. A *taste* is a genre or a period of release. Its pool is the 40 of 610 viewers with the largest
   share of films of this genre or period in their histories. The lift of a film in a taste is the
   number of views by the pool, divided by the number that is to be expected from the film's
   popularity. `_LIFT_SMOOTHING` is added to both numbers, and the lift is at most `_MAX_LIFT`.
2. A person mixes two or three tastes, drawn uniformly, with Dirichlet(1) weights w, and chooses
   film i in proportion to popularity_i * sum_t w_t lift_ti^3. The cube makes up for the averages
   over a pool, which are less extreme than its members. With the cube, matrix factorisation beats
   popularity about as clearly as on the real ratings.
3. The number of films in a history is log-normal with median 50 and sigma 0.8, at least 20 and at
   most a third of all films. Films are drawn in the proportions of step 2 without replacement (by
   an exponential race).
4. A person watches for two years at random times, beginning on a random day from 1996 to 2016.

Tastes are computed by counts, ratios and products only, so they do not depend on a platform's
linear algebra.
People are drawn in blocks of fixed size, each with its own random stream. So the first 100 people
are the same in a data set of any size.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.data.fetching import find_data_set
from sottovoce.data.interactions import Interactions, Pairs, count_marked, pack
from sottovoce.data.published import read_published
from sottovoce.data.streams import stream
from sottovoce.errors import SettingsError

# Name of the data set, which its parameters follow after a colon.
SYNTHETIC = "synthetic"
# Default numbers of people and films.
_DEFAULT_PEOPLE = 2000
_DEFAULT_FILMS = 1000
# Number of real viewers in the pool of a taste.
_POOL_VIEWERS = 40
# Lift of a film: (count + _LIFT_SMOOTHING) / (expected + _LIFT_SMOOTHING), at most _MAX_LIFT.
_LIFT_SMOOTHING = 0.8
_MAX_LIFT = 6.0
# Films in a history: log-normal with this median and sigma, at least _MIN_HISTORY_FILMS.
_MEDIAN_FILMS = 50.0
_SIGMA_FILMS = 0.8
_MIN_HISTORY_FILMS = 20
# Fewest films in a data set.
_MIN_FILMS = 10
# Years at which the periods of release begin and end. A film without a year counts as year 0.
_ERA_YEARS = (0, 1970, 1985, 1993, 1999, 2006, 2012, 9999)
# Number of people who are drawn from one random stream. Changing this number changes all people.
_PEOPLE_PER_BLOCK = 256
# Unix seconds between which people begin to watch: 1996-01-01 and 2016-01-01.
_FIRST_DAY = 820_454_400
_LAST_DAY = 1_451_606_400
_TWO_YEARS_SECONDS = 2 * 365 * 86_400
# Parameters in the name of the data set, and the arguments of synthetic_people() that they set.
_NAME_PARAMETERS = {"N": "n_users", "M": "n_items", "seed": "seed"}


@dataclass(frozen=True, eq=False)
class _Tastes:
    """The films, and how much each taste favours them."""

    films: Interactions
    """Data set with the films and their descriptions; only its items are used."""
    popularity: NDArray[np.float64]
    """Number of real viewers of each film."""
    favour: NDArray[np.float64]
    """Cubed lift of each film, with a row for each taste."""


def synthetic_people(
    n_users: int = _DEFAULT_PEOPLE, n_items: int = _DEFAULT_FILMS, seed: int = 0
) -> Interactions:
    """Draw invented viewers of the most popular films in the bundled MovieLens data.

    Args:
        n_users: Number of people.
        n_items: Number of films.
        seed: Seed of everything that is drawn.

    >>> people = synthetic_people(n_users=100, n_items=200, seed=1)
    >>> people.histories.n_users, people.histories.n_items
    (100, 200)
    """
    if n_users < 1:
        raise SettingsError(f"there must be at least 1 synthetic person, not {n_users}")
    tastes = _measure_tastes(n_items)
    n_blocks = -(-n_users // _PEOPLE_PER_BLOCK)
    parts = [_draw_block(tastes, seed, number) for number in range(n_blocks)]
    users = np.concatenate([part.users for part in parts])
    items = np.concatenate([part.items for part in parts])
    times = np.concatenate([part.timestamps for part in parts if part.timestamps is not None])
    wanted = users < n_users
    pairs = Pairs(users[wanted], items[wanted], times[wanted])
    histories, timestamps, _ = pack(pairs, n_users, n_items)
    ids = np.arange(n_users)
    return replace(tastes.films, histories=histories, user_ids=ids, timestamps=timestamps)


def generate_people(n_items: int, seed: int, part: int = 0, parts: int = 1) -> Iterator[list[int]]:
    """Yield the histories of synthetic people one after the other, without end.

    Args:
        n_items: Number of films.
        seed: Seed of everything that is drawn.
        part: Number of the first block of people, from 0 to `parts - 1`.
        parts: Number of processes that draw people. Each process draws every `parts`-th block, so
            that different processes draw different people.

    >>> first = synthetic_people(n_users=1, n_items=200, seed=1).histories[0]
    >>> next(generate_people(200, seed=1)) == first.tolist()
    True
    """
    tastes = _measure_tastes(n_items)
    for number in count(part, parts):
        block = _draw_block(tastes, seed, number)
        edges = np.flatnonzero(np.diff(block.users)) + 1
        yield from (sorted(items.tolist()) for items in np.split(block.items, edges))


def parse_synthetic(text: str) -> dict[str, int]:
    """Parse a name such as `synthetic:N=3000,M=1000,seed=0`, whose parameters are all optional.

    >>> parse_synthetic("synthetic:N=300,seed=7")
    {'n_users': 300, 'seed': 7}
    """
    _, _, rest = text.partition(":")
    parts = [part.partition("=") for part in rest.split(",") if part]
    for key, _, value in parts:
        if key not in _NAME_PARAMETERS or not (value.isascii() and value.isdecimal()):
            raise SettingsError(
                "synthetic people must be named like 'synthetic:N=3000,M=1000,seed=0', "
                f"not {text!r}"
            )
    return {_NAME_PARAMETERS[key]: int(value) for key, _, value in parts}


@cache
def _measure_tastes(n_items: int) -> _Tastes:
    """Measure the tastes of the real viewers among the `n_items` most popular films."""
    bundled = find_data_set("ml-latest-small").bundled
    assert bundled is not None
    real = read_published(bundled)
    assert real is not None
    available = real.histories.n_items
    if not _MIN_FILMS <= n_items <= available:
        raise SettingsError(
            f"synthetic people need {_MIN_FILMS} to {available} films, not {n_items}"
        )
    popularity = real.histories.popularity()
    top = np.sort(np.argsort(-popularity, kind="stable")[:n_items])
    counts = _count_pool_views(real)[:, top]
    expected = counts.sum(axis=1, keepdims=True) * (popularity[top] / popularity[top].sum())
    lift = np.minimum((counts + _LIFT_SMOOTHING) / (expected + _LIFT_SMOOTHING), _MAX_LIFT)
    films = replace(real.select(None, top), name=SYNTHETIC, load_counts=None)
    # Products instead of lift**3, so that the result is the same on every platform.
    return _Tastes(films, popularity[top].astype(float), lift * lift * lift)


def _count_pool_views(real: Interactions) -> NDArray[np.float64]:
    """Count, for each taste, how many viewers of its pool saw each film."""
    histories = real.histories
    traits = _mark_traits(real)
    lengths = np.diff(histories.indptr)
    counts = np.zeros((len(traits), histories.n_items))
    for taste, has_trait in enumerate(traits):
        share = count_marked(histories, has_trait[histories.indices]) / lengths
        pool = np.argsort(-share, kind="stable")[:_POOL_VIEWERS]
        counts[taste] = histories.take(pool).popularity()
    return counts


def _mark_traits(real: Interactions) -> NDArray[np.bool_]:
    """Mark the films of each genre and of each period of release, with a row for each taste."""
    assert real.tags is not None
    films: list[dict[str, Any]] = real.tags.tolist()
    genres: list[tuple[str, ...]] = [film.get("genre", ()) for film in films]
    names = sorted({name for film in genres for name in film})
    rows = [[name in film for film in genres] for name in names]
    era = np.searchsorted(_ERA_YEARS, [film.get("year", 0) for film in films], side="right")
    rows += [(era == number).tolist() for number in range(1, len(_ERA_YEARS))]
    return np.array(rows)


def _draw_block(tastes: _Tastes, seed: int, number: int) -> Pairs:
    """Draw the histories of block `number`, which always has `_PEOPLE_PER_BLOCK` people."""
    n, n_items = _PEOPLE_PER_BLOCK, len(tastes.popularity)
    rng = stream(seed, "synth", number)
    own_tastes = np.argsort(rng.random((n, len(tastes.favour))), axis=1)[:, :3]
    # Normalised exponential numbers are Dirichlet(1). Half of the people have only two tastes.
    weights = rng.standard_exponential((n, 3))
    weights[rng.random(n) < 0.5, 2] = 0.0
    weights /= weights.sum(axis=1, keepdims=True)
    lengths = np.floor(_MEDIAN_FILMS * np.exp(_SIGMA_FILMS * rng.standard_normal(n)))
    max_length = n_items // 3
    min_length = min(_MIN_HISTORY_FILMS, max_length)
    lengths = np.clip(lengths, min_length, max_length).astype(np.int64)
    starts = rng.integers(_FIRST_DAY, _LAST_DAY, n)
    films = []
    for person in range(n):
        # This is not a matrix product, whose order of additions depends on the platform.
        first, second, third = tastes.favour[own_tastes[person]]
        w1, w2, w3 = weights[person]
        rates = tastes.popularity * (w1 * first + w2 * second + w3 * third)
        # In an exponential race, the films with the earliest arrivals are drawn.
        arrivals = rng.standard_exponential(n_items) / rates
        films.append(np.argpartition(arrivals, lengths[person])[: lengths[person]])
    times = np.repeat(starts, lengths) + rng.integers(0, _TWO_YEARS_SECONDS, int(lengths.sum()))
    people = np.arange(n, dtype=np.int32) + np.int32(number * n)
    return Pairs(np.repeat(people, lengths), np.concatenate(films).astype(np.int32), times)
