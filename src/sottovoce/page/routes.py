"""The page's routes: `/`, `/page/NAME`, `/sw.js`, `/page/panel.json`."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.routing import Route

from sottovoce.errors import ProtocolError, SettingsError
from sottovoce.page.built import INDEX, SERVICE_WORKER, as_file, filled, in_package, read_assets
from sottovoce.page.headers import HEADERS
from sottovoce.protocol.panel import Panel

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from importlib.resources.abc import Traversable
    from pathlib import Path
    from typing import Any

    from starlette.requests import Request
    from starlette.responses import Response

    from sottovoce.service.files import File

    Handler = Callable[[Request], Coroutine[Any, Any, Response]]

PANEL = "panel.json"


@dataclass(frozen=True)
class Content:
    """What an operator adds to the built files."""

    key: bytes
    """The server's verification key: the page pins it at a visitor's first use."""
    statement: str = ""
    """The privacy statement, in plain text."""
    notice: str = ""
    """What visitors should know about this service, such as that it is a demo."""
    panel: Path | None = None
    """Test people on whom the page measures every epoch's model; see `sottovoce.evaluation`."""
    jitter: float = 3_600
    """Seconds over which a browser draws the moment at which it sends; 0, for demos: at once."""


def page_routes(content: Content, assets: Traversable | None = None) -> list[Route]:
    """Everything is read and compressed now: a file that changes later changes nothing here."""
    found = read_assets(in_package() if assets is None else assets)
    places = {
        "key": content.key.hex(),
        "statement": content.statement,
        "notice": content.notice,
        "jitter": f"{content.jitter:g}",
    }
    index = as_file(INDEX, filled(found.pop(INDEX), places))
    service_worker = as_file(SERVICE_WORKER, found.pop(SERVICE_WORKER))
    if content.panel is not None:
        found[PANEL] = read_panel(content.panel)[1]
    named = {name: as_file(name, data) for name, data in found.items()}
    return [
        Route("/", _one(index)),
        Route(f"/{SERVICE_WORKER}", _one(service_worker)),
        Route("/page/{name}", _by_name(named)),
    ]


def _one(file: File) -> Handler:
    async def answer(request: Request) -> Response:
        return file.respond(request, HEADERS)

    return answer


def _by_name(named: dict[str, File]) -> Handler:
    async def answer(request: Request) -> Response:
        file = named.get(request.path_params["name"])
        if file is None:
            raise HTTPException(HTTPStatus.NOT_FOUND)
        return file.respond(request, HEADERS)

    return answer


def read_panel(path: Path) -> tuple[Panel, bytes]:
    """A file that is no panel is the operator's mistake: better now than in every browser."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SettingsError(f"page.panel: {error}") from error
    try:
        return Panel.decode(content), content
    except ProtocolError as error:
        raise SettingsError(f"page.panel: {path}: {error}") from error
