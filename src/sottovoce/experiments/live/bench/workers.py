"""Processes that do the same work at the same time, timed from the first start to the last end."""

from __future__ import annotations

import time
from multiprocessing import get_context
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from sottovoce.protocol import SEALED
from sottovoce.protocol.sealing import INFO, SUITE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from multiprocessing.connection import Connection
    from typing import Self

    Job = Callable[..., Callable[[], None]]
    """Makes ready, untimed, and gives what is to be timed."""

PEERS = 256
"""Public keys that exchanges go through, round and round."""


class Workers:
    """Processes that are kept from one job to the next. Use it in a `with`."""

    def __init__(self, processes: int):
        context = get_context("spawn")
        self._pipes: list[Connection] = []
        self._processes = []
        for _ in range(processes):
            ours, theirs = context.Pipe()
            process = context.Process(target=_work, args=(theirs,), daemon=True)
            process.start()
            self._pipes.append(ours)
            self._processes.append(process)

    def time(self, job: Job, arguments: Sequence[tuple[object, ...]]) -> float:
        """Seconds until the last has done the job; each has its own arguments."""
        for pipe, given in zip(self._pipes, arguments, strict=True):
            pipe.send((job, given))
        for pipe in self._pipes:
            pipe.recv()
        began = time.perf_counter()
        for pipe in self._pipes:
            pipe.send(None)
        for pipe in self._pipes:
            pipe.recv()
        return time.perf_counter() - began

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.join()


def _work(pipe: Connection) -> None:
    while True:
        try:
            job, arguments = pipe.recv()
            run = job(*arguments)
            pipe.send("ready")
            pipe.recv()
            run()
            pipe.send("done")
        except (EOFError, KeyboardInterrupt):
            return


def exchange(number: int) -> Callable[[], None]:
    """X25519 with keys that are ready: what a core can do at most."""
    private = X25519PrivateKey.generate()
    peers = [X25519PrivateKey.generate().public_key() for _ in range(PEERS)]

    def run() -> None:
        for at in range(number):
            private.exchange(peers[at % PEERS])

    return run


def exchange_from_bytes(number: int) -> Callable[[], None]:
    """X25519 with keys as they come over a network."""
    private = X25519PrivateKey.generate()
    peers = [X25519PrivateKey.generate().public_key().public_bytes_raw() for _ in range(PEERS)]

    def run() -> None:
        for at in range(number):
            private.exchange(X25519PublicKey.from_public_bytes(peers[at % PEERS]))

    return run


def decrypt(sealed: bytes, private_key: bytes, manifest_hash: bytes) -> Callable[[], None]:
    """HPKE alone: every report opened, nothing counted."""
    private, info = X25519PrivateKey.from_private_bytes(private_key), INFO + manifest_hash
    reports = [sealed[at : at + SEALED] for at in range(0, len(sealed), SEALED)]

    def run() -> None:
        for report in reports:
            SUITE.decrypt(report, private, info=info)

    return run
