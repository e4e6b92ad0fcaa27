"""The crowd is real: attacks on it through real parts, each of which must come to nothing.

A victim reports alone. Whoever wants to read their reports must make the epoch go on with nobody
else's among them: by noise that is taken for people, by a server that ends the epoch at the right
moment, by one address that plays everybody.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from sottovoce.errors import RefusedError
from sottovoce.protocol import SEALED, Batch, Chunk, Manifest
from sottovoce.protocol.batch import ENOUGH
from sottovoce.proxy import HttpUpstream, Rate
from sottovoce.training import Settings
from tests.live.killable import charged_epochs
from tests.live.stack import SERVER_URL, Gate, Stack, running
from tests.server.world import SECRETS

if TYPE_CHECKING:
    from sottovoce.client import Client

LEAST, REPORTS = 100, 20
TRAINING = Settings.preset("loudest", reports=REPORTS, epochs=3, lifetime=6, factors=2)
HISTORY = ["film-1", "film-7"]


def noise(gate: Gate) -> Batch:
    """What anybody can send: it opens with no key."""
    signed = gate.signed()
    return Batch(signed.manifest.epoch, signed.hash, os.urandom(16), os.urandom(SEALED * REPORTS))


def fill(gate: Gate, number: int, made: Callable[[int], Batch]) -> None:
    assert [gate.post(made(seed).encode()) for seed in range(number)] == [202] * number


def victim(stack: Stack, gate: Gate, name: str = "victim") -> Client:
    client = stack.client(name, HISTORY)
    assert client.sync(gate.api(), jitter=0).outcome == "sent"
    return client


def chunks(stack: Stack) -> list[Chunk]:
    """All that the server was handed."""
    return [Chunk.decode(request.body) for request in stack.ear.heard if request.method == "PUT"]


def is_unchanged(stack: Stack, first: Manifest) -> bool:
    """Whether all that the public sees is as if nobody had reported."""
    now = stack.world.signed().manifest
    return (now.model, now.reports_behind) == (first.model, first.reports_behind)


def test_noise_makes_no_crowd(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The proxy cannot tell, and mixes; the server can, and learns nothing from so few."""
    with running(folder, training=TRAINING, least_clients=LEAST) as stack:
        gate, first = stack.gates["east"], stack.world.signed().manifest
        fill(gate, LEAST - 1, lambda _: noise(gate))
        victim(stack, gate)
        stack.turn()
        assert sum(chunk.reports for chunk in chunks(stack)) == LEAST * REPORTS
        assert is_unchanged(stack, first)
        applied, following = stack.world.server.epochs()
        assert (applied.reports, applied.crowdless, applied.undecodable) == (
            0, REPORTS, (LEAST - 1) * REPORTS
        )  # fmt: skip
        assert following.epochs_done == 0
        assert not stack.world.sums(1).any(), "no database has it either"
        assert "20 reports from proxy east are too few for a crowd" in caplog.text
        assert b"sottovoce_server_applied_crowdless 20.0" in stack.world.server.measured()


@pytest.mark.parametrize("missing", [0, 1, REPORTS - 1])
def test_one_valid_report_less_than_a_crowd_has_is_no_crowd(folder: Path, missing: int) -> None:
    """Rounded up, a person of whom one report is valid would count as a whole one."""
    with running(folder, training=TRAINING, least_clients=3) as stack:
        gate, first = stack.gates["east"], stack.world.signed().manifest
        fill(gate, 2, lambda seed: stack.random_batch(gate, seed))
        last = stack.random_batch(gate, 2)
        valid = last.sealed[: SEALED * (REPORTS - missing)]
        fill(gate, 1, lambda _: replace(last, sealed=valid + os.urandom(SEALED * missing)))
        stack.turn()
        assert is_unchanged(stack, first) is bool(missing)
        applied, reports = stack.world.server.epochs()[0], 3 * REPORTS - missing
        counted = (reports, 0) if not missing else (0, reports)
        assert (applied.reports, applied.crowdless) == counted


def turned(one: Batch, turn: int) -> Batch:
    """The same reports under another id, in an order that the proxy does not know."""
    sealed = one.sealed[SEALED * turn :] + one.sealed[: SEALED * turn]
    return Batch(one.epoch, one.manifest_hash, os.urandom(16), sealed)


def test_a_report_that_is_sent_often_makes_no_crowd(folder: Path) -> None:
    """Under other ids, in other orders: distinct reports are what counts."""
    with running(folder, training=TRAINING, least_clients=3) as stack:
        gate, first = stack.gates["east"], stack.world.signed().manifest
        one = stack.random_batch(gate, 1)
        fill(gate, 2, lambda turn: turned(one, turn))
        victim(stack, gate)
        stack.turn()
        assert is_unchanged(stack, first)
        assert stack.world.server.epochs()[0].crowdless == 2 * REPORTS


def test_a_proxy_without_a_crowd_adds_nothing_to_one_that_has(folder: Path) -> None:
    """Each mixes by itself, so each needs its own."""
    with running(folder, "east", "west", training=TRAINING, least_clients=3) as stack:
        east, west = stack.gates["east"], stack.gates["west"]
        fill(east, 3, lambda seed: stack.random_batch(east, seed))
        fill(west, 2, lambda _: noise(west))
        victim(stack, west)
        stack.turn()
        assert stack.world.signed().manifest.reports_behind == 3 * REPORTS
        applied = stack.world.server.epochs()[0]
        assert (applied.reports, applied.crowdless) == (3 * REPORTS, REPORTS)


def early_states(stack: Stack) -> None:
    """The server says that the epoch is over, to whoever asks."""
    stack.ear.lie = lambda heard: b'{"state":"closed"}' if "waiting" in heard.path else None


def early_database(stack: Stack) -> None:
    """It really closes it, in its own books, and takes chunks."""
    with stack.world.store.write() as transaction:
        transaction.close(1, stack.world.now)


def early_manifest(stack: Stack) -> None:
    """It publishes the next epoch."""
    with stack.world.store.write() as transaction:
        latest = transaction.latest(lock=True)
        assert latest is not None
        transaction.close(1, stack.world.now)
        stack.world.server._publisher.apply(transaction, latest, stack.world.now)


@pytest.mark.parametrize("lie", [early_states, early_database, early_manifest])
@pytest.mark.parametrize("people", [1, LEAST])
def test_a_server_that_ends_an_epoch_early_gets_nothing(
    folder: Path, lie: Callable[[Stack], None], people: int
) -> None:
    """Not one person alone, nor a crowd that the server may have filled up itself."""
    with running(folder, training=TRAINING, least_clients=LEAST) as stack:
        gate = stack.gates["east"]
        victim(stack, gate)
        fill(gate, people - 1, lambda seed: stack.random_batch(gate, seed))
        stack.world.now = gate.signed().manifest.closes - 1
        lie(stack)
        for _ in range(3):
            gate.beat()
        assert chunks(stack) == []
        assert not [path for path in stack.ear.paths("POST") if "commit" in path]


def test_an_early_end_costs_nobody_more_than_what_was_sent(folder: Path) -> None:
    """Who has reported keeps that one charge; who comes afterwards pays nothing for it."""
    with running(folder, training=TRAINING, least_clients=LEAST) as stack:
        gate, folders = stack.gates["east"], folder / "clients"
        early = victim(stack, gate, "early")
        waiting = stack.client("waiting", HISTORY)
        drawn: list[float] = []

        def sleep(seconds: float) -> None:
            """The moment was drawn; the server goes on before it comes."""
            if not drawn:
                early_manifest(stack)
                gate.beat()
            drawn.append(seconds)
            stack.world.now += seconds

        assert waiting.sync(gate.api(), sleep=sleep).outcome == "missed"
        assert drawn
        assert charged_epochs(folders / "waiting") == []
        assert charged_epochs(folders / "early") == [1]
        told = gate.proxy.metrics.text()
        assert b'sottovoce_proxy_flushes_total{outcome="given_up"} 1.0' in told
        assert f"sottovoce_proxy_reports_lost_total {REPORTS}.0".encode() in told
        assert gate.proxy.intake.waiting == 0
        assert early.sync(gate.api(), jitter=0).outcome == "sent", "in the next epoch"
        assert charged_epochs(folders / "early") == [1, 2]
        assert chunks(stack) == []


def test_a_crowd_that_takes_its_time_is_counted_whole(folder: Path) -> None:
    """An epoch waits, and then everybody's reports are in the model: those of the first, too."""
    with running(folder, training=TRAINING, least_clients=LEAST) as stack:
        gate, first = stack.gates["east"], stack.world.signed().manifest
        early = victim(stack, gate)
        for wait in (0, 300, 600):
            stack.world.now = first.closes + wait
            stack.hand_in()
            assert stack.world.signed().manifest.epoch == 1
            assert early.sync(gate.api(), jitter=0).outcome == "already sent"
        assert chunks(stack) == []
        late = stack.client("late", HISTORY)
        assert late.sync(gate.api(), jitter=0).outcome == "sent"
        fill(gate, LEAST - 2, lambda seed: stack.random_batch(gate, seed))
        stack.hand_in()
        now = stack.world.signed().manifest
        assert (now.epoch, now.reports_behind) == (2, LEAST * REPORTS)
        assert now.model != first.model
        assert early.sync(gate.api(), jitter=0).outcome == "sent"


def test_a_crowd_that_never_comes_is_let_go(folder: Path) -> None:
    """After the time that the terms name; the device says so, and has paid for one epoch."""
    with running(folder, training=TRAINING, least_clients=LEAST) as stack:
        gate, first = stack.gates["east"], stack.world.signed().manifest
        client = victim(stack, gate)
        stack.turn(crowd=False)
        assert chunks(stack) == []
        assert is_unchanged(stack, first)
        assert client.sync(gate.api(), jitter=0).outcome == "sent"
        assert charged_epochs(folder / "clients" / "victim") == [1, 2]


def test_one_address_is_no_crowd(folder: Path) -> None:
    """With the defaults: an attacker needs as many addresses as people, over `per_epoch`."""
    rate = Rate()
    with running(folder, training=TRAINING, least_clients=LEAST, rate=rate) as stack:
        gate = stack.gates["east"]
        answers = [gate.post(noise(gate).encode()) for _ in range(2 * LEAST)]
        assert answers.count(202) == rate.burst
        assert set(answers[rate.burst :]) == {429}
        for _ in range(LEAST):  # all the time in the world, within one epoch
            stack.tick_limits(60.0)
            answers.append(gate.post(noise(gate).encode()))
        assert answers.count(202) == rate.per_epoch < LEAST
        stack.world.now = gate.signed().manifest.closes
        stack.hand_in()
        assert chunks(stack) == []
        assert stack.world.signed().manifest.epoch == 1


def flood(stack: Stack, gate: Gate, direction: int) -> None:
    report = np.full(REPORTS, direction << 1 | 1, np.uint32)
    fill(gate, LEAST, lambda _: stack.batch(gate, report, os.urandom(16)))


def test_a_flood_on_one_direction_is_cut(folder: Path) -> None:
    """A hundred attackers among two hundred honest people who all say the same one thing."""
    with running(folder, training=TRAINING, least_clients=LEAST) as stack:
        gate = stack.gates["east"]
        fill(gate, 2 * LEAST, lambda seed: stack.random_batch(gate, seed))
        flood(stack, gate, direction=5)
        stack.turn()
        applied = stack.world.server.epochs()[0]
        assert applied.reports + applied.capped == 3 * LEAST * REPORTS
        assert 0.75 * LEAST * REPORTS < applied.capped < LEAST * REPORTS
        assert stack.world.signed().manifest.reports_behind == applied.reports
        honest = 2 * LEAST * REPORTS / len(stack.world.sums(1))
        assert 0 < stack.world.sums(1)[5] < 0.3 * LEAST * REPORTS + honest
        told = f"sottovoce_server_applied_capped {applied.capped}.0".encode()
        assert told in stack.world.server.measured()


def test_the_server_cannot_be_told_of_a_crowd_by_a_stranger(folder: Path) -> None:
    """`waiting` needs a proxy's secret; what is said decides when an epoch closes."""
    with running(folder, training=TRAINING, least_clients=LEAST) as stack:
        stack.world.now = stack.world.signed().manifest.closes
        stranger = HttpUpstream(stack.http, SERVER_URL, SECRETS["west"])
        with pytest.raises(RefusedError, match="401"):
            stranger.waiting(1, ENOUGH)
        stack.beat()
        assert stack.world.state(1) == "open"
