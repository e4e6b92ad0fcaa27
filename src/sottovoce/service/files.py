"""Public files over HTTP, with ETags, caching and compression; the built files of the page.

Only files that are the same for everybody are compressed. No file contains both a secret and text
that a reader can choose, so the compressed length reveals no secret.
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
# `Cache-Control` of files that change with the epoch.
CACHE_BRIEFLY = "public, max-age=10"
# `Cache-Control` of files that never change, because their hash or epoch is in the path.
CACHE_FOREVER = "public, max-age=31536000, immutable"
# Files that the built page must have.
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
    """A public file, with a compressed copy if there is one."""

    content: bytes
    tag: str
    """The ETag of the plain content, without quotes."""
    media_type: str = BINARY_TYPE
    compressed: bytes | None = None

    @classmethod
    def from_asset(cls, name: str, content: bytes) -> Self:
        """Make a file of the page or the widget, with a compressed copy."""
        suffix = name.rpartition(".")[2]
        if suffix not in _MEDIA_TYPES:
            raise SettingsError(f"{name}: the page's files must be {', '.join(_MEDIA_TYPES)}")
        tag = hashlib.sha256(content).hexdigest()
        return cls(content, tag, _MEDIA_TYPES[suffix], compress(content))

    def respond(self, request: Request, headers: Mapping[str, str]) -> Response:
        """Answer with the file; with 304 if the reader has it already; to HEAD without a body."""
        body, tag, headers = self.content, self.tag, dict(headers)
        if self.compressed is not None:
            headers["Vary"] = "Accept-Encoding"
            if accepts_gzip(request):  # other bytes need another ETag
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
    """Answer with a file of the protocol.

    Args:
        request: The request.
        content: The content of the file; None if there is no such file.
        tag: The ETag, without quotes.
        caching: The `Cache-Control` header.
        compressed: The content in gzip, if it is compressed.

    Raises:
        NotFoundError: There is no content.
    """
    if content is None:
        raise NotFoundError("there is no such file")
    return File(content, tag, compressed=compressed).respond(request, {"Cache-Control": caching})


def compress(content: bytes) -> bytes:
    """Compress with gzip at the highest level. Equal content gives equal bytes."""
    return gzip.compress(content, mtime=0)


def accepts_gzip(request: Request) -> bool:
    """Return whether `Accept-Encoding` names gzip; False without this header."""
    codings = [text.replace(" ", "").lower() for text in _split(request, "accept-encoding")]
    return any(_GZIP_PATTERN.fullmatch(coding) for coding in codings)


def _split(request: Request, header: str) -> list[str]:
    return ",".join(request.headers.getlist(header)).split(",")


def get_assets_folder() -> Traversable:
    """Return the folder with the built files of the page and the widget."""
    return files(__package__) / "assets"


def read_assets(folder: Traversable) -> dict[str, bytes]:
    """Return the content of each file of the page by name.

    Raises:
        SettingsError: The page was not built.
    """
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
