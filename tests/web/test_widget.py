"""The widget in a shop on another origin, with a strict policy, in a real browser."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sottovoce.server import Keys
from sottovoce.service.files import get_assets_folder
from tests.live.conftest import quick_folder
from tests.web import chromium
from tests.web.front import instead
from tests.web.shop import POLICY, Customer, Shop, running_shop
from tests.web.system import System, running
from tests.web.visitor_scripts import DUMP

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.web.chromium import Trap

PEOPLE = 6
MOST = 45_000
"""Bytes of it, compressed."""
PUBLIC = {
    "GET " + name for name in ("widget.js", "manifest", "shelf", "models", "catalogues", "batches")
}
LOOKS = {("GET", f"/v2/{name}", 0) for name in ("manifest", "shelf")}
"""How many there are depends on the test."""
Enter = Callable[..., Customer]


@pytest.fixture(scope="module")
def shops() -> Iterator[tuple[Shop, Shop]]:
    """Run a shop that the proxy's operator names, and one that the proxy does not know."""
    with running_shop() as named, running_shop() as unknown:
        yield named, unknown


@pytest.fixture(scope="module")
def whole_system(browser: Browser, folder: Path, shops: tuple[Shop, Shop]) -> Iterator[System]:
    with running(folder, people=PEOPLE, origins=(shops[0].url,)) as system:
        yield system


@pytest.fixture
def enter(
    browser: Browser, system: System, shops: tuple[Shop, Shop], trap: Trap
) -> Iterator[Enter]:
    """Lets somebody into the shop, with a fresh profile each."""
    with ExitStack() as opened:

        def make(shop: Shop = shops[0], **options: Any) -> Customer:
            context = opened.enter_context(chromium.fresh_profile(browser, trap))
            shop.open(system, **options)
            customers.append(Customer(context, shop, system, trap))
            return customers[-1].enter()

        customers: list[Customer] = []
        yield make
        for customer in customers:
            customer.check()


def asked(system: System) -> set[str]:
    """Return the kinds of requests that the proxy received."""
    requests = [
        (request.method, request.path.removeprefix("/v2")) for request in system.front.requests
    ]
    return {f"{method} {path.split('/')[1]}" for method, path in requests}


def listed(system: System, *seen: str) -> list[str]:
    return [item.title for item in system.recommended(list(seen))[:5]]


def test_widget_is_small() -> None:
    size = len(gzip.compress((get_assets_folder() / "widget.js").read_bytes(), mtime=0))
    print(f"widget.js: {size} bytes, compressed")
    assert size <= MOST


def test_visitor_agrees_and_gets_recommendations(enter: Enter, system: System) -> None:
    customer = enter()
    short = customer.question()
    assert [short[0][:24], len(short)] == ["Your history stays here;", 3]
    customer.lists(listed(system, "1"))
    first = system.recommended(["1"])[0].id
    link = customer.at("sottovoce-list a").first
    assert link.get_attribute("href") == f"/articles/{first}"
    assert customer.at("sottovoce-list [part=reason]").first.inner_text().startswith("Because of ")
    assert asked(system) == PUBLIC
    assert customer.events() == [["sottovoce-list", "shown"]]
    customer.press("yes")
    customer.state("You take part.")
    assert ["sottovoce-consent", "consented"] in customer.events()
    customer.sent(1)
    others = [request for request in system.front.requests if request.method != "GET"]
    assert [(request.method, request.status) for request in others] == [
        ("OPTIONS", 204),
        ("POST", 202),
    ]
    assert len(system.opened(others[-1].body)) == 20
    customer.page.reload()
    customer.state("You take part.")
    customer.looks_again()
    customer.sent(1)
    assert system.turn().reports == 20 * (PEOPLE + 1)


def test_refusal_is_kept_and_nothing_is_sent(enter: Enter, system: System) -> None:
    customer = enter(lang="de")
    short = customer.question()
    assert short[0].startswith("Was hier angesehen wird, bleibt auf diesem Gerät; höchstens ")
    customer.press("no")
    customer.state("Keine Teilnahme")
    customer.page.reload()
    customer.state("Keine Teilnahme")
    customer.lists(listed(system, "1"))
    customer.looks_again()
    assert asked(system) == PUBLIC
    (stored,) = customer.page.evaluate(DUMP, None).values()
    assert stored["charges"] == stored["batches"] == []
    customer.press("ask")
    assert customer.question() == short


def test_pause_and_forget_by_keys_alone(enter: Enter, system: System) -> None:
    customer = enter()
    customer.question()
    key = customer.page.keyboard.press

    def press(words: str) -> None:
        """Wherever the focus is, the button is not far."""
        for _ in range(12):
            key("Tab")
            if customer.page.evaluate(FOCUSED) == words:
                return key("Enter")
        raise AssertionError(words)

    press("Details")
    customer.expect("sottovoce-consent dd").to_have_count(22)
    customer.can_agree()
    press("Take part")
    customer.state("You take part.")
    customer.sent(1)
    press("Pause")
    customer.state("Paused")
    system.turn()
    customer.looks_again()
    press("Forget")
    customer.state("Delete your history")
    press("Cancel")
    customer.state("Paused")
    press("Forget")
    customer.state("Delete your history")
    press("Forget")
    customer.state("You do not take part")
    (stored,) = customer.page.evaluate(DUMP, None).values()
    assert (stored["history"], len(stored["charges"])) == ([], 1)
    (settings,) = stored["settings"]
    assert (settings["terms"], settings["limit"]) == (None, 0)
    customer.lists(listed(system))
    customer.sent(1)
    press("Take part …")
    customer.question()
    customer.can_agree()
    press("Take part")
    customer.state("You take part.")
    customer.sent(2)


FOCUSED = "document.activeElement?.shadowRoot?.activeElement?.textContent"


def test_two_tabs_are_one_device(enter: Enter, system: System) -> None:
    customer = enter()
    first = customer.page
    customer.page = customer.context.new_page()
    customer.enter().question()
    customer.lists(listed(system, "1"))
    customer.press("yes")
    customer.state("You take part.")
    customer.page = first
    customer.state("You take part.")
    customer.looks_again(4)
    customer.sent(1)


def test_a_choice_in_one_tab_is_displayed_in_the_other_without_a_request(enter: Enter) -> None:
    customer = enter()
    customer.question()
    customer.press("yes")
    customer.state("You take part.")
    first = customer.page
    customer.page = customer.context.new_page()
    customer.enter().state("You take part.")
    customer.context.set_offline(True)
    customer.press("pause")
    customer.state("Paused")
    customer.page = first
    customer.state("Paused")
    customer.press("pause")
    customer.page = customer.context.pages[-1]
    customer.state("You take part.")


# Presses yes as soon as another question is there, as a finger would that was on its way.
PRESS_AT_ONCE = """() => {
  const { shadowRoot } = document.querySelector("sottovoce-consent");
  const press = () => shadowRoot.querySelector("[part~=yes]")?.click();
  new MutationObserver(press).observe(shadowRoot, { childList: true });
}"""


def test_changed_question_is_marked_and_accepts_no_immediate_click(
    enter: Enter, system: System
) -> None:
    customer = enter()
    customer.question()
    customer.can_agree()
    customer.page.evaluate(PRESS_AT_ONCE)
    epoch = system.signed().manifest.epoch
    other = system.signed_with(epoch=epoch + 1, min_clients=2)
    system.front.lies = {"/v2/manifest": instead(other)}
    customer.state("The question has just changed")
    (stored,) = customer.page.evaluate(DUMP, None).values()
    assert stored["settings"][0]["terms"] is None
    customer.press("yes")
    customer.state("You take part.")
    (stored,) = customer.page.evaluate(DUMP, None).values()
    (settings,) = stored["settings"]
    assert settings["terms"]["minClients"] == 2


def test_changed_terms_are_named_and_need_consent(enter: Enter, system: System) -> None:
    customer = enter()
    customer.question()
    customer.press("yes")
    customer.sent(1)
    epoch = system.signed().manifest.epoch
    worse = system.signed_with(epoch=epoch + 1, reports=21, min_clients=2)
    system.front.lies = {"/v2/manifest": instead(worse)}
    customer.says("sottovoce-consent [part=title]", "changed terms")
    changes = customer.at("sottovoce-consent [part=changes] li").all_inner_texts()
    assert [change.partition(": ")[2] for change in changes] == ["21, before 20", "2, before 3"]
    customer.press("no")
    customer.state("The terms have changed: no report")
    customer.looks_again()
    customer.state("The terms have changed: no report")
    customer.sent(1)


def test_scripts_mark_items_as_seen_or_hidden(enter: Enter, system: System) -> None:
    customer = enter()
    customer.lists(listed(system, "1"))
    best = [item.id for item in system.recommended(["1", "608"])]
    customer.call("markSeen", "608")
    customer.lists(listed(system, "1", "608"))
    customer.call("hide", best[:2])
    titles = [item.title for item in system.recommended(["1", "608"])]
    customer.lists(titles[2:7])
    assert customer.warnings == []
    customer.page.evaluate("document.querySelector('sottovoce-list').setAttribute('seen', 'no-1')")
    customer.until(lambda: customer.warnings, "a warning")
    assert customer.warnings == ['sottovoce: "no-1" is not in the catalogue']
    odd = "document.querySelector('sottovoce-list').setAttribute('seen', 'a\\nb')"
    customer.page.evaluate(odd)
    customer.until(lambda: len(customer.warnings) > 1, "a warning")
    assert "control character" in customer.warnings[1]


# Displays items as a page does that knows their prices.
RENDER = """() => {
  const list = document.querySelector("sottovoce-list");
  list.render = (items) => list.replaceChildren(...items.map(({ title, link, reason }) =>
    Object.assign(document.createElement("p"), { textContent: [title, link, reason].join("|") })));
}"""
SIMILAR = """(id) => {
  const similar = document.createElement("sottovoce-similar");
  similar.setAttribute("item", id);
  document.body.append(similar);
}"""


def test_page_displays_and_orders_items_itself(enter: Enter, system: System) -> None:
    customer = enter()
    customer.lists(listed(system, "1"))
    recommended = system.recommended(["1"])
    customer.page.evaluate(RENDER)
    customer.expect("sottovoce-list > p").to_have_count(5)
    rows = [row.split("|") for row in customer.at("sottovoce-list > p").all_inner_texts()]
    expected = [[item.title, f"/articles/{item.id}"] for item in recommended[:5]]
    assert [row[:2] for row in rows] == expected
    assert all(row[2].startswith("Because of ") for row in rows)
    customer.call("hide", [item.id for item in system.catalogue.items])
    customer.expect("sottovoce-list > p").to_have_count(0)
    assert customer.events()[-1] == ["sottovoce-list", "empty"]
    scores = customer.call("score", [*[item.id for item in recommended], "unknown"])
    assert scores[-1] is None
    assert scores[:-1] == pytest.approx([item.score for item in recommended])


def test_similar_items_are_the_same_for_everybody_and_nothing_is_kept(
    enter: Enter, system: System
) -> None:
    similar = []
    for seen in ("1", "608"):
        customer = enter(seen=seen)
        customer.lists(listed(system, seen))
        kinds = asked(system)
        customer.page.evaluate(SIMILAR, "34")
        customer.expect("sottovoce-similar [part=link]").to_have_count(5)
        similar.append(customer.at("sottovoce-similar [part=link]").all_inner_texts())
        customer.looks_again()
        assert list_history(customer) == [seen]
        assert asked(system) == kinds
    assert similar[0] == similar[1]


def test_a_service_that_follows_a_trial_asks_again(
    enter: Enter, system: System, shops: tuple[Shop, Shop]
) -> None:
    """Name the proxy and the key of another service in the page, as the guide says."""
    customer = enter()
    customer.question()
    customer.press("yes")
    customer.sent(1)
    keys = Keys.generate()
    with (
        quick_folder() as folder,
        running(folder, people=PEOPLE, origins=(shops[0].url,), keys=keys) as service,
    ):
        customer.shop.open(service, seen="608")
        customer.enter()
        sentences = customer.question()
        assert len(sentences) == 4
        assert "with other services of this site" in sentences[3].lower()
        customer.lists([item.title for item in service.recommended(["608"])[:5]])
        customer.press("yes")
        customer.state("You take part.")
        customer.until(lambda: len(service.front.batches()) == 1, "a batch for the service")
        customer.press("forget")
        customer.state("Delete your history")
        customer.press("forget")
        customer.state("You do not take part")
        customer.until(lambda: not list_history(customer), "two empty histories")
        customer.leaves()
    customer.sent(1)


def list_history(customer: Customer) -> list[str]:
    """Return the items of the histories with all services."""
    databases = customer.page.evaluate(DUMP, ["history"]).values()
    rows = [row for stored in databases for row in stored["history"]]
    return [touched["id"] for row in rows for touched in row["items"]]


def test_requests_do_not_depend_on_the_history(enter: Enter, system: System) -> None:
    """Compare kind, order and size; the client's own tests compare times."""
    visits = []
    for seen in ("1", "608"):
        system.front.requests.clear()
        customer = enter(seen=seen)
        customer.lists(listed(system, seen))
        customer.press("yes")
        customer.sent(1)
        customer.leaves()
        requests = [
            (request.method, request.path, len(request.body)) for request in system.front.requests
        ]
        asked = [request for request in requests if not request[1].startswith("/v2/batches/")]
        visits.append([request for request in asked if request not in LOOKS])
    assert visits[0] == visits[1]
    assert len(visits[0]) == 5


def test_shop_with_its_own_worker_needs_no_blob(enter: Enter, system: System) -> None:
    # Everything is set by a script, without attributes.
    customer = enter()
    shop = customer.shop
    customer.lists(listed(system, "1"))
    consent = re.search("<sottovoce-consent (proxy=.*?)>", shop.page)
    assert consent is not None
    shop.page = shop.page.replace(consent[1], "")
    shop.policy = POLICY.format(proxy=system.url, worker="'self'")
    shop.scripts["worker"] = customer.page.evaluate("window.workerText").encode()
    customer.enter()
    values = dict(re.findall('(\\w+)="(.*?)"', consent[1]))
    customer.page.evaluate(
        "async (given) => (await import(`${given.proxy}/widget.js`)).start(given)",
        {**values, "limit": float(values["limit"]), "worker": "/worker.js"},
    )
    customer.lists(listed(system, "1"))


def test_unnamed_site_is_refused_with_the_reason(
    enter: Enter, system: System, shops: tuple[Shop, Shop]
) -> None:
    _, shop = shops
    customer = enter(shop)
    customer.until(lambda: customer.warnings, "a warning")
    assert f"does not allow pages of {shop.url}" in customer.warnings[0]
    ((element, event, message),) = customer.events()
    assert (element, event) == ("sottovoce-list", "error")
    assert message in customer.warnings[0]
    assert customer.at("sottovoce-list").evaluate("(list) => list.offsetHeight") == 0
    assert {(request.path, request.status) for request in system.front.requests} == {
        ("/widget.js", 200),
        ("/v2/manifest", 200),
    }
    (stored,) = customer.page.evaluate(DUMP, None).values()
    assert stored["charges"] == stored["batches"] == stored["files"] == []
