"""The widget: one script for pages of other sites, and the tag by which they load exactly it.

Where there are accounts a second one makes tokens: few need it, and it is as long again.
"""

import base64
import hashlib
from functools import cache

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sottovoce.service.page import WIDGET, as_file, in_package

ACCOUNTS = "accounts.js"
HEADERS = {
    # The same bytes for everybody: whose pages may ask for anything else, `origins` says.
    "Access-Control-Allow-Origin": "*",
    "Cross-Origin-Resource-Policy": "cross-origin",
    # A page whose tag names a newer one gets it soon.
    "Cache-Control": "public, max-age=300",
}


def script_routes(*, accounts: bool) -> list[Route]:
    return [_route(name) for name in (WIDGET, *([ACCOUNTS] if accounts else ()))]


def _route(name: str) -> Route:
    file = as_file(name, _script(name))

    async def answer(request: Request) -> Response:
        return file.respond(request, HEADERS)

    return Route(f"/{name}", answer)


def script_tag(proxy: str = "https://PROXY", name: str = WIDGET) -> str:
    """With the hash of the script: a browser runs no other.

    No referrer: some pages would tell the proxy their whole address.
    """
    digest = base64.b64encode(hashlib.sha384(_script(name)).digest()).decode()
    return (
        f'<script type="module" src="{proxy}/{name}" integrity="sha384-{digest}" '
        'crossorigin referrerpolicy="no-referrer"></script>'
    )


@cache
def _script(name: str) -> bytes:
    folder = in_package() / "accounts" if name == ACCOUNTS else in_package()
    return (folder / name).read_bytes()
