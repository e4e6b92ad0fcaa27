"""The guide for products does what it says, with a browser on another origin."""

import re
from collections.abc import Callable

import pytest

from tests.nightly.follow import DOCS, ROOT, Follower, follow
from tests.nightly.shopper import A_MINUTE, Shopper, shopper

__all__ = ["follow", "shopper"]

PAGE = "products.md"
TEXTS = (ROOT / "web" / "widget" / "src" / "texts.ts").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_guide_for_products(
    follow: Callable[[str], Follower], shopper: Callable[[str], Shopper]
) -> None:
    """In an empty folder, with a browser on another origin; trials are as long as they are."""
    person = follow(PAGE)
    person.know(
        **{
            "--trial": f"--trial --port {person.port('8080')}",
            "--epoch-seconds 20": f"--epoch-seconds 1 --port {person.port('8080')}",
            "--people 20000 --items 500": "--people 200 --items 100",
        }
    )
    person.install()
    assert "HR@10" in person.next()
    person.next()
    script, consent = printed_lines(person.start("Ctrl-C"))
    person.know(SCRIPT=script, CONSENT=consent)
    person.next()
    person.start("Serving HTTP")

    visitor = shopper(f"http://localhost:{person.port('8000')}")
    asked = visitor.question()
    first = visitor.until(lambda titles: len(titles) == 5, "five articles")
    assert first[0] == "Black tea"
    visitor.press("yes")
    visitor.until(lambda titles: titles != first, "a list that has learnt")
    said = person.next()
    assert "Version 2 holds for lists within a minute" in said
    seconds = visitor.seconds_until(lambda titles: "Black tea" not in titles)
    print(f"withdrawn: gone from the open page after {seconds:.0f} s")
    assert seconds < A_MINUTE
    assert "White tea" in visitor.titles()
    visitor.press("pause")
    visitor.state("Paused")
    visitor.press("pause")
    visitor.state("You take part")
    visitor.press("forget")
    visitor.state("Delete what")
    visitor.press("forget")
    visitor.state("Paused")
    assert "other tags" in person.next()
    stands = person.next()
    assert "Catalogue version 2" in stands
    assert re.search("Epoch . counted 1,100 reports", stands)  # ten people's and the browser's

    person.stop(0)
    said = person.start("Ctrl-C")
    assert "8 epochs" in said
    assert "186 dummies" in said
    assert 'limit="10"' in said
    (key,) = re.findall("Verification key: ([0-9a-f]{64})", said)
    person.know(KEY=key)
    told = " ".join(person.next().split())
    for quoted in quotes():
        assert any(quoted in each for each in (told, *asked, TEXTS)), quoted
    assert "Epoch 1 is closed" in person.next()
    person.next_python()  # of a backend: `tests/service/test_attest.py` runs it
    person.next_python()
    assert person.left == 0


def printed_lines(said: str) -> list[str]:
    """The script and the question, of the three lines for a page."""
    script, consent, _ = re.findall("^  (<.*>)$", said, re.MULTILINE)
    return [script, consent]


def quotes() -> list[str]:
    """What the guide says that people are told."""
    found = re.findall("(?:^> .*\n)+", (DOCS / PAGE).read_text(encoding="utf-8"), re.MULTILINE)
    return [" ".join(quote.replace("> ", "").split()) for quote in found]
