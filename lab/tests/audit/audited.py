"""Clients to audit, honest ones and broken ones, and the checks that they fail."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import Histories, Mechanism, draw_os_words
from sottovoce.core.coin import WORD_RANGE
from sottovoce.training import Settings
from sottovoce_lab.audit import AuditPlan, Check, Client, examine, judge, make_live_client
from sottovoce_lab.audit.clients import ClientFactory, make_reports

Words = NDArray[np.uint64]
# Honest clients draw from the operating system, and these tests judge them three times: all
# together they fail with a probability of 6e-7.
HONEST_ALPHA = 2e-7
# Enough to find a bug.
BUG_SAMPLES = 30_000
# Enough to prove nine tenths of epsilon every time, by five standard deviations and more.
HONEST_SAMPLES = 60_000
EVIDENCE_CHECK = "enough evidence"


def make_audited_settings(mechanism: str) -> Settings:
    """Return the preset with the epsilon of an audit: a larger one needs more reports to prove."""
    return Settings.preset(mechanism, epsilon=AuditPlan.epsilon)


def list_failed(checks: Sequence[Check]) -> set[str]:
    return {check.check for check in checks if not check.passed}


def list_failed_checks(
    make: ClientFactory, settings: Settings, samples: int = BUG_SAMPLES
) -> set[str]:
    """Return the checks that these clients fail."""
    return list_failed(judge(examine(make, settings, samples))) - {EVIDENCE_CHECK}


def make_with_source(
    draw: Callable[[Settings, Mechanism, Sequence[int], int], Words],
) -> ClientFactory:
    """Return the shipped client with words from `draw(settings, mechanism, history, k)`."""

    def make(settings: Settings, n_items: int) -> Client:
        mechanism = settings.build(n_items)

        def client(V: NDArray[np.float32], history: Sequence[int], k: int) -> NDArray[Any]:
            own = Histories.from_lists([history], n_items)
            return make_reports(mechanism, settings, V, own, draw(settings, mechanism, history, k))

        return client

    return make


def make_with_words(change: Callable[[Words, Settings], Words]) -> ClientFactory:
    """Return the shipped client with a change of its random words."""
    return make_with_source(
        lambda settings, _mechanism, _history, k: change(draw_os_words(1, k).copy(), settings)
    )


def make_wrapped(wrap: Callable[[Client], Client]) -> ClientFactory:
    """Return the shipped client with a wrapper around it."""
    return lambda settings, n_items: wrap(make_live_client(settings, n_items))


def make_from_generator(generator: np.random.Generator) -> ClientFactory:
    return make_with_source(
        lambda _settings, _mechanism, _history, k: generator.integers(
            0, WORD_RANGE, (1, k + 1, 4), dtype=np.uint64
        )
    )


def make_seeded(settings: Settings, n_items: int) -> Client:
    """Return a client that begins with the same seed as every other one."""
    return make_from_generator(np.random.default_rng(7))(settings, n_items)


# All clients of a process share one generator: only a fork repeats it.
make_with_shared_generator = make_from_generator(np.random.default_rng(8))
