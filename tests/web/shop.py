"""A shop on another origin with a strict policy: `examples/shop.html`, and who visits it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from sottovoce.service.widget import format_script_tag
from tests.lacking import leave_out
from tests.web.front import HURRY, RecordedRequest, served
from tests.web.visitor import Visitor
from tests.web.visitor_scripts import EVENTS

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, ConsoleMessage
    from starlette.requests import Request

    from tests.web.chromium import Trap
    from tests.web.system import System

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "shop.html"
WEB = ROOT / "web"
POLICY = (
    "default-src 'none'; script-src {proxy}; connect-src {proxy}; worker-src {worker}; "
    "base-uri 'none'; form-action 'none'; "
    "require-trusted-types-for 'script'; trusted-types sottovoce"
)
"""All that the widget needs: no inline script, no style, no picture."""
IN_A_HURRY = f"""
const Plain = Blob;
window.Blob = class extends Plain {{
  constructor(parts, options) {{
    const isScript = options?.type === "text/javascript";
    super(isScript ? [{json.dumps(HURRY.decode())}, ...parts] : parts, options);
    if (isScript) window.workerText = parts[0];
  }}
}};
"""
"""The script is pinned by its hash: so the workers' text is changed on its way into the blob."""
TOLD = {"cookie", "referer", "authorization", "if-none-match", "from", "x-requested-with"}


class Shop:
    """At an address of its own."""

    def __init__(self) -> None:
        self.url = ""
        self.page = ""
        self.policy = ""
        self.scripts: dict[str, bytes] = {}
        """Of its own, by name."""

    def open(self, system: System, *, seen: str = "1", lang: str = "en") -> Shop:
        """Return the example with its values filled in."""
        text = EXAMPLE.read_text(encoding="utf-8")
        tag = re.search("<script.*</script>", text)
        assert tag is not None
        assert tag[0] == re.sub(
            'sha384-[^"]*', "sha384-HASH", format_script_tag("https://proxy.example")
        )
        text = text.replace(tag[0], format_script_tag(system.url))
        for place, value in (
            ("https://proxy.example", system.url),
            (f"{1:064}", system.keys.verification_key.hex()),
            ('seen="1"', f'seen="{seen}"'),
            ('lang="en"', f'lang="{lang}"'),
        ):
            assert text.count(place) == 1, place
            text = text.replace(place, value)
        self.page = text
        self.policy = POLICY.format(proxy=system.url, worker="blob:")
        return self

    async def index(self, _: Request) -> Response:
        headers = {"Content-Security-Policy": self.policy}
        return Response(self.page, media_type="text/html", headers=headers)

    async def script(self, request: Request) -> Response:
        headers = {"Content-Security-Policy": self.policy}
        script = self.scripts[request.path_params["name"]]
        return Response(script, media_type="text/javascript", headers=headers)


def client_scripts(folder: Path) -> dict[str, bytes]:
    """Return the client in two files, for pages that nobody builds."""
    if shutil.which("node") is None or not (WEB / "node_modules").exists():
        leave_out("the client without a build step in a real browser (needs Node)")
    subprocess.run(["node", WEB / "client" / "bundle.mjs", folder], check=True, timeout=120)
    return {path.stem: path.read_bytes() for path in folder.glob("*.js")}


@contextmanager
def running_shop() -> Iterator[Shop]:
    shop = Shop()
    routes = [Route("/", shop.index), Route("/{name:path}.js", shop.script)]
    with served(Starlette(routes=routes)) as shop.url:
        yield shop


class Customer(Visitor):
    """Somebody who visits a shop."""

    def __init__(
        self,
        context: BrowserContext,
        shop: Shop,
        system: System,
        trap: Trap,
        *,
        prelude: str = IN_A_HURRY,
    ):
        super().__init__(context, system.front, trap)
        self.shop = shop
        self.warnings: list[str] = []
        context.add_init_script(prelude)
        context.add_init_script(EVENTS)

    def enter(self) -> Customer:
        self.page.goto(self.shop.url)
        return self

    def question(self) -> list[str]:
        """Return the sentences of the question once it is there."""
        self.expect("sottovoce-consent [part=consent]").to_be_visible()
        return self.at("sottovoce-consent [part=sentence]").all_inner_texts()

    def can_agree(self) -> None:
        """Wait until the question was displayed long enough for a yes."""
        yes = "sottovoce-consent button[part~=yes]"
        self.expect(yes).not_to_have_attribute("aria-disabled", "true")

    def events(self) -> list[list[str]]:
        """Return the events of the elements: which one, which event, and what it tells."""
        events: list[list[str]] = self.page.evaluate("events")
        return events

    def call(self, name: str, *args: object) -> Any:
        """Call a function of the widget's script."""
        script = "async ([url, name, args]) => (await import(url))[name](...args)"
        return self.page.evaluate(script, [f"{self.front.url}/widget.js", name, args])

    def press(self, part: str) -> None:
        self.at(f"sottovoce-consent button[part~={part}]").click()

    def state(self, words: str) -> None:
        self.says("sottovoce-consent [part=state]", words)

    def lists(self, titles: list[str]) -> None:
        self.until(lambda: self.titles() == titles, f"{titles} and not {self.titles()}")

    def titles(self) -> list[str]:
        return self.at("sottovoce-list [part=link]").all_inner_texts()

    def sent(self, batches: int) -> None:
        """Wait until this many batches were sent.

        A page that left before the answer came sends its batch again.
        """

        def count() -> int:
            posts = [
                request
                for request in self.front.requests
                if request.method == "POST" and request.status > 0
            ]
            return len({request.body for request in posts})

        self.until(lambda: count() == batches, f"{batches} batches")

    def _hear(self, message: ConsoleMessage) -> None:
        if message.text.startswith("sottovoce: "):
            self.warnings.append(message.text)
        else:
            super()._hear(message)

    def check(self) -> None:
        """Check that requests to the proxy name the shop and nothing else about the visitor."""
        assert self._trap is None or self._trap.caught == []
        assert self.errors == [], self.errors
        assert self.context.cookies() == []
        for page in self.context.pages:
            assert page.evaluate("window.violations ?? []") == []
        for request in self.front.requests:
            self._check(request)

    def _check(self, request: RecordedRequest) -> None:
        assert request.headers["origin"] == self.shop.url
        cached = {"if-none-match"} if request.path == "/widget.js" else set()
        assert not (TOLD - cached) & set(request.headers), request.path
        assert request.query == b""
        assert self.shop.url.encode() not in request.body
