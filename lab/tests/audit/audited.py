"""Clients to audit, honest ones and broken ones, and what an audit finds in them."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import Histories, Mechanism, draw_os_words
from sottovoce.core.coin import WORD_RANGE
from sottovoce.training import Settings
from sottovoce_lab.audit import Check, Client, examine, judge, live_client
from sottovoce_lab.audit.clients import Maker, answer

Words = NDArray[np.uint64]
HONEST_ALPHA = 2e-7
"""Honest clients draw from the operating system, and are judged three times in these tests: all
together they fail with a chance of 6e-7."""
SAMPLES, HONEST_SAMPLES = 30_000, 60_000
"""Few are enough to find a bug; to prove nine tenths of epsilon every time, by five standard
deviations and more, takes more."""
SIGHT = "the audit can see"


def failed(checks: Sequence[Check]) -> set[str]:
    return {check.check for check in checks if not check.passed}


def found_in(make: Maker, settings: Settings, samples: int = SAMPLES) -> set[str]:
    return failed(judge(examine(make, settings, samples))) - {SIGHT}


def drawing(draw: Callable[[Settings, Mechanism, Sequence[int], int], Words]) -> Maker:
    """The shipped client, but with words from `draw(settings, mechanism, history, k)`."""

    def make(settings: Settings, n_items: int) -> Client:
        mechanism = settings.build(n_items)

        def client(V: NDArray[np.float32], history: Sequence[int], k: int) -> NDArray[Any]:
            own = Histories.from_lists([history], n_items)
            return answer(mechanism, settings, V, own, draw(settings, mechanism, history, k))

        return client

    return make


def with_words(change: Callable[[Words, Settings], Words]) -> Maker:
    """The shipped client, but with something done to its random words."""
    return drawing(
        lambda settings, _mechanism, _history, k: change(draw_os_words(1, k).copy(), settings)
    )


def wrapped(wrap: Callable[[Client], Client]) -> Maker:
    """The shipped client with something around it."""
    return lambda settings, n_items: wrap(live_client(settings, n_items))


def from_generator(generator: np.random.Generator) -> Maker:
    return drawing(
        lambda _settings, _mechanism, _history, k: generator.integers(
            0, WORD_RANGE, (1, k + 1, 4), dtype=np.uint64
        )
    )


def seeded_when_made(settings: Settings, n_items: int) -> Client:
    """Every client begins with the same seed."""
    return from_generator(np.random.default_rng(7))(settings, n_items)


seeded_when_imported = from_generator(np.random.default_rng(8))
"""All clients of a process share one generator: only a fork repeats it."""
