"""A disk that is full under a real process: 503, and when there is room it goes on by itself."""

from __future__ import annotations

import sys
from pathlib import Path

import httpx
import pytest

from tests.live.processes import Sender, Site, launching, sender
from tests.live.test_kill import check
from tests.processes import wait_until

if sys.platform == "linux":
    import resource

    def let_write(pid: int, most: int = resource.RLIM_INFINITY) -> None:
        """No file of this process grows beyond so many bytes."""
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))


def one_more(people: Sender) -> bytes:
    """A batch of the present epoch."""
    signed = people.manifest()
    assert signed is not None
    return people.batch(signed)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="another process's limits are Linux's")
@pytest.mark.parametrize("part", ["proxy", "server"])
def test_it_heals_without_an_operator(folder: Path, part: str) -> None:
    site = Site(folder)
    site.change("server", ("epoch_seconds = 1", "epoch_seconds = 3"))
    ready = f"http://127.0.0.1:{site.ports[f'watch {part}']}/readyz"

    def status() -> int:
        people.try_once()
        return httpx.get(ready, trust_env=False).status_code

    with launching(site) as launcher, sender(site) as people:
        for each in ("server", "proxy"):
            launcher.start(each)
        people.go_on(1)
        let_write(launcher.pid(part), 1)
        if part == "proxy":
            people.waiting["proxy"].append(one_more(people))
            people.try_once()
            assert people.waiting["proxy"], "it was answered 503"
        wait_until(lambda: status() == 503, f"the {part} to notice")
        for _ in range(10):
            assert status() == 503
        let_write(launcher.pid(part))
        wait_until(lambda: status() == 200, f"the {part} to go on")
        people.go_on(2)
    check(site, people, epochs=2)
    if part == "proxy":
        assert "can be written again" in site.logs()
