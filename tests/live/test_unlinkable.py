"""What an attacker at the server gets, and what liars can do, through the whole stack."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest

from sottovoce.errors import RefusedError, UntrustedError
from sottovoce.protocol import (
    Batch,
    Chunk,
    SignedManifest,
    new_epoch_key,
    open_reports,
    public_key_of,
)
from sottovoce.proxy import HttpUpstream
from sottovoce.training import Settings
from tests.live.stack import SERVER_URL, Stack, running
from tests.proxy.test_traces import written_forms_of, written_forms_of_time
from tests.proxy.world import reports_of
from tests.server.world import SECRETS

PEOPLE, REPORTS, CHUNK = 60, 20, 100
SOURCE, AGENT = ("203.0.113.77", 45_678), "Whisper/9.77 (odd agent)"
ARRIVAL = 1_733_333_333.625
TRAINING = Settings.preset("loudest", reports=REPORTS, epochs=3, factors=2)


def chunks_heard(stack: Stack) -> list[Chunk]:
    """All that the server was handed, in order."""
    return [Chunk.decode(request.body) for request in stack.ear.heard if request.method == "PUT"]


def counted(stack: Stack, epoch: int = 1) -> int:
    return stack.world.counts(epoch)[1]


# Pairing


def owners(stack: Stack, batches: list[Batch]) -> list[list[int]]:
    """Whose each report is, chunk by chunk: what the attacker at the server would like to know."""
    whose = {report: n for n, batch in enumerate(batches) for report in reports_of(batch.sealed)}
    return [[whose[report] for report in reports_of(c.sealed)] for c in chunks_heard(stack)]


def next_to_each_other(chunks: list[list[int]]) -> int:
    return sum(a == b for chunk in chunks for a, b in pairwise(chunk))


def in_the_same_chunk(chunks: list[list[int]]) -> int:
    return sum(a == b for chunk in chunks for a, b in combinations(chunk, 2))


def at_the_distance_of_a_batch(chunks: list[list[int]]) -> int:
    """As if only whole batches had been laid one on the other."""
    order = [who for chunk in chunks for who in chunk]
    return sum(a == b for a, b in zip(order, order[PEOPLE:], strict=False))


def close_together(chunks: list[list[int]]) -> int:
    """Minus the distances between all reports of each person, added up: large if they huddle."""
    order = np.array([who for chunk in chunks for who in chunk])
    places = (np.flatnonzero(order == who) for who in range(PEOPLE))
    return -sum(int(np.abs(p[:, None] - p[None, :]).sum()) for p in places)


ATTACKS = (next_to_each_other, in_the_same_chunk, at_the_distance_of_a_batch, close_together)


def suspicion(attack: Callable[[list[list[int]]], int], chunks: list[list[int]]) -> float:
    """How many standard deviations the attack does better than on a uniformly random order."""
    rng = np.random.default_rng(0)
    order = np.concatenate([np.array(chunk) for chunk in chunks])
    edges = np.cumsum([len(chunk) for chunk in chunks])[:-1]
    chance = [
        attack([part.tolist() for part in np.split(rng.permutation(order), edges)])
        for _ in range(200)
    ]
    return float((attack(chunks) - np.mean(chance)) / np.std(chance))


def flushed(folder: Path) -> list[list[int]]:
    """One epoch of everybody, to its end; the attacker opens everything with the epoch's key."""
    with running(folder, training=TRAINING, chunk_reports=CHUNK, seed=3) as stack:
        gate = stack.gates["east"]
        batches = [stack.random_batch(gate, seed) for seed in range(PEOPLE)]
        assert [gate.post(batch.encode()) for batch in batches] == [202] * PEOPLE
        signed, n_directions = gate.signed(), stack.world.n_directions()
        with stack.world.store.read() as transaction:
            wrapped = transaction.wrapped_key(1)
        assert wrapped is not None
        key = stack.world.keys.unwrap(1, wrapped)
        stack.turn()
        opened = [
            open_reports(chunk.sealed, key, signed.hash, n_directions)
            for chunk in chunks_heard(stack)
        ]
        assert sum(len(chunk.reports) for chunk in opened) == PEOPLE * REPORTS
        return owners(stack, batches)


def test_reports_of_one_person_cannot_be_paired(folder: Path) -> None:
    """Each count is nearly normal or Poisson; beyond 6 deviations comes less than once in 1e6.

    The proxy's entropy is fixed here, so the test cannot fail by chance at all.
    """
    chunks = flushed(folder)
    assert [len(chunk) for chunk in chunks] == [CHUNK] * (PEOPLE * REPORTS // CHUNK)
    for attack in ATTACKS:
        assert abs(suspicion(attack, chunks)) < 6, attack.__name__


@pytest.mark.parametrize("spoilt", ["not shuffled", "each chunk shuffled", "batches shuffled"])
def test_the_attacks_would_tell(folder: Path, spoilt: str) -> None:
    """On orders that a lazy proxy would leave, at least one of them is certain."""
    rng = np.random.default_rng(1)
    order = np.repeat(np.arange(PEOPLE), REPORTS)
    if spoilt == "each chunk shuffled":
        order = np.concatenate([rng.permutation(part) for part in np.split(order, 12)])
    if spoilt == "batches shuffled":
        order = np.repeat(rng.permutation(PEOPLE), REPORTS)
    chunks = [part.tolist() for part in np.split(order, PEOPLE * REPORTS // CHUNK)]
    assert max(suspicion(attack, chunks) for attack in ATTACKS) > 20


# Traces


def test_nothing_of_a_client_reaches_the_server(folder: Path) -> None:
    """No address, agent, batch id, time of arrival or sequence, in any request, header or path."""
    with running(folder, training=TRAINING, source=SOURCE) as stack:
        gate = stack.gates["east"]
        stack.world.now = ARRIVAL
        stack.turn(crowd=False)
        stack.world.now = arrival = stack.world.now + 7.625
        batches = [stack.random_batch(gate, seed) for seed in range(10)]
        headers = {"User-Agent": AGENT, "X-Forwarded-For": "198.51.100.23", "Cookie": "me=77"}
        assert [gate.post(batch.encode(), headers) for batch in batches] == [202] * 10
        client = stack.client("somebody", ["film-1"])
        assert client.sync(gate.api(), jitter=0).outcome == "sent"
        sent = [Batch.decode(r.body, REPORTS) for r in gate.ear.heard if r.method == "POST"]
        epoch = stack.turn()
        assert counted(stack, epoch) == 11 * REPORTS
        heard = b"\n".join(request.everything() for request in stack.ear.heard)
    secrets = [*written_forms_of(SOURCE[0]), *written_forms_of("198.51.100.23")]
    secrets += [str(SOURCE[1]).encode(), AGENT.encode(), b"me=77", b"film-1", b"somebody"]
    secrets += written_forms_of_time(arrival)
    for batch in sent:
        secrets += [batch.id, batch.id.hex().encode(), hashlib.sha256(batch.encode()).digest()]
        secrets += [hashlib.sha256(batch.encode()).hexdigest().encode(), batch.sealed]
    assert len(sent) == 11
    assert sent[0].sealed[:52] in heard, "the reports themselves do come"
    for secret in secrets:
        assert secret not in heard, secret
    told = {name for request in stack.ear.heard for name, _ in request.headers}
    usual = {b"host", b"accept", b"accept-encoding", b"connection", b"user-agent"}
    assert told <= usual | {b"authorization", b"content-length"}


# Tagging. Every other lie: `tests/protocol/test_published.py` and `tests/client/test_liars.py`.


def second_manifest(stack: Stack) -> bytes:
    """Truly signed, for this one client: the server lies, and the proxy with it."""
    manifest = replace(stack.world.signed().manifest, public_key=public_key_of(new_epoch_key()))
    return SignedManifest.make(manifest, stack.world.keys.signer).encode()


def test_a_manifest_for_one_client(folder: Path) -> None:
    """Whoever has seen the true one refuses, and nothing of theirs leaves."""
    with running(folder, training=TRAINING) as stack:
        gate = stack.gates["east"]
        client = stack.client("marked", ["film-1"])
        client.pause()
        assert client.sync(gate.api(), jitter=0).outcome == "paused"
        client.pause(on=False)
        tagged = second_manifest(stack)
        gate.ear.lie = lambda heard: tagged if heard.path == "/v2/manifest" else None
        with pytest.raises(UntrustedError, match="two different manifests"):
            client.sync(gate.api(), jitter=0)
        assert not gate.ear.paths("POST")
        gate.ear.lie = lambda _: None
        assert client.sync(gate.api(), jitter=0).outcome == "sent", "the truth is still welcome"
        stack.turn()
        assert counted(stack) == REPORTS


def test_a_server_with_two_manifests_for_one_epoch(folder: Path) -> None:
    """The proxy keeps the first; another proxy's crowd under the second never counts here."""
    with running(folder, "east", "west", training=TRAINING) as stack:
        east, west = stack.gates["east"], stack.gates["west"]
        first = east.signed()
        second = second_manifest(stack)
        stack.ear.lie = lambda heard: second if heard.path == "/v2/manifest" else None
        east.beat()
        assert east.signed().hash == first.hash
        told = east.proxy.metrics.text()
        assert b"sottovoce_proxy_manifests_untrusted_total 1.0" in told
        forged = SignedManifest.open(second, stack.world.keys.verification_key)
        assert forged.manifest.public_key is not None
        batch = stack.random_batch(west, 1)
        alien = replace(batch, manifest_hash=forged.hash)
        assert west.post(alien.encode()) == 409
        chunk = Chunk(1, forged.hash, batch.sealed)
        stack.ear.lie = lambda _: None
        stack.world.now = first.manifest.ends
        stack.beat()
        upstream = HttpUpstream(stack.http, SERVER_URL, SECRETS["west"])
        with pytest.raises(RefusedError, match="409"):
            upstream.put_chunk(chunk)
        assert counted(stack) == 0


# Replay. More: `tests/server/test_server.py` and the lists of operations.


@pytest.mark.parametrize("seed", [None, 4])
def test_the_same_batch_through_two_proxies(folder: Path, seed: int | None) -> None:
    """Also when both draw the same order, and their chunks are the same bytes."""
    with running(folder, "east", "west", training=TRAINING, seed=seed) as stack:
        batch = stack.random_batch(stack.gates["east"], 1)
        assert [gate.post(batch.encode()) for gate in stack.gates.values()] == [202, 202]
        stack.turn()
        assert counted(stack) == REPORTS
        assert np.abs(stack.world.sums(1)).sum() <= REPORTS
