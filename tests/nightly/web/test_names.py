"""The page in a training of names: what many see now, for everybody, and one's own report."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.nightly.web.test_access import (
    NARROW_SIZE,
    WIDE_SIZE,
    axe,
    find_violations,
    visit_in_size,
)
from tests.web.system import running

if TYPE_CHECKING:
    from tests.web.conftest import Visit
    from tests.web.system import System

__all__ = ["axe"]


@pytest.fixture(scope="module")
def whole_system(browser: object, folder: Path) -> Iterator[System]:
    """Run a system that has learnt names of one epoch."""
    with running(folder, mechanism="named", reports=1, people=200) as system:
        yield system


@pytest.mark.parametrize(
    ("size", "scheme"), [pytest.param(WIDE_SIZE, "light"), pytest.param(NARROW_SIZE, "dark")]
)
def test_what_many_see_now_is_shown_without_a_history(
    size: tuple[int, int], scheme: str, visit: Visit, system: System, axe: str
) -> None:
    """Compare with the signed model; then take part, and look at the one report."""
    signed = system.signed()
    release, shares = system.release(signed), system.release(signed).V[:, 0]
    visitor = visit_in_size(visit, size, scheme).open()
    visitor.at("#now-section summary").click()
    visitor.expect("#now li .share").to_have_count(10)
    texts = visitor.at("#now li .share").all_inner_texts()
    shown = [float(text.removesuffix("%")) for text in texts]
    np.testing.assert_allclose(shown, np.sort(100 * shares)[:-11:-1], atol=0.051)
    best = release.catalogue.items[int(np.argmax(shares))]
    name = visitor.at("#now li .name").first.inner_text()
    # The page moves an article to the front: "Shawshank Redemption, The".
    assert sorted(name.split()) == sorted(best.title.replace(",", "").split())
    assert find_violations(visitor, axe) == []
    visitor.choose("harry potter", "raiders")
    visitor.at("#take-part").click()
    names = signed.manifest.terms.names
    visitor.says("#terms-short", f"(what you touched last, or one of {names} by chance)")
    visitor.at("#terms-dialog-yes").click()
    visitor.sees_left(signed.manifest.epoch)
    visitor.says("#batch", "it names one of your films")
    visitor.expect("#reports tbody tr").to_have_count(1)
    assert find_violations(visitor, axe) == []
