"""Recommending, on the device and without a network: what is computed here never leaves."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np

from sottovoce.core.recommending import Taste, WideModel, find_best_rows, weigh_history
from sottovoce.core.tags import Tag
from sottovoce.protocol import Item, Release

MAX_OWN_ITEMS = 1_000
"""Own items that a list is made from, the latest: a longer history must not take longer."""


@dataclass(frozen=True)
class Reason:
    """What speaks for a recommendation: an own item, or a tag that own items have."""

    what: Item | Tag
    share: float
    """Its part of all that speaks for the recommendation, 0..1."""


@dataclass(frozen=True)
class Recommendation:
    id: str
    title: str
    score: float
    """How well it fits; to compare within one list only."""
    because: tuple[Reason, ...]
    """What speaks for it most; empty if nothing of the owner's does."""


@dataclass(frozen=True, eq=False)
class Personal(Taste):
    """The model of a release for somebody with these items: scores, and what they are made of."""

    release: Release

    @classmethod
    def of(cls, release: Release, touched: Mapping[str, int]) -> Self:
        """`touched`: own items, and the moments at which they were, a later one larger."""
        model, numbers = build_wide_model(release), release.catalogue.numbers
        moments = {numbers[item]: at for item, at in touched.items() if item in numbers}
        rows = sorted(sorted(moments, key=lambda row: (-moments[row], row))[:MAX_OWN_ITEMS])
        weights = weigh_history(np.array([moments[row] for row in rows], np.int64))
        return cls(model, release.catalogue.tags, rows, model.shares(rows, weights), release)

    def reasons(self, item: int) -> tuple[Reason, ...]:
        """What speaks for an item most."""
        items = self.release.catalogue.items
        return tuple(
            Reason(items[what] if isinstance(what, int) else what, share)
            for what, share in self.list_reasons(item)
        )


def build_wide_model(release: Release, *, tags_only: bool = False) -> WideModel:
    """As published, with the catalogue's tags; or what there would be without anybody's reports.

    Before the first reports V is the server's noise: it says nothing, and tags alone do.
    """
    manifest, V = release.manifest, release.V
    return WideModel.from_model(
        V if manifest.reports_behind and not tags_only else np.zeros_like(V),
        release.catalogue.tags,
        alpha=manifest.alpha,
        regularization=manifest.regularization,
    )


def list_recommendations(
    release: Release, touched: Mapping[str, int], n: int
) -> list[Recommendation]:
    """The n best items that were not touched; among equals the catalogue's order holds."""
    with np.errstate(all="ignore"):  # as for a batch, whatever the application has told numpy
        personal = Personal.of(release, touched)
        scores = personal.scores()
        best = find_best_rows(scores, release.rows_of([*touched]), n)
        items = release.catalogue.items
        return [
            Recommendation(items[i].id, items[i].title, float(scores[i]), personal.reasons(int(i)))
            for i in best
        ]
