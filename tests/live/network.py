"""A network that loses, repeats and breaks off calls; the errors are those of real HTTP."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Protocol, TypeVar

from sottovoce.errors import (
    ClosedError,
    ProtocolError,
    RefusedError,
    StoreError,
    UnavailableError,
    WrongEpochError,
)
from sottovoce.protocol import Chunk
from sottovoce.protocol.contact import Contact, Reply
from tests.live.killable import KillableProxy, KillableServer, Killed, Part
from tests.proxy.world import accept

T = TypeVar("T")


class Network:
    """A network in which a call may get lost, or its answer, or it may come twice."""

    def __init__(self, rng: Random, faults: float):
        self._rng = rng
        self.faults = faults

    def carry(self, part: Part, call: Callable[[], T]) -> T:
        fault = self._rng.choice("?!2") if self._rng.random() < self.faults else ""
        if fault == "?":
            raise UnavailableError("the request was lost")
        with convert_failures(part):
            answer = call()
            if fault == "2":
                answer = call()
        if fault == "!":
            raise UnavailableError("the answer was lost")
        return answer


@contextmanager
def convert_failures(part: Part) -> Iterator[None]:
    """Restart a part that dies while it is asked; the caller sees a broken connection."""
    try:
        yield
    except Killed as killed:
        if killed.part is not part:
            raise
        part.restart()
        raise UnavailableError("the connection broke") from None
    except StoreError as error:
        raise UnavailableError(str(error)) from error
    except ProtocolError as error:
        raise RefusedError(str(error)) from error


class ServerOverNetwork:
    """`Upstream` for one proxy; remembers what was handed in, to hand it in again."""

    def __init__(self, name: str, server: KillableServer, network: Network):
        self._name = name
        self._server = server
        self._network = network
        self.handed_in: list[Callable[[], object]] = []

    def manifest(self) -> bytes:
        return self._ask(lambda: self._server.server.get_signed_manifest().encode())

    def shelf(self) -> bytes:
        return self._ask(lambda: self._server.server.get_signed_shelf().encode())

    def model(self, sha256: bytes, max_bytes: int) -> bytes:
        return self._ask(lambda: _check_exists(self._server.server.get_file(sha256, "model")))

    def catalogue(self, sha256: bytes) -> bytes:
        return self._ask(lambda: _check_exists(self._server.server.get_file(sha256, "catalogue")))

    def patch(self, sha256: bytes) -> bytes:
        return self._ask(lambda: _check_exists(self._server.server.get_file(sha256, "patch")))

    def contact(self, contact: Contact) -> Reply:
        return self._ask(lambda: self._server.server.handle_contact(self._name, contact))

    def put_chunk(self, chunk: Chunk) -> None:
        self._hand_in(
            lambda: self._server.server.take_chunk(
                self._name, chunk.epoch, chunk.name, chunk.encode()
            )
        )

    def commit(self, epoch: int, manifest_hash: bytes, chunks: int, reports: int) -> None:
        self._hand_in(
            lambda: self._server.server.commit(self._name, epoch, manifest_hash, chunks, reports)
        )

    def _hand_in(self, call: Callable[[], object]) -> None:
        self.handed_in.append(call)
        self._ask(call)

    def _ask(self, call: Callable[[], T]) -> T:
        return self._network.carry(self._server, call)


class BatchObserver(Protocol):
    """Receives what happens to a batch."""

    def note_attempt(self, proxy: str, batch: bytes) -> None:
        """Note that it may have reached the proxy."""

    def note_acknowledgement(self, proxy: str, batch: bytes) -> None:
        """Note that the proxy acknowledged it."""


class ProxyOverNetwork:
    """`ProxyApi` of one proxy; notes what happens to each batch."""

    def __init__(self, proxy: KillableProxy, network: Network, sent_batches: BatchObserver):
        self._part = proxy
        self._network = network
        self._sent_batches = sent_batches

    def manifest(self) -> bytes:
        return self._ask(self._manifest)

    def shelf(self) -> bytes:
        return self._ask(self._shelf)

    def model(self, sha256: bytes, max_bytes: int) -> bytes:
        return self._ask(lambda: _check_exists(self._part.proxy.mirror.read_model(sha256)))

    def catalogue(self, sha256: bytes) -> bytes:
        return self._ask(lambda: _check_exists(self._part.proxy.mirror.read_catalogue(sha256)))

    def patch(self, sha256: bytes) -> bytes:
        return self._ask(lambda: _check_exists(self._part.proxy.mirror.read_patch(sha256)))

    def token(self, request: bytes) -> bytes:
        accounts = self._part.proxy.accounts
        (answer,) = self._ask(lambda: accounts.issue_tokens([accounts.check_request(request)]))
        if isinstance(answer, Exception):
            raise answer
        return answer

    def check_taken(self, manifest_hash: bytes) -> None:
        self._ask(lambda: self._part.proxy.intake.check_would_take(manifest_hash))

    def send(self, batch: bytes) -> None:
        try:
            self._ask(lambda: self._accept(batch))
        except WrongEpochError as error:
            raise ClosedError(str(error)) from error

    def _accept(self, batch: bytes) -> None:
        self._sent_batches.note_attempt(self._part.name, batch)
        accept(self._part.proxy, batch)
        self._sent_batches.note_acknowledgement(self._part.name, batch)

    def _manifest(self) -> bytes:
        signed = self._part.proxy.manifest
        if signed is None:
            raise UnavailableError("no manifest has come from the server yet")
        return signed.encode()

    def _shelf(self) -> bytes:
        shelf = self._part.proxy.mirror.shelf
        if shelf is None:
            raise UnavailableError("no shelf has come from the server yet")
        return shelf.signed.encode()

    def _ask(self, call: Callable[[], T]) -> T:
        return self._network.carry(self._part, call)


def _check_exists(content: bytes | None) -> bytes:
    if content is None:
        raise RefusedError("there is no such file")
    return content
