"""The guide for products does what it says, with a browser on another origin."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.nightly.follow import BLOCK, DOCS, Follower, follow
from tests.nightly.shopper import A_MINUTE, Shopper, shopper

__all__ = ["follow", "shopper"]


@pytest.mark.slow
def test_the_product_engineer_s(
    follow: Callable[[str], Follower], tmp_path: Path, shopper: Callable[[str], Shopper]
) -> None:
    """In an empty folder, with a browser on another origin; trials are as long as they are."""
    page = "tutorials/product.md"
    counted = sum(map(commands, BLOCK.findall((DOCS / page).read_text(encoding="utf-8"))))
    assert f"the whole page has {counted}." in (DOCS / page).read_text(encoding="utf-8")
    person = follow(page)
    person.know(
        **{
            "--trial": f"--trial --port {person.port('8080')}",
            "--epoch-seconds 20": f"--epoch-seconds 1 --port {person.port('8080')}",
            "--people 20000 --items 500": "--people 200 --items 100",
        }
    )
    person.install()
    person.next()
    script, consent = printed_lines(person.start("Ctrl-C"))
    person.know(SCRIPT=script, CONSENT=consent)
    person.next()
    person.start("Serving HTTP")

    visitor = shopper(f"http://localhost:{person.port('8000')}")
    assert visitor.question()[0].startswith("This is a trial")
    first = visitor.until(lambda titles: len(titles) == 5, "five articles")
    assert "Black tea" in first
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
    stands = person.next()
    assert "Catalogue version 2" in stands
    assert re.search("Epoch . counted 1,100 reports", stands)  # ten people's and the browser's

    assert "HR@10" in person.next()
    person.stop(0)
    said = person.start("Ctrl-C")
    assert "8 epochs" in said
    assert "176 dummies" in said
    (key,) = re.findall("Verification key: ([0-9a-f]{64})", said)
    person.know(KEY=key)
    told = " ".join(person.next().split())
    quoted = (DOCS / page).read_text(encoding="utf-8")
    assert " ".join(re.findall("^> (.*)$", quoted, re.MULTILINE)) in told
    assert "Epoch 1 is closed" in person.next()
    person.next_python()
    assert person.left == 0


def printed_lines(said: str) -> list[str]:
    """The script and the question, of the three lines for a page."""
    script, consent, _ = re.findall("^  (<.*>)$", said, re.MULTILINE)
    return [script, consent]


def commands(block: tuple[str, str]) -> int:
    """How many a block has; a file that is written is one, and what runs in Python is none."""
    language, code = block
    plain = re.sub(r"<<'END'\n.*?\nEND\n", "\n", code, flags=re.DOTALL).replace("\\\n", "")
    return len(plain.splitlines()) if language == "sh" else 0
