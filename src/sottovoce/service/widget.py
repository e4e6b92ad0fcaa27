"""The widget: one script for pages of other sites, and the tag that loads exactly this script.

A second script makes tokens where reports need accounts. It is separate because it would
double the size, and few services need it.
"""

import base64
import hashlib
from functools import cache

from starlette.routing import Route

from sottovoce.service.files import File, get_assets_folder

WIDGET_SCRIPT = "widget.js"
ACCOUNTS_SCRIPT = "accounts.js"
SCRIPT_HEADERS = {
    # The same bytes for everybody. Which sites may ask for anything else is up to `origins`.
    "Access-Control-Allow-Origin": "*",
    "Cross-Origin-Resource-Policy": "cross-origin",
    # A page whose tag names a newer script gets it soon.
    "Cache-Control": "public, max-age=300",
}


def build_script_routes(*, accounts: bool) -> list[Route]:
    """Build the routes of the scripts."""
    names = [WIDGET_SCRIPT, ACCOUNTS_SCRIPT] if accounts else [WIDGET_SCRIPT]
    return [
        File.from_asset(name, _read_script(name)).as_route(f"/{name}", SCRIPT_HEADERS)
        for name in names
    ]


def format_script_tag(proxy: str = "https://PROXY", name: str = WIDGET_SCRIPT) -> str:
    """Return the tag with the hash of the script: a browser runs no other."""
    digest = base64.b64encode(hashlib.sha384(_read_script(name)).digest()).decode()
    # Without `no-referrer`, some pages would send the proxy their whole address.
    return (
        f'<script type="module" src="{proxy}/{name}" integrity="sha384-{digest}" '
        'crossorigin referrerpolicy="no-referrer"></script>'
    )


@cache
def _read_script(name: str) -> bytes:
    folder = get_assets_folder() / "accounts" if name == ACCOUNTS_SCRIPT else get_assets_folder()
    return (folder / name).read_bytes()
