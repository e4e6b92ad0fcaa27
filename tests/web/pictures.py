"""Pictures of the documentation, taken of a demo that runs.

    sottovoce demo --port 8080
    python -m tests.web.pictures http://127.0.0.1:8080 docs --epoch 6

Waits until that epoch. Liberation fonts give the same letters on every machine
(apt-get install fonts-liberation).
"""

from __future__ import annotations

import argparse
import io
import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from playwright.sync_api import sync_playwright

from tests.web import chromium
from tests.web.front import Site
from tests.web.visitor import Visitor

if TYPE_CHECKING:
    from playwright.sync_api import Browser

FILMS = ("matrix 1999", "spirited away", "pulp fiction", "amelie")
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
COLOURS = 96
"""Enough for letters with soft edges; a third of the bytes."""
PATIENCE = 900.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--epoch", type=int, default=1)
    options = parser.parse_args()
    with sync_playwright() as started:
        browser = chromium.launch(started.chromium)
        visitor = taking_part(browser, options.url, options.epoch)
        for scheme in SCHEMES:
            visitor.page.emulate_media(color_scheme=scheme)
            picture = visitor.page.screenshot(animations="disabled")
            write(picture, options.folder / f"page-{scheme}.png")
        browser.close()


def taking_part(browser: Browser, url: str, epoch: int) -> Visitor:
    """Return a visitor whose reports a model has counted, at the top of the page."""
    context = browser.new_context(viewport={"width": 1440, "height": 1000}, color_scheme="light")
    visitor = Visitor(context, Site(url=url))
    visitor.open()
    visitor.choose(*FILMS)
    give_up = time.monotonic() + PATIENCE
    while int(visitor.at("#epoch").inner_text()) < epoch:
        assert time.monotonic() < give_up, f"epoch {epoch} did not come"
        visitor.page.wait_for_timeout(200)
    visitor.take_part()
    visitor.expect("#list-change").to_be_visible(timeout=PATIENCE * 1000)
    visitor.expect("#curve .last").to_be_visible()
    visitor.page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
    return visitor


def write(picture: bytes, path: Path) -> None:
    """Write a picture with few colours: these files are in everybody's clone."""
    from PIL import Image

    image = Image.open(io.BytesIO(picture)).convert("RGB")
    image.quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)


if __name__ == "__main__":
    main()
