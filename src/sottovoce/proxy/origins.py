"""Web sites whose pages may use the proxy: how they are named, and how browsers are answered.

A browser lets a page of another origin read an answer only if the answer names that origin (CORS,
in the Fetch standard). Starlette's middleware for CORS does not fit: it adds headers on all paths,
also on those of the proxy's own page, and it sends some of them to origins that are refused.
"""

import re
from collections.abc import Collection
from http import HTTPStatus
from ipaddress import IPv6Address

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sottovoce.errors import SettingsError
from sottovoce.protocol import routes
from sottovoce.protocol.http import is_loopback_host
from sottovoce.service.http import get_header

_LABEL = "[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?"
_ORIGIN_PATTERN = re.compile(
    rf"(?P<scheme>https?)://(?P<host>{_LABEL}(\.{_LABEL})*|\[[0-9a-f:]+\])"
    "(:(?P<port>[1-9][0-9]{0,4}))?"
)
# Patterns that an origin must match, from coarse to fine, each with the rule that an error quotes.
_ORIGIN_RULES = (
    ("(?is)https?://.*", "it begins with https://"),
    ("[^*]*", "it names one host, without a wildcard"),
    ("[^/]*//[^/?#]*", "it ends with its host or port, without a slash or a path"),
    ("(?a)[!-@\\[-~]*", "in lower case and ASCII, without spaces"),
    (_ORIGIN_PATTERN, "https://HOST or https://HOST:PORT"),
)
_DEFAULT_PORTS = {"http": "80", "https": "443"}
# Values of `Sec-Fetch-Site` for requests that a page of another origin made.
_OTHER_SITES = ("cross-site", "same-site")
_PREFLIGHT_HEADERS = {
    "Access-Control-Allow-Methods": "POST",
    "Access-Control-Allow-Headers": "content-type",
    # Make browsers ask before every batch: all batches then look alike, and an origin that is no
    # longer allowed is refused at once.
    "Access-Control-Max-Age": "0",
}


def check_origin(origin: str) -> None:
    """Raise a `SettingsError` unless `origin` is an origin in the form that browsers send.

    >>> check_origin("https://shop.example")
    """
    match = _ORIGIN_PATTERN.fullmatch(origin)
    if match is None:
        rule = next(rule for pattern, rule in _ORIGIN_RULES if not re.fullmatch(pattern, origin))
        raise SettingsError(
            f"origins: {origin!r} must be as browsers write an origin: {rule}", setting="origins"
        )
    scheme, host, port = match["scheme"], match["host"], match["port"]
    if port is not None and (port == _DEFAULT_PORTS[scheme] or int(port) > 65_535):
        raise SettingsError(
            f"origins: {origin} must have a port of at most 65535, or none for the default "
            f"{_DEFAULT_PORTS[scheme]}",
            setting="origins",
        )
    if not _has_shortest_form(host):
        raise SettingsError(
            f"origins: {origin} must have its IPv6 address in the shortest form", setting="origins"
        )
    if scheme == "http" and not is_loopback_host(host.strip("[]")):
        raise SettingsError(
            f"origins: {origin} is not encrypted: anyone on the way could pose as this site, and "
            "browsers give its pages no cryptography; use https (http is for this machine only)",
            setting="origins",
        )


def _has_shortest_form(host: str) -> bool:
    """Return whether a host is a name, or an IPv6 address as browsers write it."""
    try:
        return host[0] != "[" or str(IPv6Address(host[1:-1])) == host[1:-1]
    except ValueError:
        return False


def check_sender(scope: Scope, allowed: Collection[str]) -> None:
    """Raise an `HTTPException` if a browser sent the request for a page of a site not allowed.

    The site could otherwise use the addresses of its visitors to make up a crowd. With every POST,
    a browser names the origin of the page and says whether this is the proxy's own origin. Programs
    that are not browsers send no origin, and are allowed.
    """
    origin, site = get_header(scope, b"origin"), get_header(scope, b"sec-fetch-site")
    is_page = origin is not None or site in _OTHER_SITES
    if is_page and origin not in allowed and not _is_own(origin, site, get_header(scope, b"host")):
        raise HTTPException(HTTPStatus.FORBIDDEN, "pages of this origin may send nothing here")


def _is_own(origin: str | None, site: str | None, host: str | None) -> bool:
    """Return whether the proxy's own page sent a request."""
    if site is not None:
        return site == "same-origin"
    # Older browsers send the `Origin` header only.
    return origin is not None and origin.partition("://")[2] == host


class CrossOrigin:
    """Lets pages of the allowed origins read answers under `/v2`, without credentials."""

    def __init__(self, app: ASGIApp, allowed: Collection[str]):
        self._app = app
        self._allowed = frozenset(allowed)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(routes.API_ROOT):
            await self._app(scope, receive, send)
            return
        origin = get_header(scope, b"origin") or ""
        is_allowed = origin in self._allowed

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer = MutableHeaders(scope=message)
                # Set `Vary` on every answer, so that a cache keeps one answer for each origin.
                answer.add_vary_header("Origin")
                if is_allowed:
                    answer["Access-Control-Allow-Origin"] = origin
                    answer["Access-Control-Expose-Headers"] = "Retry-After"
            await send(message)

        app = self._app
        if is_allowed and _is_preflight(scope):
            app = Response(status_code=HTTPStatus.NO_CONTENT, headers=_PREFLIGHT_HEADERS)
        await app(scope, receive, send_with_headers)


def _is_preflight(scope: Scope) -> bool:
    """Return whether a browser asks if a page may send a batch or a request for a token."""
    return (
        scope["method"] == "OPTIONS"
        and scope["path"] in (routes.BATCHES, routes.TOKENS)
        and get_header(scope, b"access-control-request-method") == "POST"
    )
