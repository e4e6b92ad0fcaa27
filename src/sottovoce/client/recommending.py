"""Recommending on the device, without a network. No result of this module leaves the device."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sottovoce.core.recommending import Taste, WideModel, find_best_rows, weigh_history
from sottovoce.core.tags import Tag
from sottovoce.protocol import Item, Release

# Only this many of the latest touched items are used, so that a long history takes no longer.
MAX_OWN_ITEMS = 1_000


@dataclass(frozen=True)
class Reason:
    """One reason for a recommendation."""

    source: Item | Tag | None
    """An item that the owner touched, or a tag of touched items. None if the reason is that many
    people touch the recommended item now."""
    share: float
    """The part of all reasons for the recommendation that this one has, 0..1."""


@dataclass(frozen=True)
class Recommendation:
    """An item that the owner may like."""

    id: str
    """The item's id in the catalogue."""
    title: str
    """The item's title, for people."""
    score: float
    """How well the item fits the history; larger is better. Scores of different lists are not
    comparable."""
    reasons: tuple[Reason, ...]
    """The strongest reasons; empty if none of the touched items is a reason."""


def build_wide_model(release: Release, *, tags_only: bool = False) -> WideModel:
    """Build the model for recommending, from the item matrix and the catalogue's tags.

    Args:
        release: The release.
        tags_only: Whether to ignore the item matrix, which was learned from people's reports, and
            from a public start if there is one.
    """
    manifest, V = release.manifest, release.V
    # Without a start, V is only random noise from the server until the first reports are counted.
    is_used = manifest.has_model and not tags_only
    return WideModel.from_model(
        V if is_used else np.zeros_like(V),
        release.catalogue.tags,
        alpha=manifest.alpha,
        regularization=manifest.regularization,
        has_shares=manifest.terms.asks_for_names,
    )


def compute_taste(release: Release, touched: Mapping[str, int]) -> Taste:
    """Compute the taste of a person from a history and the model of a release.

    Args:
        release: The release.
        touched: The moment when each item was touched, by item id; a later moment is larger.
    """
    model, numbers = build_wide_model(release), release.catalogue.numbers
    moments = {numbers[item]: at for item, at in touched.items() if item in numbers}
    rows = sorted(sorted(moments, key=lambda row: (-moments[row], row))[:MAX_OWN_ITEMS])
    weights = weigh_history(np.array([moments[row] for row in rows], np.int64))
    return Taste(model, release.catalogue.tags, rows, model.shares(rows, weights))


def list_recommendations(
    release: Release, touched: Mapping[str, int], n: int
) -> list[Recommendation]:
    """Return the n best items that were not touched.

    Items with equal scores are in the order of the catalogue.

    Args:
        release: The release.
        touched: The moment when each item was touched, by item id; a later moment is larger.
        n: The largest number of items to return.
    """
    items, reports_behind = release.catalogue.items, release.manifest.reports_behind
    # The application may have told numpy to raise errors; this must not fail because of that.
    with np.errstate(all="ignore"):
        taste = compute_taste(release, touched)
        scores = taste.scores()
        best = find_best_rows(scores, release.rows_of([*touched]), n)
        reasons = [
            tuple(
                Reason(items[source] if isinstance(source, int) else source, share)
                for source, share in taste.list_reasons(int(row))
                # Without reports, nobody knows what people touch now: a start is about the past.
                if source is not None or reports_behind
            )
            for row in best
        ]
    return [
        Recommendation(items[row].id, items[row].title, float(scores[row]), row_reasons)
        for row, row_reasons in zip(best, reasons, strict=True)
    ]
