"""Restored backups: nothing is lost after one of the server, nothing counts twice after a proxy's.

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
from tests.live.stack import Stack, run_stack

BATCH_REPORTS = 5
TRAINING = Settings.preset("loudest", reports=BATCH_REPORTS, epochs=9, factors=2, half_life=9.0)
HISTORY_BY_NAME = {"ann": ["film-1", "film-7"], "ben": ["film-2"]}


def restore_folder(backup: Path, folder: Path) -> None:
    """Put the copy of a proxy's folder in the place of the folder."""
    shutil.rmtree(folder)
    shutil.copytree(backup, folder)


def restore_database(backup: Path, database: Path) -> None:
    """Restore a database as docs/operators.md says, without the log of the lost one."""
    for name in (database.name, f"{database.name}-wal", f"{database.name}-shm"):
        (database.parent / name).unlink(missing_ok=True)
    backup.rename(database)


def sync(stack: Stack) -> dict[str, str]:
    """Sync everybody's devices from the disk, and return their outcomes."""
    outcomes: dict[str, str] = {}
    for name, items in HISTORY_BY_NAME.items():
        folder = stack.folder / "clients" / name
        if not folder.exists():
            stack.add_client(name, items).close()
        with Client.open(folder, clock=stack.read_clock) as client:
            outcomes[name] = client.sync(stack.gates["east"].make_api(), jitter=0).outcome
    return outcomes


def get_report_numbers(stack: Stack) -> dict[int, int]:
    return {e.epoch: e.reports for e in stack.world.server.list_epochs() if e.closed_at is not None}


ALL_SENT = dict.fromkeys(HISTORY_BY_NAME, "sent")
ALL_REPORTS = len(HISTORY_BY_NAME) * BATCH_REPORTS


def test_backup_of_the_current_epoch_loses_reports_without_its_key(tmp_path: Path) -> None:
    # Nobody waits after a restore within the epoch, and with the key kept nothing is lost.
    for with_key, expected in ((True, ALL_REPORTS), (False, 0)):
        folder = tmp_path / str(with_key)
        with run_stack(folder, "east", training=TRAINING, min_clients=2) as stack:
            back_up(stack.world.settings.database, folder / "b", with_key=with_key)
            assert sync(stack) == ALL_SENT
            closes = stack.world.get_signed().manifest.closes
        restore_database(folder / "b", folder / "server.sqlite")
        with run_stack(folder, "east", training=TRAINING, min_clients=2) as stack:
            stack.world.now = closes
            hand_in_as_far_as_possible(stack)
            stack.world.now += stack.world.settings.grace_seconds
            hand_in_as_far_as_possible(stack)
            assert get_report_numbers(stack) == {1: expected}
            assert stack.gates["east"].get_signed().manifest.epoch == 2


def hand_in_as_far_as_possible(stack: Stack) -> None:
    """Tick again after a tick that fails, as `Heartbeat` does."""
    for _ in range(3):
        stack.tick()
        for gate in stack.gates.values():
            with suppress(UnavailableError):
                gate.tick()


def draw_reports(stack: Stack, seed: int) -> NDArray[np.uint32]:
    directions = stack.world.n_directions
    drawn = np.random.default_rng(seed).integers(0, 2 * directions, BATCH_REPORTS)
    return drawn.astype(np.uint32)


def send(stack: Stack, name: str, seeds: range) -> NDArray[np.int64]:
    """Let this many people report at this proxy; return the sums of their reports."""
    gate = stack.gates[name]
    reports = [draw_reports(stack, seed) for seed in seeds]
    for seed, own_reports in zip(seeds, reports, strict=True):
        assert (
            gate.post(stack.make_batch(gate, own_reports, seed.to_bytes(16, "big")).encode()) == 202
        )
    counts = np.bincount(np.concatenate(reports), minlength=2 * stack.world.n_directions)
    return sum_counts(counts.astype(np.int64))


def copy_folder(stack: Stack, name: str, to: Path) -> Path:
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
def test_restored_folder_of_a_proxy_counts_nothing_twice(tmp_path: Path, mixed: bool) -> None:
    """Restore copies from before and after mixing, into a closed and into an applied epoch."""
    changes = {"training": TRAINING, "min_clients": 2, "chunk_reports": 4}
    with run_stack(tmp_path, "east", "west", **changes) as stack:
        expected = send(stack, "east", range(3)) + send(stack, "west", range(3, 6))
        first = copy_folder(stack, "east", tmp_path / "first")
        second = copy_folder(stack, "east", tmp_path / "second")
        stack.world.now = closes = stack.world.get_signed().manifest.closes
        for gate in stack.gates.values():
            # Both have their crowd, and have mixed nothing yet.
            gate.proxy._contact_server()
        stack.tick()
        east = stack.gates["east"]
        if mixed:
            east.proxy._contact_server()
            shutil.rmtree(first)
            shutil.rmtree(second)
            copy_folder(stack, "east", first)
            copy_folder(stack, "east", second)
        east.tick()  # it hands in all of it; west has not, so the epoch stays closed
        assert stack.world.get_state(1) == "closed"
    restore_folder(first, tmp_path / "east")
    with run_stack(tmp_path, "east", "west", **changes) as stack:
        stack.world.now = closes
        before = stack.world.get_counts(1)
        if mixed:  # the same chunks, all of which are known
            stack.gates["east"].tick()
        else:  # mixed again into other chunks, after it reported that all was handed in
            with pytest.raises(RefusedError, match="409"):
                stack.gates["east"].tick()
        assert stack.world.get_counts(1) == before
        stack.gates["west"].tick()
        stack.tick()
        assert stack.world.get_sums(1).tolist() == expected.tolist()
    restore_folder(second, tmp_path / "east")
    with run_stack(tmp_path, "east", "west", **changes) as stack:
        stack.world.now = closes
        stack.hand_in()
        assert stack.world.get_sums(1).tolist() == expected.tolist()
        assert stack.gates["east"].get_signed().manifest.epoch == 2
        more = send(stack, "east", range(6, 9))
        stack.end_epoch()
        assert stack.world.get_sums(2).tolist() == more.tolist()


def test_folder_restored_during_delivery_loses_nothing(
    tmp_path: Path,
) -> None:
    # There are dummies: the server must know that all of them have come.
    training = TRAINING.copy_with(dummies=6)
    changes = {"training": training, "min_clients": 2, "chunk_reports": 4}
    people = range(3)
    with run_stack(tmp_path, "east", **changes) as stack:
        send(stack, "east", people)
        backup = copy_folder(stack, "east", tmp_path / "backup")
        stack.world.now = closes = stack.world.get_signed().manifest.closes
        stack.gates["east"].tick()
        stack.tick()
        upstream: Any = stack.gates["east"].proxy._upstream
        put_chunk, n_left = upstream.put_chunk, iter(range(2))

        def put_two_chunks(chunk: Chunk) -> None:
            if next(n_left, None) is None:
                raise UnavailableError("the line is cut")
            put_chunk(chunk)

        upstream.put_chunk = put_two_chunks
        with suppress(UnavailableError):
            stack.gates["east"].tick()
        assert stack.world.get_counts(1)[0] == 2
    restore_folder(backup, tmp_path / "east")
    with run_stack(tmp_path, "east", **changes) as stack:
        stack.world.now = closes
        stack.hand_in()
        (epoch, *_) = stack.world.server.list_epochs()
        assert epoch.crowdless == 0
        n_people = len(people) * BATCH_REPORTS
        # Those behind the model: all but the dummies that the terms ask for.
        assert n_people <= epoch.reports <= n_people + 6
