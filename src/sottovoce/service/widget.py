"""The widget: a script for pages of other sites, and the tag that loads exactly this script.

A second script makes tokens if reports need accounts. It is separate because few services need
it, and it would double the size of the widget.
"""

import base64
import hashlib
from functools import cache

from starlette.routing import Route

from sottovoce.service.files import File, get_assets_folder

WIDGET_SCRIPT = "widget.js"
ACCOUNTS_SCRIPT = "accounts.js"
SCRIPT_HEADERS = {
    # Any site may load the scripts, which are the same for everybody. Which sites may send requests
    # is decided by `origins`.
    "Access-Control-Allow-Origin": "*",
    "Cross-Origin-Resource-Policy": "cross-origin",
    # A short time, so that pages with the tag of a newer script can load it soon.
    "Cache-Control": "public, max-age=300",
}


def build_script_routes(*, accounts: bool) -> list[Route]:
    """Build the routes of the widget's script and, with accounts, of the second script."""
    names = [WIDGET_SCRIPT, ACCOUNTS_SCRIPT] if accounts else [WIDGET_SCRIPT]
    return [
        File.from_asset(name, _read_script(name)).as_route(f"/{name}", SCRIPT_HEADERS)
        for name in names
    ]


def format_script_tag(proxy: str = "https://PROXY", name: str = WIDGET_SCRIPT) -> str:
    """Return the tag that loads a script of the proxy.

    The tag contains the hash of the script, and browsers run no script with another hash.
    """
    digest = base64.b64encode(hashlib.sha384(_read_script(name)).digest()).decode()
    # Without `no-referrer`, some pages would send their full address to the proxy.
    return (
        f'<script type="module" src="{proxy}/{name}" integrity="sha384-{digest}" '
        'crossorigin referrerpolicy="no-referrer"></script>'
    )


@cache
def _read_script(name: str) -> bytes:
    folder = get_assets_folder() / "accounts" if name == ACCOUNTS_SCRIPT else get_assets_folder()
    return (folder / name).read_bytes()
