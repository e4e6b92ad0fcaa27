"""The guide for operators does what it says."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from sottovoce.sandbox.system import set_values
from tests.nightly.follow import Follower, follow

__all__ = ["follow"]


@pytest.mark.slow
def test_the_operator_s(follow: Callable[[str], Follower], tmp_path: Path) -> None:
    person = follow("tutorials/operator.md")
    person.install()
    person.next()
    assert re.fullmatch("[0-9a-f]{64}\n", (tmp_path / "key.txt").read_text())
    set_values(tmp_path / "my-server" / "server.toml", {("", "heartbeat"): 0.5})
    person.start()
    assert "Settings written" in person.next()
    set_values(tmp_path / "my-proxy" / "proxy.toml", {("", "poll_seconds"): 0.5})
    person.start()
    person.next()
    assert (tmp_path / "monday.sqlite").exists()
    assert "20 live clients" in person.next()
    stands = person.next()
    assert "Epoch 2 of training 1 is open" in stands
    assert "ready" in stands
    person.stop(0)
    assert "Epoch 2 of training" in person.next()
    assert "The next epoch has the number 3." in person.start()
    assert person.left == 0
