"""Sites whose own pages may use the proxy: which names they have, and what their browsers are told.

A browser lets a page of another origin read an answer only if the answer names that origin (CORS,
in the Fetch standard). Starlette's middleware for it does not serve here: it covers all paths,
those of the proxy's page too, and tells refused origins some of it as well.
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
_ORIGIN = re.compile(
    rf"(?P<scheme>https?)://(?P<host>{_LABEL}(\.{_LABEL})*|\[[0-9a-f:]+\])"
    "(:(?P<port>[1-9][0-9]{0,4}))?"
)
_RULES = (
    ("(?is)https?://.*", "it begins with https://"),
    ("[^*]*", "it names one host, without a wildcard"),
    ("[^/]*//[^/?#]*", "it ends with its host or port, without a slash or a path"),
    ("(?a)[!-@\\[-~]*", "in lower case and ASCII, without spaces"),
    (_ORIGIN, "https://HOST or https://HOST:PORT"),
)
"""What an origin is, from the coarse to the fine, and in words."""
_USUAL_PORTS = {"http": "80", "https": "443"}
_OTHER_SITE = ("cross-site", "same-site")
"""What `Sec-Fetch-Site` says of a request that a page of another origin made."""
_PREFLIGHT = {
    "Access-Control-Allow-Methods": "POST",
    "Access-Control-Allow-Headers": "content-type",
    # So every batch looks alike, and an origin that is no longer named is out at once.
    "Access-Control-Max-Age": "0",
}


def check_origin(origin: str) -> None:
    """Raise a `SettingsError` unless it is the name of a site, as browsers write it.

    >>> check_origin("https://shop.example")
    """
    found = _ORIGIN.fullmatch(origin)
    if found is None:
        rule = next(rule for pattern, rule in _RULES if not re.fullmatch(pattern, origin))
        raise SettingsError(
            f"origins: {origin!r} must be as browsers write an origin: {rule}", setting="origins"
        )
    scheme, host, port = found["scheme"], found["host"], found["port"]
    if port is not None and (port == _USUAL_PORTS[scheme] or int(port) > 65_535):
        usual = _USUAL_PORTS[scheme]
        raise SettingsError(
            f"origins: {origin} must have a port of at most 65535, or none for the usual {usual}",
            setting="origins",
        )
    if not _is_usual(host):
        raise SettingsError(
            f"origins: {origin} must have its IPv6 address in the shortest form", setting="origins"
        )
    if scheme == "http" and not is_loopback_host(host.strip("[]")):
        raise SettingsError(
            f"origins: {origin} is not encrypted: anyone on the way could pose as this site, and "
            "browsers give its pages no cryptography; use https (http is for this machine alone)",
            setting="origins",
        )


def _is_usual(host: str) -> bool:
    """Addresses have one spelling each."""
    try:
        return host[0] != "[" or str(IPv6Address(host[1:-1])) == host[1:-1]
    except ValueError:
        return False


def check_sender(scope: Scope, allowed: Collection[str]) -> None:
    """Refuse what a page of some other site had its visitor's browser send.

    Such a site could make a crowd out of its visitors' addresses. Browsers name the page's origin
    with every POST, and say whether it is the proxy's own; programs name none.
    """
    origin, site = get_header(scope, b"origin"), get_header(scope, b"sec-fetch-site")
    is_page = origin is not None or site in _OTHER_SITE
    if is_page and origin not in allowed and not _is_own(origin, site, get_header(scope, b"host")):
        raise HTTPException(HTTPStatus.FORBIDDEN, "pages of this origin may send nothing here")


def _is_own(origin: str | None, site: str | None, host: str | None) -> bool:
    """Whether it is the proxy's own page; older browsers name the origin alone."""
    if site is not None:
        return site == "same-origin"
    return origin is not None and origin.partition("://")[2] == host


class CrossOrigin:
    """Answers pages of the allowed origins under `/v2`; all others as if it were not there.

    Never with credentials. `Vary` is on every answer, whoever asks, so that no cache gives one
    origin what was meant for another.
    """

    def __init__(self, app: ASGIApp, allowed: Collection[str]):
        self._app = app
        self._allowed = frozenset(allowed)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(routes.API_ROOT):
            await self._app(scope, receive, send)
            return
        origin = get_header(scope, b"origin") or ""
        is_allowed = origin in self._allowed

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer = MutableHeaders(scope=message)
                answer.add_vary_header("Origin")
                if is_allowed:
                    answer["Access-Control-Allow-Origin"] = origin
                    answer["Access-Control-Expose-Headers"] = "Retry-After"
            await send(message)

        app = self._app
        if is_allowed and _is_preflight(scope):
            app = Response(status_code=HTTPStatus.NO_CONTENT, headers=_PREFLIGHT)
        await app(scope, receive, with_headers)


def _is_preflight(scope: Scope) -> bool:
    """Whether a browser asks if it may send a batch; for files it need not ask."""
    return (
        scope["method"] == "OPTIONS"
        and scope["path"] in (routes.BATCHES, routes.TOKENS)
        and get_header(scope, b"access-control-request-method") == "POST"
    )
