"""A real proxy in a process of its own, with a stand-in for the server.

Application, web server and store are those of `sottovoce proxy run`. The stand-in closes the epoch
when all batches have come, and drops the chunks. So an epoch runs from the first batch through the
shuffle to the last chunk.
"""

# The process of the proxy imports this module, and its memory is measured. So this module imports
# nothing of a server or a simulator.
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from sottovoce.errors import NotFoundError
from sottovoce.protocol import Chunk, Shelf, SignedShelf
from sottovoce.protocol.contact import CROWD_ENOUGH, Contact, Reply
from sottovoce.proxy import Proxy, ProxySettings, ProxyStore, Rate, build_app
from sottovoce.proxy.epoch_files import BatchTables
from sottovoce.service.listen import Listen
from sottovoce.service.listen import Watch as WatchSettings
from sottovoce.service.run import run_service
from sottovoce.service.watch import build_watch

if TYPE_CHECKING:
    from sottovoce_lab.bench.live.bench_server import BenchServer

# A number that two processes share.
SharedCount: TypeAlias = "Synchronized[int]"


class StandInServer:
    """An `Upstream` with a single epoch, which closes when its crowd is complete."""

    def __init__(self, bench: "BenchServer", delivered: SharedCount):
        self.key = bench.keys.verification_key
        self._signed = bench.signed.encode()
        shelf = Shelf(bench.signed.manifest.opens, bench.catalogue.hash)
        self._shelf = SignedShelf.make(shelf, bench.keys.signer).encode()
        self._catalogue = bench.catalogue.raw
        self._model = bench.model
        self._delivered = delivered

    def manifest(self) -> bytes:
        return self._signed

    def shelf(self) -> bytes:
        return self._shelf

    def model(self, sha256: bytes, max_bytes: int) -> bytes:  # noqa: ARG002 - there is one
        return self._model

    def catalogue(self, sha256: bytes) -> bytes:  # noqa: ARG002 - there is one
        return self._catalogue

    def patch(self, sha256: bytes) -> bytes:
        raise NotFoundError(f"no manifest names the patch {sha256.hex()}")

    def contact(self, contact: Contact) -> Reply:
        return Reply("closed" if contact.crowd == CROWD_ENOUGH else "open", contact.time, "00" * 8)

    def put_chunk(self, chunk: Chunk) -> None:
        """Drop the chunk."""

    def commit(self, epoch: int, manifest_hash: bytes, chunks: int, reports: int) -> None:  # noqa: ARG002 - only counted
        """Tell the parent process that the epoch is over."""
        self._delivered.value = reports


class CountingStore(ProxyStore):
    """A store that counts its transactions, each of which waits for the disk once."""

    commits: SharedCount

    @contextmanager
    def write_batches(self, n_reports: int = 0) -> Iterator[BatchTables]:
        """Count the transaction when it is on disk."""
        with super().write_batches(n_reports) as tables:
            yield tables
        self.commits.value += 1


def serve_proxy(
    folder: Path, ports: tuple[int, int], batches: int, server: StandInServer, commits: SharedCount
) -> None:
    """Run the proxy, without log messages."""
    logging.disable(logging.WARNING)
    settings = ProxySettings(
        folder=folder,
        server="http://127.0.0.1",
        secret_file=folder / "none",
        verification_key=server.key.hex(),
        min_clients=batches,
        poll_seconds=0.1,
        # All batches come from one address, so it has no limit.
        rate=Rate(batches_per_minute=0, per_epoch=0),
        listen=Listen(port=ports[0], connections_per_address=0),
        watch=WatchSettings(port=ports[1]),
    )
    CountingStore.create(folder)
    with CountingStore.open(folder) as store:
        store.commits = commits
        proxy = Proxy(store, server, settings)
        watch = build_watch(proxy.check_ready, proxy.metrics.render)
        app, on_rejection = build_app(proxy, settings), proxy.metrics.turned_away
        run_service(app, settings.listen, watch, settings.watch, on_rejection=on_rejection)
