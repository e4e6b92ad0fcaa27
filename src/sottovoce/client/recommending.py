"""Recommending, on the device and without a network: what is computed here never leaves."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sottovoce.core.recommending import Taste, WideModel, find_best_rows, weigh_history
from sottovoce.core.tags import Tag
from sottovoce.protocol import Item, Release

# A list is made from this many own items, the latest, so that a long history takes no longer.
MAX_OWN_ITEMS = 1_000


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
    """How well it fits; comparable within one list only."""
    because: tuple[Reason, ...]
    """The strongest reasons; empty if no own item speaks for it."""


def build_wide_model(release: Release, *, tags_only: bool = False) -> WideModel:
    """Build the model of a release with the catalogue's tags.

    Args:
        release: The release.
        tags_only: Whether to leave out what people reported.
    """
    manifest, V = release.manifest, release.V
    # Before the first reports V is the server's noise.
    has_reports = manifest.reports_behind and not tags_only
    return WideModel.from_model(
        V if has_reports else np.zeros_like(V),
        release.catalogue.tags,
        alpha=manifest.alpha,
        regularization=manifest.regularization,
    )


def compute_taste(release: Release, touched: Mapping[str, int]) -> Taste:
    """Apply a history to the model of a release.

    Args:
        release: The release.
        touched: The own items, each with the moment when it was touched; later is larger.
    """
    model, numbers = build_wide_model(release), release.catalogue.numbers
    moments = {numbers[item]: at for item, at in touched.items() if item in numbers}
    rows = sorted(sorted(moments, key=lambda row: (-moments[row], row))[:MAX_OWN_ITEMS])
    weights = weigh_history(np.array([moments[row] for row in rows], np.int64))
    return Taste(model, release.catalogue.tags, rows, model.shares(rows, weights))


def list_recommendations(
    release: Release, touched: Mapping[str, int], n: int
) -> list[Recommendation]:
    """Return the n best items that were not touched; equal scores are in the catalogue's order."""
    items = release.catalogue.items
    # Settings of numpy in the application must not let this fail.
    with np.errstate(all="ignore"):
        taste = compute_taste(release, touched)
        scores = taste.scores()
        best = find_best_rows(scores, release.rows_of([*touched]), n)
        reasons = [
            tuple(
                Reason(items[what] if isinstance(what, int) else what, share)
                for what, share in taste.list_reasons(int(row))
            )
            for row in best
        ]
    return [
        Recommendation(items[row].id, items[row].title, float(scores[row]), because)
        for row, because in zip(best, reasons, strict=True)
    ]
