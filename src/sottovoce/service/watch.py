"""Health, metrics and state of a running service, for its operator on a separate listener.

This must not be public: from the number of waiting batches, an attacker could see when a crowd
lacks only a single person.
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
# Latest start time, in Unix seconds, that is accepted in a state.
MAX_TIME = 1e11


@dataclass(frozen=True)
class ProcessState:
    """The part of the state of a service that only its running process knows."""

    since: float
    """Start of the process, in Unix seconds."""
    config: str = ""
    """The path of its settings file."""
    troubles: tuple[str, ...] = ()
    """Texts of the current troubles."""
    last: str | None = None
    """The line of the last warning or error in the log."""
    notes: tuple[str, ...] = ()
    """Messages for the operator that are no troubles."""

    @classmethod
    def fetch(cls, watch: Watch, config: Path) -> Self | str:
        """Fetch the state of the process with the settings file `config`.

        Returns:
            The state; or a message if no process answers, or another program does.
        """
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(watch.host, watch.host)  # noqa: S104
        place = f"{host}, port {watch.port} ([watch])"
        connect: Callable[..., HTTPConnection] = HTTPConnection
        if watch.certificate is not None:
            # Accept any certificate: nothing secret is sent, and it may be for another name than
            # `host`.
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
                raise ProtocolError("state: it belongs to another program, or to other settings")
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
        commands: Adds the settings file to the commands that messages suggest.
        troubles: The troubles of the service.
        last_warning: Keeps the last warning in the log.
        notes: Returns messages for the operator that are no troubles.
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
