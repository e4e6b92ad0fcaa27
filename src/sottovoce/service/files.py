"""Public files over HTTP: tags, caching, 304 to whoever has them, gzip to whoever accepts it.

Only files that are the same for everybody are compressed, and none of them mixes a secret with
what a reader chose: their compressed length tells nobody anything.
"""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.responses import Response

from sottovoce.errors import NotFoundError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

BYTES = "application/octet-stream"
BRIEFLY = "public, max-age=10"
"""For what changes with the epoch."""
FOR_EVER = "public, max-age=31536000, immutable"
"""For what is named by its hash or its epoch."""


def serve(
    request: Request, content: bytes | None, tag: str, caching: str, compressed: bytes | None = None
) -> Response:
    """A file of the protocol, and how long caches may keep it; 404 if there is none."""
    if content is None:
        raise NotFoundError("there is no such file")
    file = File(content, tag, compressed=compressed)
    return file.respond(request, {"Cache-Control": caching})


def compress(content: bytes) -> bytes:
    """As small as gzip gets it; the same bytes for the same content."""
    return gzip.compress(content, mtime=0)


@dataclass(frozen=True)
class File:
    """One public file, as it is and, if there is any use in it, compressed."""

    content: bytes
    tag: str
    """Names the content."""
    media_type: str = BYTES
    compressed: bytes | None = None

    def respond(self, request: Request, headers: Mapping[str, str]) -> Response:
        """Bytes as the reader accepts them, 304 if they have them; without a body for HEAD."""
        body, own = self._chosen(request)
        headers = {**headers, **own}
        known = [held.strip().removeprefix("W/") for held in _listed(request, "if-none-match")]
        if "*" in known or headers["ETag"] in known:
            del headers["Content-Length"]
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
        if request.method == "HEAD":
            return Response(headers=headers, media_type=self.media_type)
        return Response(body, headers=headers, media_type=self.media_type)

    def _chosen(self, request: Request) -> tuple[bytes, dict[str, str]]:
        """Other bytes have another tag, and whoever keeps them must know what they depend on."""
        if self.compressed is None:
            return self.content, _about(self.content, self.tag)
        varying = {"Vary": "Accept-Encoding"}
        if not accepts_gzip(request):
            return self.content, {**_about(self.content, self.tag), **varying}
        about = _about(self.compressed, f"{self.tag}-gzip")
        return self.compressed, {**about, **varying, "Content-Encoding": "gzip"}


def accepts_gzip(request: Request) -> bool:
    """Whether the reader said so: silence means the bytes as they are."""
    weights = dict(_weighted(each) for each in _listed(request, "accept-encoding"))
    return weights.get("gzip", weights.get("*", 0.0)) > 0


def _about(body: bytes, tag: str) -> dict[str, str]:
    return {"ETag": f'"{tag}"', "Content-Length": str(len(body))}


def _listed(request: Request, header: str) -> list[str]:
    return ",".join(request.headers.getlist(header)).split(",")


def _weighted(encoding: str) -> tuple[str, float]:
    """`gzip;q=0.5` as a name and a weight; one that cannot be read counts as a no."""
    name, _, weight = encoding.partition(";")
    try:
        return name.strip().lower(), float(weight.strip().lower().removeprefix("q=") or 1.0)
    except ValueError:
        return name.strip().lower(), 0.0
