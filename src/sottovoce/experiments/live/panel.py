"""Whom the page of a trial measures its models on: invented people who take no part in it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sottovoce.data import synthetic_people
from sottovoce.data.synthetic import SYNTHETIC, parse_synthetic
from sottovoce.evaluation.panel import make_panel
from sottovoce.experiments.live.people import on_catalogue

if TYPE_CHECKING:
    from sottovoce.data import Interactions
    from sottovoce.protocol import Catalogue
    from sottovoce.protocol.panel import Panel

PEOPLE = 200
_APART = 1 << 63
"""Seeds of panels and seeds of people who report differ in their highest bit."""


def invented_panel(source: str, catalogue: Catalogue, reporting: Interactions) -> Panel | None:
    """For a system of synthetic people; None for any other: real people are on nobody's panel.

    It says how many of those who report have touched each item: they are invented as well.
    """
    if source.partition(":")[0] != SYNTHETIC:
        return None
    asked = parse_synthetic(source)
    seed = asked.get("seed", 0) ^ _APART
    people = synthetic_people(**{**asked, "n_users": PEOPLE, "seed": seed})
    panel = make_panel(on_catalogue(people, catalogue), catalogue.hash, seed)
    touched = on_catalogue(reporting, catalogue).histories.popularity()
    return replace(panel, touched=tuple(touched.tolist()))
