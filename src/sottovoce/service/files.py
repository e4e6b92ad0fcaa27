"""Public files over HTTP, with tags, caching and compression; the built files of the page.

Only files that are the same for everybody are compressed. None contains both a secret and something
that a reader chose, so a compressed length reveals nothing.
"""

import gzip
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Self

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sottovoce.errors import NotFoundError, SettingsError

BINARY_TYPE = "application/octet-stream"
# Caching of what changes with the epoch.
CACHE_BRIEFLY = "public, max-age=10"
# Caching of what is named by its hash or its epoch.
CACHE_FOREVER = "public, max-age=31536000, immutable"
# Files without which there is no page.
INDEX_FILE = "index.html"
SERVICE_WORKER_FILE = "sw.js"
_MEDIA_TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "json": "application/json",
    "txt": "text/plain; charset=utf-8",
}
_GZIP_PATTERN = re.compile("gzip(;q=(1|1[.]0*|0?[.]0*[1-9][0-9]*))?")


@dataclass(frozen=True)
class File:
    """One public file, plain and perhaps compressed."""

    content: bytes
    tag: str
    """A name of the content."""
    media_type: str = BINARY_TYPE
    compressed: bytes | None = None

    @classmethod
    def from_asset(cls, name: str, content: bytes) -> Self:
        """Make a file of page or widget, compressed."""
        suffix = name.rpartition(".")[2]
        if suffix not in _MEDIA_TYPES:
            raise SettingsError(f"{name}: the page's files must be {', '.join(_MEDIA_TYPES)}")
        tag = hashlib.sha256(content).hexdigest()
        return cls(content, tag, _MEDIA_TYPES[suffix], compress(content))

    def respond(self, request: Request, headers: Mapping[str, str]) -> Response:
        """Answer with the file, with 304 if the reader has it, without a body for HEAD."""
        body, tag, headers = self.content, self.tag, dict(headers)
        if self.compressed is not None:
            headers["Vary"] = "Accept-Encoding"
            if accepts_gzip(request):  # other bytes have another tag
                body, tag = self.compressed, f"{tag}-gzip"
                headers["Content-Encoding"] = "gzip"
        headers["ETag"] = f'"{tag}"'
        tags = [text.strip().removeprefix("W/") for text in _split(request, "if-none-match")]
        if "*" in tags or headers["ETag"] in tags:
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
        headers["Content-Length"] = str(len(body))
        sent = b"" if request.method == "HEAD" else body
        return Response(sent, headers=headers, media_type=self.media_type)

    def as_route(self, path: str, headers: Mapping[str, str]) -> Route:
        """Return a route that serves the file with these headers."""

        async def respond(request: Request) -> Response:
            return self.respond(request, headers)

        return Route(path, respond)


def send_file(
    request: Request, content: bytes | None, tag: str, caching: str, compressed: bytes | None = None
) -> Response:
    """Answer with a file of the protocol, or raise 404 if there is no content."""
    if content is None:
        raise NotFoundError("there is no such file")
    return File(content, tag, compressed=compressed).respond(request, {"Cache-Control": caching})


def compress(content: bytes) -> bytes:
    """Compress with gzip, as small as it gets; the same content gives the same bytes."""
    return gzip.compress(content, mtime=0)


def accepts_gzip(request: Request) -> bool:
    """Return whether the reader asks for gzip; without the header, it does not."""
    codings = [text.replace(" ", "").lower() for text in _split(request, "accept-encoding")]
    return any(_GZIP_PATTERN.fullmatch(coding) for coding in codings)


def _split(request: Request, header: str) -> list[str]:
    return ",".join(request.headers.getlist(header)).split(",")


def get_assets_folder() -> Traversable:
    """Return the folder with the built files of page and widget."""
    return files(__package__) / "assets"


def read_assets(folder: Traversable) -> dict[str, bytes]:
    """Read the files of the page by name, or raise an error if it was not built."""
    assets = {}
    if folder.is_dir():
        assets = {
            entry.name: entry.read_bytes()
            for entry in folder.iterdir()
            if entry.is_file() and not entry.name.startswith(".")
        }
    if not {INDEX_FILE, SERVICE_WORKER_FILE} <= set(assets):
        raise SettingsError(
            f"{folder}: the page is not built. In a checkout run: make web; "
            "or leave page.serve at false"
        )
    return assets
