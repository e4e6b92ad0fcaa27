"""A service that lives, seen from a page that stays open: items, keys and trainings change."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest

from sottovoce.protocol import Item
from sottovoce.server.administration import begin_training
from tests.server.changes import change_catalogue, with_added, with_titles, without

if TYPE_CHECKING:
    from tests.web.system import System
    from tests.web.visitor import Visitor


@pytest.mark.slow
def test_a_page_follows_its_service(visitor: Visitor, system: System) -> None:
    """By itself, but for another training, to which its owner must say yes."""
    first = system.signed().manifest
    visitor.taking_part(first.epoch, "toy story", "fargo")
    own, gone = visitor.films()[0], visitor.advice()[0]
    for change in (
        partial(with_added, items=[Item("new", "Zebra Crossing (2026)", {"genre": ("Comedy",)})]),
        partial(with_titles, titles={own: "Another Name (1995)"}),
        partial(without, ids=[gone]),
    ):
        change_catalogue(system.store, change)
    system.turn()
    visitor.sees_left(first.epoch + 1)
    visitor.says("#films", "Another Name")
    visitor.until(lambda: gone not in visitor.advice(), "a retired film to go")
    visitor.choose("zebra")
    assert "new" in visitor.films()

    system.rotate_keys()
    system.turn()
    visitor.sees_left(first.epoch + 2)
    (settings,) = visitor.stored("settings")["settings"]
    assert settings["trusted"] == system.keys.verification_key.hex(), "nobody leads back"

    training = replace(system.settings.training, epsilon=3.0)
    begin_training(system.store, replace(system.settings, training=training), anew=False)
    system.turn()
    visitor.says("#alert", "The server wants other terms.", "Nothing was sent")
    assert len(visitor.charges()) == 3
    visitor.at("#accept-terms").click()
    visitor.says("#new-terms-dialog", "another training", "rise from epsilon 2.5 to 3")
    visitor.at("#new-terms-dialog-yes").click()
    visitor.sees_left(first.epoch + 3)
    assert len(visitor.charges()) == 4
    assert visitor.spent() == 20 * (3 * 2.5 + 3)
