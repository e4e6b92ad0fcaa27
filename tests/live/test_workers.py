"""Two workers on one PostgreSQL behind a balancer, as docs/operations.md sets them up."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.lacking import leave_out
from tests.live.balancer import balancing
from tests.live.processes import Site, sender
from tests.processes import free_port, wait_until
from tests.server import postgres


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    try:
        context = postgres.running()
        url = context.__enter__()
    except OSError as error:
        leave_out(f"two workers on PostgreSQL ({error})")
    try:
        yield url
    finally:
        context.__exit__(None, None, None)


class Worker:
    """`sottovoce server run` at ports of its own."""

    def __init__(self, site: Site, name: str):
        self.port, self.watch = free_port(), free_port()
        command = ["server", "run", "--config", str(site.configs["server"])]
        ports = ["--port", str(self.port), "--watch-port", str(self.watch)]
        self.process = start(site, name, *command, *ports)

    def is_ready(self) -> bool:
        try:
            return self._get("/readyz").status_code == 200
        except httpx.TransportError:
            return False

    def chunks(self) -> float:
        """That it has counted."""
        text = self._get("/metrics").text
        found = re.search(r"^sottovoce_server_chunks_total (\S+)$", text, re.MULTILINE)
        assert found is not None
        return float(found[1])

    def _get(self, path: str) -> httpx.Response:
        return httpx.get(f"http://127.0.0.1:{self.watch}{path}", trust_env=False, timeout=10)


def start(site: Site, name: str, *arguments: str) -> subprocess.Popen[bytes]:
    with (site.folder / f"{name}.log").open("ab") as log:
        command = [sys.executable, "-m", "sottovoce", *arguments]
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


@contextmanager
def killed_at_the_end(running: list[subprocess.Popen[bytes]]) -> Iterator[None]:
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


@pytest.mark.slow
def test_one_of_two_workers_is_killed_and_everything_counts_once(
    tmp_path: Path, database: str
) -> None:
    """The one that the proxy talks to; the other goes on with what it finds in the database."""
    running: list[subprocess.Popen[bytes]] = []
    with balancing() as balancer, killed_at_the_end(running):
        site = Site(tmp_path, database=database, server_port=balancer.port)
        workers = [Worker(site, name) for name in ("server-1", "server-2")]
        running += [worker.process for worker in workers]
        wait_until(lambda: all(worker.is_ready() for worker in workers), "both workers")
        balancer.backends = [worker.port for worker in workers]
        config = str(site.configs["proxy"])
        running.append(start(site, "proxy", "proxy", "run", "--config", config))
        with sender(site) as people:
            people.until(lambda: any(map(Worker.chunks, workers)), "a chunk")
            busy = max(workers, key=Worker.chunks)
            busy.process.kill()
            people.go_on(2)
            (left,) = (worker for worker in workers if worker is not busy)
            assert left.chunks() > 0
        assert site.check(people.sent_batches) >= 2
        assert people.sent_batches.n_acknowledged() >= 8
    assert "Traceback" not in site.logs()
