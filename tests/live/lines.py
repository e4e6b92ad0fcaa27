"""Lines between the parts that lose, repeat and break; the errors are those of real HTTP."""

from __future__ import annotations

from contextlib import contextmanager
from random import Random
from typing import TYPE_CHECKING, TypeVar

from sottovoce.errors import (
    ClosedError,
    ProtocolError,
    RefusedError,
    StoreError,
    UnavailableError,
    WrongEpochError,
)
from tests.live.mortal import MortalProxy, MortalServer, PowerCut

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sottovoce.protocol import Chunk
    from tests.live.mortal import Part
    from tests.live.oracle import Oracle

T = TypeVar("T")


class Line:
    """Every call may get lost on its way, or its answer, or it may come twice."""

    def __init__(self, rng: Random, faults: float):
        self._rng = rng
        self.faults = faults

    def carry(self, part: Part, call: Callable[[], T]) -> T:
        fate = self._rng.choice("?!2") if self._rng.random() < self.faults else ""
        if fate == "?":
            raise UnavailableError("the request was lost")
        with as_seen_from_afar(part):
            answer = call()
            if fate == "2":
                answer = call()
        if fate == "!":
            raise UnavailableError("the answer was lost")
        return answer


@contextmanager
def as_seen_from_afar(part: Part) -> Iterator[None]:
    """A part that dies while it is asked is started again; the one who asked sees a broken line."""
    try:
        yield
    except PowerCut as cut:
        if cut.part is not part:
            raise
        part.revive()
        raise UnavailableError("the line broke") from None
    except StoreError as error:
        raise UnavailableError(str(error)) from error
    except ProtocolError as error:
        raise RefusedError(str(error)) from error


class ToServer:
    """`Upstream` for one proxy; remembers what was handed in, to hand it in again."""

    def __init__(self, name: str, server: MortalServer, line: Line):
        self._name = name
        self._server = server
        self._line = line
        self.said: list[Callable[[], object]] = []

    def manifest(self) -> bytes:
        return self._ask(lambda: self._server.server.signed_manifest().encode())

    def model(self, sha256: bytes, most: int) -> bytes:
        return self._ask(lambda: _found(self._server.server.model(sha256)))

    def catalogue(self, sha256: bytes) -> bytes:
        return self._ask(lambda: _found(self._server.server.catalogue(sha256)))

    def waiting(self, epoch: int, batches: int) -> str:
        return self._ask(lambda: self._server.server.waiting(self._name, epoch, batches))

    def put_chunk(self, chunk: Chunk) -> None:
        self._say(
            lambda: self._server.server.take_chunk(
                self._name, chunk.epoch, chunk.name, chunk.encode()
            )
        )

    def commit(self, epoch: int, manifest_hash: bytes, chunks: int, reports: int) -> None:
        self._say(
            lambda: self._server.server.commit(self._name, epoch, manifest_hash, chunks, reports)
        )

    def _say(self, call: Callable[[], object]) -> None:
        self.said.append(call)
        self._ask(call)

    def _ask(self, call: Callable[[], T]) -> T:
        return self._line.carry(self._server, call)


class ToProxy:
    """`ProxyApi` of one proxy; tells the oracle what happens to batches."""

    def __init__(self, proxy: MortalProxy, line: Line, oracle: Oracle):
        self._part = proxy
        self._line = line
        self._oracle = oracle

    def manifest(self) -> bytes:
        return self._ask(self._manifest)

    def model(self, sha256: bytes, most: int) -> bytes:
        return self._ask(lambda: _found(self._part.proxy.model(sha256)))

    def catalogue(self, sha256: bytes) -> bytes:
        return self._ask(lambda: _found(self._part.proxy.catalogue(sha256)))

    def send(self, batch: bytes) -> None:
        try:
            self._ask(lambda: self._accept(batch))
        except WrongEpochError as error:
            raise ClosedError(str(error)) from error

    def _accept(self, batch: bytes) -> None:
        self._oracle.tried(self._part.name, batch)
        self._part.proxy.accept(batch)
        self._oracle.thanked(self._part.name, batch)

    def _manifest(self) -> bytes:
        signed = self._part.proxy.manifest()
        if signed is None:
            raise UnavailableError("no manifest has come from the server yet")
        return signed.encode()

    def _ask(self, call: Callable[[], T]) -> T:
        return self._line.carry(self._part, call)


def _found(content: bytes | None) -> bytes:
    if content is None:
        raise RefusedError("there is no such file")
    return content
