"""Random streams: repeatable, and apart for each purpose."""

from __future__ import annotations

import pytest

from sottovoce.data.streams import stream
from sottovoce.errors import SettingsError


def test_seed_purpose_and_part_each_make_another_stream() -> None:
    streams = [stream(0, "split"), stream(1, "split"), stream(0, "users"), stream(0, "split", 1)]
    assert len({generator.integers(2**63) for generator in streams}) == 4
    assert stream(0, "split").integers(2**63) == stream(0, "split").integers(2**63)


def test_the_numbers_are_pinned() -> None:
    """A published split must stay what it was."""
    assert stream(0, "split").integers(0, 1000, 5).tolist() == PINNED


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_seed_must_fit(seed: int) -> None:
    with pytest.raises(SettingsError, match="seed"):
        stream(seed, "split")


PINNED = [873, 388, 920, 525, 741]
