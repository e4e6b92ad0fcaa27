"""Without a network: recommendations go on, nothing is sent; with it again, all goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.web.front import refuse

if TYPE_CHECKING:
    from tests.web.system import System
    from tests.web.visitor import Visitor


def kept_for_offline(visitor: Visitor) -> None:
    """Wait until the service worker has what it needs."""
    visitor.until(
        lambda: visitor.page.evaluate(
            "async () => { const kept = await caches.keys();"
            " return kept.length > 0 && (await (await caches.open(kept[0])).keys()).length >= 5"
            " && navigator.serviceWorker.controller !== null; }"
        ),
        "the page to be kept",
    )


def away(visitor: Visitor) -> None:
    """Chromium forgets to be offline for a worker that is new: so the way is cut as well."""
    visitor.context.set_offline(True)
    visitor.context.route("**/v2/**", lambda route: route.abort("internetdisconnected"))


def test_offline_the_page_recommends_and_sends_nothing(visitor: Visitor, system: System) -> None:
    first = system.signed().manifest.epoch
    visitor.taking_part(first, "toy story")
    kept_for_offline(visitor)
    before = system.signed()
    away(visitor)
    visitor.says("#status", "Offline: recommendations go on, nothing is sent.")
    system.turn()
    # Before the way is cut for a new worker, its first question may slip through: to nobody.
    system.front.lies["/v2/manifest"] = refuse(503)
    n_before = len(system.front.requests)

    def sees(*films: str) -> None:
        wanted = [item.id for item in system.recommended_by(before, list(films), ordered=False)]
        visitor.until(lambda: visitor.advice() == wanted, "recommendations")

    visitor.choose("fargo")
    sees("1", "608")
    visitor.reload()
    visitor.says("#status", "recommendations go on, nothing is sent")
    sees("1", "608")
    assert visitor.films() == ["1", "608"]
    visitor.choose("inception")
    sees("1", "608", "79132")
    visitor.at("#films > li[data-id='608'] button").click()
    sees("1", "79132")
    visitor.says("#epoch", str(first))
    assert visitor.spent() == system.cost()
    # The browser itself may look for a newer worker: public, and of no account.
    assert {request.path for request in system.front.requests[n_before:]} <= {
        "/v2/manifest",
        "/v2/shelf",
        "/sw.js",
    }
    system.front.lies.clear()
    visitor.context.unroute_all()
    visitor.context.set_offline(False)
    visitor.sees_left(first + 1)
    visitor.expect("#status").to_be_empty()
    assert [batch[4] for batch in system.front.batches()] == [first, first + 1]


def test_service_worker_caches_only_the_page(visitor: Visitor, system: System) -> None:
    # It caches neither the files that the client fetches nor any other address.
    visitor.open()
    kept_for_offline(visitor)
    visitor.reload()
    visitor.looks_again()
    cached = visitor.page.evaluate(
        "async () => { const found = []; for (const name of await caches.keys())"
        " for (const { url } of await (await caches.open(name)).keys())"
        " found.push(new URL(url).pathname); return found.sort(); }"
    )
    own = {"/", "/page/icon.svg", "/page/page.js", "/page/style.css", "/page/worker.js"}
    assert set(cached) - {"/page/panel.json"} == own
