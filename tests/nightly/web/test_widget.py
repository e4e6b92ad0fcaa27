"""The widget: axe-core, small screens, dark colours, offline, Firefox, and request times."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.nightly.web.test_access import FITS_SCRIPT, NARROW_SIZE, VIEW_CASES, axe
from tests.nightly.web.test_firefox import Firefox, firefox, program
from tests.nightly.web.test_gaps import MAX_DELAY_SECONDS, TICK_SECONDS
from tests.processes import wait_until
from tests.server.world import KEYS
from tests.web import chromium
from tests.web.front import HURRY, instead
from tests.web.shop import (
    IN_A_HURRY,
    POLICY,
    WEB,
    Customer,
    Shop,
    client_scripts,
    running_shop,
)
from tests.web.system import System, running
from tests.web.test_offline import away

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.web.chromium import Trap

__all__ = ["axe", "firefox", "program"]
Enter = Callable[..., Customer]
N_POLLS = 4
# The key in the README.
README_KEY = "03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8"
VIOLATIONS_SCRIPT = """
async () => (await axe.run({ include: [["sottovoce-consent"], ["sottovoce-list"]] },
  { resultTypes: ["violations"] })).violations.map(({ id, nodes }) =>
    `${id}: ${nodes.map(({ target }) => target)}`)
"""
SHADOW_PARTS = (
    "return [...document.querySelector(arguments[0]).shadowRoot.querySelectorAll(arguments[1])]"
)


@pytest.fixture(scope="module")
def shops() -> Iterator[tuple[Shop, Shop]]:
    with running_shop() as one, running_shop() as other:
        yield one, other


@pytest.fixture(scope="module")
def whole_system(browser: Browser, folder: Path, shops: tuple[Shop, Shop]) -> Iterator[System]:
    with running(folder, people=6, origins=tuple(shop.url for shop in shops)) as system:
        yield system


@pytest.fixture
def enter(
    browser: Browser, system: System, shops: tuple[Shop, Shop], trap: Trap
) -> Iterator[Enter]:
    with ExitStack() as opened:

        def make(shop: Shop = shops[0], prelude: str = IN_A_HURRY, **options: Any) -> Customer:
            context = opened.enter_context(chromium.fresh_profile(browser, trap, **options))
            return Customer(context, shop, system, trap, prelude=prelude).enter()

        for shop in shops:
            shop.open(system)
        yield make


def find_violations(customer: Customer, axe: str) -> list[str]:
    assert customer.page.evaluate(FITS_SCRIPT)
    customer.page.evaluate(f"() => {{ {axe} }}")
    problems: list[str] = customer.page.evaluate(VIOLATIONS_SCRIPT)
    return problems


@pytest.mark.parametrize(("size", "scheme"), VIEW_CASES)
@pytest.mark.parametrize("lang", ["en", "de"])
def test_axe_finds_no_violation_and_nothing_is_too_wide(
    size: tuple[int, int], scheme: str, lang: str, enter: Enter, system: System, axe: str
) -> None:
    customer = enter(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
    customer.shop.open(system, lang=lang)
    customer.enter().question()
    customer.expect("sottovoce-list [part=reason]").to_have_count(5)
    customer.at("sottovoce-consent summary").click()
    assert find_violations(customer, axe) == []
    customer.press("yes")
    customer.expect("sottovoce-consent [part=choices]").to_be_visible()
    assert find_violations(customer, axe) == []
    customer.press("forget")
    customer.expect("sottovoce-consent button[part~=no]").to_be_visible()
    assert find_violations(customer, axe) == []
    customer.press("no")
    epoch = system.signed().manifest.epoch
    worse = system.signed_with(epoch=epoch + 1, reports=21)
    system.front.lies = {"/v2/manifest": instead(worse)}
    customer.expect("sottovoce-consent [part=changes]").to_be_visible()
    assert find_violations(customer, axe) == []


def test_colours_are_the_dark_ones_or_the_shops(enter: Enter) -> None:
    def fill(customer: Customer) -> str:
        customer.question()
        section = customer.at("sottovoce-consent section")
        return str(section.evaluate("(each) => getComputedStyle(each).backgroundColor"))

    light, dark = (fill(enter(color_scheme=scheme)) for scheme in ("light", "dark"))
    assert (light, dark) == ("rgb(246, 246, 244)", "rgb(36, 36, 35)")
    own = enter(color_scheme="dark")
    own.page.evaluate(
        "document.documentElement.style.setProperty('--sottovoce-background', 'rgb(1, 2, 3)')"
    )
    assert fill(own) == "rgb(1, 2, 3)"


def test_offline_lists_go_on_and_nothing_is_sent(enter: Enter, system: System) -> None:
    customer = enter()
    customer.question()
    customer.press("yes")
    customer.sent(1)
    away(customer)
    before = system.signed()
    system.turn()
    customer.page.evaluate("document.querySelector('sottovoce-list').setAttribute('seen', '608')")
    customer.lists([item.title for item in system.recommended_by(before, ["1", "608"])[:5]])
    customer.sent(1)
    customer.context.unroute_all()
    customer.context.set_offline(False)
    customer.sent(2)


def test_a_service_of_another_protocol_is_refused(enter: Enter, system: System) -> None:
    """Check that lists go on, and that nothing is sent until the protocol is back."""
    customer = enter()
    customer.question()
    customer.press("yes")
    customer.sent(1)
    before = system.signed()
    system.turn()
    system.front.lies = {"/v2/manifest": instead(system.of_another_version())}
    customer.until(lambda: customer.warnings != [], "a warning")
    assert "version 3" in customer.warnings[-1]
    customer.lists([item.title for item in system.recommended_by(before, ["1"])[:5]])
    customer.sent(1)
    system.front.lies = {}
    customer.sent(2)


def test_request_times_do_not_depend_on_what_was_seen(
    enter: Enter, system: System, shops: tuple[Shop, Shop]
) -> None:
    """Compare the requests of two shops: both must leave at the same whole ticks."""
    shops[1].open(system, seen="608")
    customers = [enter(shop, prelude="") for shop in shops]
    customers[1].page.evaluate(
        "(ids) => { const list = document.querySelector('sottovoce-list');"
        " for (const id of ids) list.setAttribute('seen', id); }",
        [item.id for item in system.catalogue.items[20:100]],
    )

    def looks(shop: Shop) -> list[float]:
        looks_seen = [item for item in system.front.requests if item.path == "/v2/manifest"]
        return [item.at for item in looks_seen if item.headers["origin"] == shop.url][:N_POLLS]

    for _ in range(4 * 70 * N_POLLS):
        if all(len(looks(shop)) == N_POLLS for shop in shops):
            break
        customers[0].page.wait_for_timeout(250)
    one, other = (np.diff(looks(shop)) / TICK_SECONDS for shop in shops)
    assert len(one) == len(other) == N_POLLS - 1
    print(f"ticks between looks: {one.round(3).tolist()}, {other.round(3).tolist()}")
    assert one.round().tolist() == other.round().tolist()
    for ticks in (one, other):
        assert np.median(np.abs(ticks - ticks.round())) * TICK_SECONDS < MAX_DELAY_SECONDS


def test_the_client_without_elements_as_its_readme_shows_it(
    enter: Enter, system: System, folder: Path
) -> None:
    """Serve the README's code as it stands."""
    scripts = client_scripts(folder / "js")
    scripts["sottovoce-worker"] = HURRY + scripts["sottovoce-worker"]
    customer = enter()
    readme = (WEB / "client" / "README.md").read_text(encoding="utf-8")
    shown = re.search("```ts\n(.*?)```", readme, re.DOTALL)
    assert shown is not None
    text = shown[1]
    for place, value in (
        ('"sottovoce-client"', '"./sottovoce-client.js"'),
        ("https://proxy.example", system.url),
        (README_KEY, KEYS.verification_key.hex()),
        ("limit: 500", "limit: 5000"),
        ('["film-0", "film-17"]', '["1"]'),
    ):
        assert text.count(place) == 1, place
        text = text.replace(place, value)
    shop = customer.shop
    shop.scripts = {**scripts, "readme": text.encode()}
    shop.page = '<script type="module" src="/readme.js"></script>'
    shop.policy = f"default-src 'self'; connect-src {system.url}"
    lines: list[str] = []
    customer.page.on("dialog", lambda dialog: dialog.accept())
    customer.page.on("console", lambda message: lines.append(message.text))
    customer.enter().sent(1)
    for item in system.recommended(["1"])[:5]:
        assert any(line.startswith(f"{item.title} [Object") for line in lines), lines


def test_a_visit_in_firefox(firefox: Firefox, system: System, shops: tuple[Shop, Shop]) -> None:
    """Shorten pauses in the shop itself: nothing can be put before its scripts from outside."""
    shop = shops[0].open(system)
    shop.page = shop.page.replace("<title>", '<script src="/hurry.js"></script><title>')
    shop.policy = POLICY.format(proxy=f"'self' {system.url}", worker="blob:")
    shop.scripts["hurry"] = IN_A_HURRY.encode()
    firefox.command("WebDriver:SetWindowRect", width=NARROW_SIZE[0], height=NARROW_SIZE[1])
    firefox.command("WebDriver:Navigate", url=shop.url)

    def texts(element: str, part: str) -> list[str]:
        script = f"{SHADOW_PARTS}.map((each) => each.textContent)"
        texts: list[str] = firefox.run(script, f"sottovoce-{element}", part)
        return texts

    def press(part: str) -> None:
        firefox.run(f"{SHADOW_PARTS}[0].click()", "sottovoce-consent", f"button[part~={part}]")

    wanted = [item.title for item in system.recommended(["1"])[:5]]
    wait_until(lambda: texts("list", "[part=link]") == wanted, "what Python recommends")
    wait_until(lambda: len(texts("consent", "[part=sentence]")) == 3, "the question")
    enabled = "button[part~=yes]:not([aria-disabled])"
    wait_until(lambda: texts("consent", enabled), "a question that could be read")
    press("yes")
    wait_until(
        lambda: [item.method for item in system.front.requests].count("POST") == 1, "a batch"
    )
    press("pause")
    wait_until(lambda: texts("consent", "[part=state]")[0].startswith("Paused"), "a pause")
    assert firefox.run(f"return {FITS_SCRIPT}")
