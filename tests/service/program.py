"""A small program that runs as our services do: on real sockets, until it is told to stop."""

import re
import signal
import socket
import subprocess
import sys
from typing import Any

from tests.processes import read_until

PROGRAM = """
import asyncio, contextlib, json, sys
from pathlib import Path
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from prometheus_client import CollectorRegistry, generate_latest
from sottovoce.service.connections import RejectionCounter
from sottovoce.service.http import build_error_handlers, read_body
from sottovoce.service.listen import Listen, Watch
from sottovoce.service.logs import start_logging
from sottovoce.service.run import run_service
from sottovoce.service.watch import build_watch

async def hello(request):
    return PlainTextResponse("hello")

async def slow(request):
    print("begun", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    return PlainTextResponse("finished")

async def body(request):
    read = await read_body(request.scope, request.receive, 160)
    return PlainTextResponse(str(len(read)))

async def large(request):
    return PlainTextResponse(b"x" * 2**25)

async def broken(request):
    raise RuntimeError("an error of the program")

@contextlib.asynccontextmanager
async def lifespan(app):
    if "fail" in sys.argv:
        raise RuntimeError("cannot start")
    yield
    print("closed", flush=True)

paths = {"/hello": hello, "/v2/manifest": hello, "/slow": slow, "/broken": broken, "/large": large}
app = Starlette(
    routes=[
        Route("/body", body, methods=["POST"]),
        *(Route(path, endpoint) for path, endpoint in paths.items()),
    ],
    exception_handlers=build_error_handlers(),
    lifespan=lifespan,
)
registry = CollectorRegistry()
rejections = RejectionCounter("program", registry)
watch = build_watch(lambda: None, lambda: generate_latest(registry))
caps = dict(pair.split("=") for pair in sys.argv[3:] if "=" in pair)
caps = {name: Path(value) if value[0] == "/" else json.loads(value) for name, value in caps.items()}
listen = Listen(port=int(sys.argv[1]), **caps)
start_logging()
run_service(app, listen, watch, Watch(port=int(sys.argv[2])), on_rejection=rejections)
print("returned", flush=True)
"""
RUNNING = re.compile(r"running on https?://127\.0\.0\.1:(\d+)")
LIMIT = 90.0


class Service:
    """The program above, running."""

    def __init__(self, *arguments: str, **how: Any):
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **how,
        )
        self.log = ""

    def wait_for(self, words: str) -> None:
        """Read its log up to this line."""
        assert self.process.stderr is not None
        self.log += read_until(words, self.process.stderr).string

    def port(self, *, watch: bool = False) -> int:
        if not self.log:
            self.wait_for("(?s)running on.*running on")
        return int(RUNNING.findall(self.log)[watch])

    def connect(self, source: str = "127.0.0.1", *, watch: bool = False) -> socket.socket:
        return socket.create_connection(
            ("127.0.0.1", self.port(watch=watch)), LIMIT, source_address=(source, 0)
        )

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()

    def end(self, stop_signal: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        """Return its exit code and what it printed; the rest of its log is in `log`."""
        self.process.send_signal(stop_signal)
        return self.ended()

    def ended(self) -> tuple[int, str]:
        output, log = self.process.communicate(timeout=LIMIT)
        self.log += log
        return self.process.returncode, output
