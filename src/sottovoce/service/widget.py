"""The widget: one script for pages of other sites, and the tag by which they load exactly it."""

import base64
import hashlib
from functools import cache

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sottovoce.service.page import WIDGET, as_file, in_package

HEADERS = {
    # The same bytes for everybody: whose pages may ask for anything else, `origins` says.
    "Access-Control-Allow-Origin": "*",
    "Cross-Origin-Resource-Policy": "cross-origin",
    # A page whose tag names a newer one gets it soon.
    "Cache-Control": "public, max-age=300",
}


def widget_route() -> Route:
    file = as_file(WIDGET, _script())

    async def answer(request: Request) -> Response:
        return file.respond(request, HEADERS)

    return Route(f"/{WIDGET}", answer)


def script_tag(proxy: str = "https://PROXY") -> str:
    """With the hash of the script: a browser runs no other.

    No referrer: some pages would tell the proxy their whole address.
    """
    digest = base64.b64encode(hashlib.sha384(_script()).digest()).decode()
    return (
        f'<script type="module" src="{proxy}/{WIDGET}" integrity="sha384-{digest}" '
        'crossorigin referrerpolicy="no-referrer"></script>'
    )


@cache
def _script() -> bytes:
    return (in_package() / WIDGET).read_bytes()
