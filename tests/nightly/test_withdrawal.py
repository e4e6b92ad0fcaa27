"""An article is withdrawn in an epoch of a week: an open page and a device, in real processes."""

import os
import re
import signal
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha384
from pathlib import Path

import pytest

from tests.nightly.shopper import MINUTE_SECONDS, Shopper, shopper
from tests.processes import free_port, read_until

__all__ = ["shopper"]
COLUMN_OPTIONS = ("--columns", "item=sku,title=name,kind=category")
CATALOGUE_TABLE = """\
sku,name,category
T-01,Green tea,tea
T-02,Black tea,tea
T-03,White tea,tea
C-01,Espresso,coffee
"""
# A page that waits for another version of the widget names both.
OTHER_WIDGET_HASH = f"sha384-{b64encode(sha384(b'another version').digest()).decode()}"
LOOK_INTERVAL_SECONDS = 30


class Service:
    """A running `sottovoce up`, and commands in another terminal."""

    def __init__(self, folder: Path):
        self.folder, self.page_port, self._port = folder, free_port(), free_port()
        (folder / "shop.csv").write_text(CATALOGUE_TABLE)
        self._up = subprocess.Popen(
            [
                *(sys.executable, "-m", "sottovoce", "up", "week", "--catalogue", "shop.csv"),
                *(*COLUMN_OPTIONS, "--epoch-seconds", str(7 * 86_400), "--min-clients", "1"),
                *("--port", str(self._port), "--origin", f"http://localhost:{self.page_port}"),
            ],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        assert self._up.stdout is not None
        self.output = read_until("Ctrl-C", self._up.stdout).string

    def run(self, *words: str) -> str:
        command = [sys.executable, "-m", "sottovoce", *words]
        done = subprocess.run(
            command, cwd=self.folder, capture_output=True, text=True, timeout=60, check=True
        )
        return done.stdout

    def device(self, *words: str) -> str:
        return self.run("client", *words, "--folder", "device")

    def serve_page(self) -> subprocess.Popen[bytes]:
        lines = re.findall("^  (<.*>)$", self.output, re.MULTILINE)
        lines[0] = lines[0].replace('integrity="', f'integrity="{OTHER_WIDGET_HASH} ')
        lines[2] = '<sottovoce-list n="5" href="/{id}" seen="T-01"></sottovoce-list>'
        (self.folder / "shop").mkdir()
        page = "\n".join(["<!doctype html>", '<html lang="en">', *lines])
        (self.folder / "shop" / "index.html").write_text(page)
        where = ("--bind", "localhost", "--directory", "shop", str(self.page_port))
        return subprocess.Popen(
            [sys.executable, "-m", "http.server", *where],
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def stop(self) -> None:
        self._up.send_signal(signal.SIGINT)
        self._up.communicate(timeout=60)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    service = Service(tmp_path)
    page = service.serve_page()
    yield service
    page.kill()
    page.wait()
    service.stop()


@pytest.mark.slow
def test_article_is_gone_within_a_minute(
    service: Service, shopper: Callable[[str], Shopper]
) -> None:
    (begin,) = re.findall("sottovoce client (init .*)", service.output)
    service.device(*begin.split())
    service.device("record", "T-01")
    service.device("look")
    assert "Black tea" in service.device("recommend")
    visitor = shopper(f"http://localhost:{service.page_port}")
    visitor.question()
    visitor.until(lambda titles: "Black tea" in titles, "the article")

    (service.folder / "shop.csv").write_text(CATALOGUE_TABLE.replace("T-02,Black tea,tea\n", ""))
    update = ("server", "catalogue", "update", "--config", "week/server/server.toml", "shop.csv")
    with ThreadPoolExecutor() as pool:
        service.run(*update, *COLUMN_OPTIONS)
        waiting = pool.submit(measure_seconds_until_gone, service)
        page = visitor.seconds_until(lambda titles: "Black tea" not in titles)
        device = waiting.result()
    print(f"gone from the open page after {page:.0f} s, from the device after {device:.0f} s")
    assert device < MINUTE_SECONDS
    assert page < MINUTE_SECONDS
    assert "Epoch 1 of training 1 is open" in service.run(
        "server", "status", "--config", "week/server/server.toml"
    )


def measure_seconds_until_gone(service: Service) -> float:
    """Return the seconds for a device that has just looked and looks at regular times."""
    began = time.monotonic()
    for look in range(1, 4):
        time.sleep(max(0, began + LOOK_INTERVAL_SECONDS * look - time.monotonic()))
        service.device("look")
        if "Black tea" not in service.device("recommend"):
            break
    return time.monotonic() - began
