"""The guide for products works, with a browser on another origin."""

import re
from collections.abc import Callable

import pytest

from tests.nightly.follow import DOCS, ROOT, Follower, follow
from tests.nightly.shopper import MINUTE_SECONDS, Shopper, shopper

__all__ = ["follow", "shopper"]

PAGE = "products.md"
WIDGET_TEXTS = (ROOT / "web" / "widget" / "src" / "texts.ts").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_guide_for_products(
    follow: Callable[[str], Follower], shopper: Callable[[str], Shopper]
) -> None:
    """Follow it in an empty folder, with a browser on another origin and trials of full length."""
    person = follow(PAGE)
    person.know(
        **{
            "--trial": f"--trial --port {person.port('8080')}",
            "--epoch-seconds 20": f"--epoch-seconds 1 --port {person.port('8080')}",
            "--people 20000 --items 500": "--people 200 --items 100",
        }
    )
    person.install()
    assert person.next().startswith("Yes: 2,000 people")
    assert "HR@10" in person.next()
    person.next()
    script, consent = find_page_lines(person.start("Ctrl-C"))
    person.know(SCRIPT=script, CONSENT=consent)
    person.next()
    person.start("Serving HTTP")

    visitor = shopper(f"http://localhost:{person.port('8000')}")
    asked = visitor.question()
    first = visitor.until(lambda titles: len(titles) == 5, "five articles")
    assert first[0] == "Black tea"
    visitor.press("yes")
    visitor.until(lambda titles: titles != first, "a list that has learnt")
    visitor.wait_for_batch()
    text = person.next()
    assert "This is version 2 of the catalogue" in text
    seconds = visitor.seconds_until(lambda titles: "Black tea" not in titles)
    print(f"withdrawn: gone from the open page after {seconds:.0f} s")
    assert seconds < MINUTE_SECONDS
    assert "White tea" in visitor.titles()
    visitor.press("pause")
    visitor.state("Paused")
    visitor.press("pause")
    visitor.state("You take part")
    visitor.press("forget")
    visitor.state("Delete your history")
    visitor.press("forget")
    visitor.state("You do not take part")
    assert "other tags" in person.next()
    assert "The catalogue has 2 items" in person.next()
    stands = person.next()
    assert "Catalogue version 2" in stands
    assert "cannot be reached" not in stands, "the proxy waits for its server"
    assert re.search(r"Epoch \d+ counted 1,100 reports", stands)  # ten people's and the browser's

    person.stop(0)
    text = person.start("Ctrl-C")
    assert "1 in each of 4 of 20 epochs" in text
    assert "236 dummies" in text
    assert 'limit="8"' in text
    (key,) = re.findall("Verification key: ([0-9a-f]{64})", text)
    person.know(KEY=key)
    text = " ".join(person.next().split())
    for quoted in list_quotes():
        assert any(quoted in source for source in (text, *asked, WIDGET_TEXTS)), quoted
    assert "Epoch 1 is closed" in person.next()
    person.next_python()  # the keys of a backend
    person.next_python()  # a backend: `tests/sandbox/test_shop.py` runs it
    person.next_python()
    assert person.left == 0


def find_page_lines(text: str) -> list[str]:
    """Return the script and the question, of the three lines for a page."""
    script, consent, _ = re.findall("^  (<.*>)$", text, re.MULTILINE)
    return [script, consent]


def list_quotes() -> list[str]:
    """Return the sentences that people read according to the guide."""
    blocks = re.findall("(?:^> .*\n)+", (DOCS / PAGE).read_text(encoding="utf-8"), re.MULTILINE)
    return [" ".join(quote.replace("> ", "").split()) for quote in blocks]
