"""A crowd of independent clients at a real proxy and a real server.

The sums that the server has at the end are those of the reports that the package's own mechanism
makes from the words which these clients drew.
"""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sottovoce.core import MECHANISMS, Histories, count_reports, solve_user_vectors
from sottovoce.protocol import Manifest
from sottovoce.training import Participation, Settings
from tests.live.conftest import quick_folder
from tests.live.stack import HOLD_SECONDS, PROXY_URL, Stack, run_stack
from tests.outsider.device import Device, State
from tests.outsider.mechanisms import Terms
from tests.outsider.plans import SPREAD
from tests.outsider.web import Web
from tests.people import random_people
from tests.server.world import ITEMS

PEOPLE = random_people(24, ITEMS, seed=3)
MIN_CLIENTS = 8
REPORTS = 5
TURNS = 2
HEADERS = frozenset(
    {
        (b"host", b"proxy.example"),
        (b"user-agent", b"sottovoce"),
        (b"accept", b"*/*"),
        (b"accept-encoding", b"identity"),
    }
)


@pytest.fixture
def folder() -> Iterator[Path]:
    with quick_folder() as path:
        yield path


def start(
    folder: Path, mechanism: str = "loudest", turns: int = TURNS
) -> AbstractContextManager[Stack]:
    training = Settings.preset(
        mechanism, reports=REPORTS, epochs=3, lifetime=turns, factors=2, seed=5
    )
    terms = Participation(min_clients=MIN_CLIENTS, hold=HOLD_SECONDS)
    return run_stack(folder / "stack", training=training, terms=terms)


@dataclass
class Person:
    """A device with a clock of its own, and what it drew."""

    device: Device
    rows: list[int]
    now: float
    drawn: list[bytes] = field(default_factory=list)

    def words(self) -> NDArray[np.uint64]:
        """Return the random words of the last batch, without its coins and its id."""
        size = (REPORTS + 1) * 4
        drawn = b"".join(self.drawn[-1 - size : -1])
        return np.frombuffer(drawn, "<u8").reshape(1, REPORTS + 1, 4).astype(np.uint64)


def join(stack: Stack, user: int, **changes: Any) -> Person:
    """Take part: every second person pauses on the server's clock, the others on their own."""
    rng, rows = np.random.default_rng([7, user]), [int(row) for row in PEOPLE[user]]
    state = State(1e6, asked(stack), stack.world.keys.verification_key)

    def entropy(n: int) -> bytes:
        person.drawn.append(rng.bytes(n))
        return person.drawn[-1]

    def sleep(seconds: float) -> None:
        person.now += seconds

    options: dict[str, Any] = {
        "fetch": web(stack),
        "state": state,
        "spread": SPREAD if user % 2 else 0.0,
        **changes,
    }
    device = Device(
        history=lambda: [f"film-{row}" for row in rows],
        clock=lambda: person.now,
        sleep=sleep,
        entropy=entropy,
        **options,
    )
    person = Person(device, rows, stack.world.now)
    return person


def web(stack: Stack) -> Web:
    return Web(stack.gates["east"].http, PROXY_URL)


def asked(stack: Stack) -> Terms:
    """Return the terms as the owner sees them."""
    terms: Terms = json.loads(stack.world.get_signed().raw)["terms"]
    return terms


def reported(stack: Stack, manifest: Manifest, sent: list[Person]) -> NDArray[np.int64]:
    """Return the sums that the package reports for these people from the same words."""
    mechanism, V = manifest.build(), stack.load_model()
    own = Histories.from_lists([person.rows for person in sent], ITEMS)
    x = solve_user_vectors(V, own, alpha=manifest.alpha, regularization=manifest.regularization)
    words = np.concatenate([person.words() for person in sent])
    reports = mechanism.reports(V, x, own, words)
    return mechanism.to_sums(count_reports(reports, mechanism.n_directions))


def posts(stack: Stack) -> list[bytes]:
    """Batches that the proxy heard."""
    requests = stack.gates["east"].recorder.requests
    return [request.body for request in requests if request.method == "POST"]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_server_sums_equal_the_reports_of_the_crowd(folder: Path, mechanism: str) -> None:
    with start(folder, mechanism) as stack:
        crowd = [join(stack, user) for user in range(PEOPLE.n_users)]
        for epoch in (1, 2):
            for person in crowd:
                person.now = stack.world.now
            outcomes = [person.device.take_part() for person in crowd]
            sent = [one for one, what in zip(crowd, outcomes, strict=True) if what.what == "sent"]
            assert Counter(outcomes) == {
                ("sent", ""): len(sent),
                ("nothing sent", "the coin says no"): len(crowd) - len(sent),
            }
            assert MIN_CLIENTS < len(sent) < len(crowd), "somebody's coin says no"
            assert any(not person.rows for person in sent), "somebody has no history"
            manifest = stack.world.get_signed().manifest
            sums = reported(stack, manifest, sent)
            assert stack.end_epoch() == epoch
            assert np.array_equal(stack.world.get_sums(epoch), sums)
            assert stack.world.get_counts(epoch)[1:] == (len(sent) * REPORTS, 0, 0)
            assert stack.world.get_signed().manifest.model != manifest.model, "V has moved"
        assert {len(batch) for batch in posts(stack)} == {56 + 52 * REPORTS}


def headers(stack: Stack, method: str) -> set[frozenset[tuple[bytes, bytes]]]:
    """Return every set of headers that the proxy received."""
    requests = stack.gates["east"].recorder.requests
    return {frozenset(request.headers) for request in requests if request.method == method}


def test_requests_have_the_headers_of_the_page_only(folder: Path) -> None:
    # Those of the package's client are the same: nobody can tell the two apart.
    with start(folder, turns=3) as stack:
        assert join(stack, 0).device.take_part().what == "sent"
        assert headers(stack, "GET") == {HEADERS}
        size = str(56 + 52 * REPORTS).encode()
        body = {(b"content-type", b"application/octet-stream"), (b"content-length", size)}
        assert headers(stack, "POST") == {HEADERS | body}
        other = stack.add_client("other", ["film-1"])
        assert other.sync(stack.gates["east"].make_api(), jitter=0).outcome == "sent"
        assert len(posts(stack)) == 2
        assert headers(stack, "GET") == {HEADERS}
        assert headers(stack, "POST") == {HEADERS | body}
