"""Restored backups: after the server's all go on; after a proxy's nothing counts twice.

A restored process is a new one over old files, as an operator would have it.
"""

import shutil
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sottovoce.client import Client
from sottovoce.core import sum_counts
from sottovoce.errors import RefusedError, UnavailableError
from sottovoce.protocol import Chunk
from sottovoce.server.store import back_up
from sottovoce.training import Settings
from tests.live.stack import Stack, running

REPORTS = 5
TRAINING = Settings.preset("loudest", reports=REPORTS, epochs=9, factors=2, half_life=9.0)
HISTORIES = {"ann": ["film-1", "film-7"], "ben": ["film-2"]}


def restore_folder(backup: Path, folder: Path) -> None:
    """Put the copy of a proxy's folder in the place of the folder."""
    shutil.rmtree(folder)
    shutil.copytree(backup, folder)


def restore(backup: Path, database: Path) -> None:
    """Restore as docs/operators.md says: the lost database's log does not belong to the copy."""
    for name in (database.name, f"{database.name}-wal", f"{database.name}-shm"):
        (database.parent / name).unlink(missing_ok=True)
    backup.rename(database)


def sync(stack: Stack) -> dict[str, str]:
    """Everybody's devices, as they are on disk; what became of each."""
    outcomes: dict[str, str] = {}
    for name, items in HISTORIES.items():
        folder = stack.folder / "clients" / name
        if not folder.exists():
            stack.client(name, items).close()
        with Client.open(folder, clock=stack.clock) as client:
            outcomes[name] = client.sync(stack.gates["east"].api(), jitter=0).outcome
    return outcomes


def counted(stack: Stack) -> dict[int, int]:
    return {e.epoch: e.reports for e in stack.world.server.list_epochs() if e.closed_at is not None}


ALL_SENT = dict.fromkeys(HISTORIES, "sent")
ALL_REPORTS = len(HISTORIES) * REPORTS


def test_a_backup_of_this_epoch_loses_what_only_its_key_could_open(tmp_path: Path) -> None:
    """Restore within the epoch: nobody waits, and with the key kept nothing is lost at all."""
    for with_key, expected in ((True, ALL_REPORTS), (False, 0)):
        folder = tmp_path / str(with_key)
        with running(folder, "east", training=TRAINING, least_clients=2) as stack:
            back_up(stack.world.settings.database, folder / "b", with_key=with_key)
            assert sync(stack) == ALL_SENT
            closes = stack.world.get_signed().manifest.closes
        restore(folder / "b", folder / "server.sqlite")
        with running(folder, "east", training=TRAINING, least_clients=2) as stack:
            stack.world.now = closes
            hand_in_as_far_as_possible(stack)
            stack.world.now += stack.world.settings.grace_seconds
            hand_in_as_far_as_possible(stack)
            assert counted(stack) == {1: expected}
            assert stack.gates["east"].signed().manifest.epoch == 2


def hand_in_as_far_as_possible(stack: Stack) -> None:
    """Tick again after a tick that fails, as `Heartbeat` does."""
    for _ in range(3):
        stack.beat()
        for gate in stack.gates.values():
            with suppress(UnavailableError):
                gate.beat()


def reports_of(stack: Stack, seed: int) -> NDArray[np.uint32]:
    directions = stack.world.n_directions
    drawn = np.random.default_rng(seed).integers(0, 2 * directions, REPORTS)
    return drawn.astype(np.uint32)


def send(stack: Stack, name: str, seeds: range) -> NDArray[np.int64]:
    """Let this many people report at this proxy; return the sums of their reports."""
    gate = stack.gates[name]
    reports = [reports_of(stack, seed) for seed in seeds]
    for seed, own_reports in zip(seeds, reports, strict=True):
        assert gate.post(stack.batch(gate, own_reports, seed.to_bytes(16, "big")).encode()) == 202
    counts = np.bincount(np.concatenate(reports), minlength=2 * stack.world.n_directions)
    return sum_counts(counts.astype(np.int64))


def copied(stack: Stack, name: str, to: Path) -> Path:
    """Copy a running proxy's folder, which nobody should do."""
    to.mkdir()
    for path in (stack.folder / name).iterdir():
        if path.suffix == ".sqlite3":
            with (
                closing(sqlite3.connect(path)) as ours,
                closing(sqlite3.connect(to / path.name)) as copy,
            ):
                ours.backup(copy)
        elif path.suffix == ".bin":
            shutil.copy(path, to)
    return to


@pytest.mark.parametrize("mixed", [False, True])
def test_a_proxys_folder_put_back_counts_nothing_twice(tmp_path: Path, mixed: bool) -> None:
    """Restore copies from before and after mixing, into a closed and into an applied epoch."""
    changes = {"training": TRAINING, "least_clients": 2, "chunk_reports": 4}
    with running(tmp_path, "east", "west", **changes) as stack:
        expected = send(stack, "east", range(3)) + send(stack, "west", range(3, 6))
        first = copied(stack, "east", tmp_path / "first")
        second = copied(stack, "east", tmp_path / "second")
        stack.world.now = closes = stack.world.get_signed().manifest.closes
        for gate in stack.gates.values():
            gate.proxy._contact_server()  # both have their crowd, and have mixed nothing yet
        stack.beat()
        east = stack.gates["east"]
        if mixed:
            east.proxy._contact_server()
            shutil.rmtree(first)
            shutil.rmtree(second)
            copied(stack, "east", first)
            copied(stack, "east", second)
        east.beat()  # it hands in all of it; west has not, so the epoch stays closed
        assert stack.world.get_state(1) == "closed"
    restore_folder(first, tmp_path / "east")
    with running(tmp_path, "east", "west", **changes) as stack:
        stack.world.now = closes
        before = stack.world.get_counts(1)
        if mixed:  # the same chunks, all of which are known
            stack.gates["east"].beat()
        else:  # mixed again into other chunks, after it reported that all was handed in
            with pytest.raises(RefusedError, match="409"):
                stack.gates["east"].beat()
        assert stack.world.get_counts(1) == before
        stack.gates["west"].beat()
        stack.beat()
        assert stack.world.get_sums(1).tolist() == expected.tolist()
    restore_folder(second, tmp_path / "east")
    with running(tmp_path, "east", "west", **changes) as stack:
        stack.world.now = closes
        stack.hand_in()
        assert stack.world.get_sums(1).tolist() == expected.tolist()
        assert stack.gates["east"].signed().manifest.epoch == 2
        more = send(stack, "east", range(6, 9))
        stack.turn()
        assert stack.world.get_sums(2).tolist() == more.tolist()


def test_a_proxys_folder_put_back_in_the_middle_of_the_hand_in_loses_nothing(
    tmp_path: Path,
) -> None:
    """Use dummies: the server must know that all of them have come."""
    training = TRAINING.copy_with(dummies=6)
    changes = {"training": training, "least_clients": 2, "chunk_reports": 4}
    people = range(3)
    with running(tmp_path, "east", **changes) as stack:
        send(stack, "east", people)
        backup = copied(stack, "east", tmp_path / "backup")
        stack.world.now = closes = stack.world.get_signed().manifest.closes
        stack.gates["east"].beat()
        stack.beat()
        upstream: Any = stack.gates["east"].proxy._upstream
        put_chunk, n_left = upstream.put_chunk, iter(range(2))

        def put_two_chunks(chunk: Chunk) -> None:
            if next(n_left, None) is None:
                raise UnavailableError("the line is cut")
            put_chunk(chunk)

        upstream.put_chunk = put_two_chunks
        with suppress(UnavailableError):
            stack.gates["east"].beat()
        assert stack.world.get_counts(1)[0] == 2
    restore_folder(backup, tmp_path / "east")
    with running(tmp_path, "east", **changes) as stack:
        stack.world.now = closes
        stack.hand_in()
        (epoch, *_) = stack.world.server.list_epochs()
        assert epoch.crowdless == 0
        n_people = len(people) * REPORTS
        # Those behind the model: all but the dummies that the terms ask for.
        assert n_people <= epoch.reports <= n_people + 6
