"""What an operator can see of a running service, on a listener that is not public.

In public, the number of waiting batches would show an attacker when only one is missing in a crowd.
"""

import ssl
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Self

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from sottovoce.errors import ProtocolError, StoreError, UnavailableError, get_reason
from sottovoce.protocol import strict
from sottovoce.service.http import build_error_handlers
from sottovoce.service.listen import Watch
from sottovoce.service.logs import NO_COMMANDS, LastWarning, OwnCommands, Troubles

HEALTH_PATH = "/healthz"
READY_PATH = "/readyz"
METRICS_PATH = "/metrics"
STATE_PATH = "/state"
MAX_STATE_BYTES = 65_536
# A plausible time is below this number of seconds since 1970.
MAX_TIME = 1e11


@dataclass(frozen=True)
class ProcessState:
    """What a running process knows that its folder or database does not contain."""

    since: float
    config: str = ""
    """The path of its settings file."""
    troubles: tuple[str, ...] = ()
    """Everything that keeps it from its work now."""
    last: str | None = None
    """Its last warning or error, with the time."""
    notes: tuple[str, ...] = ()
    """What is worth knowing but no trouble."""

    @classmethod
    def fetch(cls, watch: Watch, config: Path) -> Self | str:
        """Ask the process that listens there; return a reason if it is not the one of `config`."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(watch.host, watch.host)  # noqa: S104
        place = f"{host}, port {watch.port} ([watch])"
        connect: Callable[..., HTTPConnection] = HTTPConnection
        if watch.certificate is not None:
            # Nothing secret is sent, and the certificate is our own, perhaps for another name.
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            connect = partial(HTTPSConnection, context=context)
        try:
            with closing(connect(host, watch.port, timeout=5)) as connection:
                connection.request("GET", STATE_PATH)
                content = connection.getresponse().read(MAX_STATE_BYTES)
            state = strict.parse_object(content, max_bytes=MAX_STATE_BYTES, what="state")
            since, troubles, last = state["since"], state["troubles"], state["last"]
            notes = tuple(state["notes"])
            if state["config"] != str(config.resolve()):
                raise ProtocolError("state: it is of another program or other settings")
            texts = [*troubles, *notes, last or ""]
            if not 0 <= float(since) <= MAX_TIME or not all(isinstance(t, str) for t in texts):
                raise ProtocolError("state: its values are not those of a sottovoce service")
            return cls(float(since), str(config), tuple(troubles), last, notes)
        except OSError as error:
            return f"nothing answers at {place}: does it run? ({get_reason(error)})"
        except (ValueError, TypeError, HTTPException, KeyError) as error:
            return f"another program answers at {place}: end it, or change [watch] ({error})"


def build_watch(
    check: Callable[[], None],
    metrics: Callable[[], bytes],
    commands: OwnCommands = NO_COMMANDS,
    troubles: Troubles | None = None,
    last_warning: LastWarning | None = None,
    notes: Callable[[], Sequence[str]] = tuple,
) -> Starlette:
    """Build the operator's application.

    Args:
        check: Raises an error if the service cannot do its work.
        metrics: Returns the metrics in Prometheus' text format.
        commands: The commands of the service, with its settings file.
        troubles: What is wrong now.
        last_warning: The last warning in the log.
        notes: Returns what is worth knowing but no trouble.
    """
    since, current = time.time(), troubles or Troubles()

    async def send_health(_: Request) -> Response:
        return PlainTextResponse("alive\n")

    async def send_readiness(_: Request) -> Response:
        try:
            await run_in_threadpool(check)
        except (UnavailableError, StoreError) as error:
            text = commands.complete(f"not ready: {error}\n")
            return PlainTextResponse(text, HTTPStatus.SERVICE_UNAVAILABLE)
        return PlainTextResponse(commands.complete("\n".join(["ready", *current.texts, ""])))

    async def send_metrics(_: Request) -> Response:
        return Response(await run_in_threadpool(metrics), media_type=CONTENT_TYPE_LATEST)

    async def send_state(_: Request) -> Response:
        last = None if last_warning is None else last_warning.line
        config = str(commands.config.resolve())
        state = ProcessState(since, config, tuple(current.texts), last, tuple(notes()))
        return JSONResponse(asdict(state))

    return Starlette(
        routes=[
            Route(HEALTH_PATH, send_health),
            Route(READY_PATH, send_readiness),
            Route(METRICS_PATH, send_metrics),
            Route(STATE_PATH, send_state),
        ],
        exception_handlers=build_error_handlers(),
    )
