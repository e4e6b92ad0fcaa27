"""Every test of ranking twice: with numpy alone, and with all that can be compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sottovoce.simulation.evaluation import ranking

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True, scope="module", params=[float("inf"), -1.0], ids=["numpy", "numba"])
def loops(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranking, "NUMPY_FIRST", request.param)
        yield
