"""The texts that `sottovoce client` prints about a client, and the same content for JSON files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from decimal import ROUND_DOWN, Context
from typing import TYPE_CHECKING, Any

from sottovoce.cli import output
from sottovoce.privacy import format_epsilon

if TYPE_CHECKING:
    from sottovoce.client import Outlook, Reason, Recommendation, Status, Terms

# Minimum share of a reason that is printed. Smaller shares would be printed as 0%.
MIN_REASON_SHARE = 0.005
# The remaining epsilon is rounded down to six digits, so that it is never shown too large.
REMAINING_FIGURES = Context(prec=6, rounding=ROUND_DOWN)
# Unknown items that a status lists.
MAX_UNKNOWN_LISTED = 20


def format_spent(epsilon: float | None) -> str:
    """Format an epsilon, rounded up."""
    return "unknown" if epsilon is None else format_epsilon(epsilon, 6)


def format_remaining(epsilon: float | None) -> str:
    """Format the epsilon that is left of a limit, rounded down."""
    if epsilon is None:
        return "unknown"
    return f"{float(REMAINING_FIGURES.create_decimal(str(epsilon))):g}"


def describe_price(terms: Terms, status: Status, outlook: Outlook | None) -> str:
    """Return the cost of an epoch, and how many of the remaining epochs the limit allows.

    Args:
        terms: The terms.
        status: The client's status.
        outlook: The outlook of the terms; None if the ledger is damaged.
    """
    price = f"An epoch costs epsilon {format_spent(float(terms.cost))}."
    if outlook is None:
        return f"{price} The ledger is damaged, so nothing may be reported."
    text = (
        f"{price} Your limit of {format_spent(status.limit)}, of which "
        f"{format_remaining(status.remaining)} is left, allows {outlook.turns_within_limit} of the "
        f"{output.pluralize(outlook.turns_left, 'epoch')} left under these terms."
    )
    if outlook.turns_within_limit == outlook.turns_left:
        return text
    return (
        f"{text} Then reporting stops, at epsilon {format_spent(outlook.epsilon_at_limit)} in all."
    )


def describe_status(status: Status, terms_command: str) -> Iterator[tuple[str, str]]:
    """Yield the labels and values of a table about the client.

    Args:
        status: The client's status.
        terms_command: The command line that shows the terms.
    """
    yield "proxy", status.proxy_url
    yield "epoch", "none yet" if status.epoch is None else str(status.epoch)
    if status.start is not None:
        yield "start", output.describe_start(status.start)
    terms = status.terms
    if terms is None:
        yield "terms", f"none accepted yet: {terms_command}"
    else:
        text = (
            f"{terms.mechanism}, {output.pluralize(terms.reports, 'report')} of epsilon "
            f"{format_spent(terms.epsilon)} an epoch, {status.epochs} of "
            f"{output.pluralize(terms.epochs, 'epoch')} so far, mixed with those of at least "
            f"{output.pluralize(terms.min_clients, 'device')} and "
            f"{output.pluralize(terms.dummies, 'random report')}"
        )
        yield "terms", text
    if status.pending_terms is not None:
        yield (
            "new terms",
            f"the server asks for other terms; accept them to report again: {terms_command}",
        )
    spent = f"epsilon {format_spent(status.spent)} of {format_spent(status.limit)}"
    yield "spent", status.problem or spent
    yield "reporting", _describe_reporting(status)
    yield "batches", ", ".join(f"{n} {state}" for state, n in status.batches.items()) or "none"
    # Before the first sync there is no catalogue.
    if status.epoch is None:
        yield "items", f"{status.interactions}; there is no catalogue yet"
    else:
        yield "items", f"{status.interactions}, {status.in_catalogue} of them in the catalogue"
        yield "not in the catalogue", ", ".join(status.unknown_items[:MAX_UNKNOWN_LISTED]) or "none"


def _describe_reporting(status: Status) -> str:
    """Return whether the next sync may report, and if not, why."""
    if status.paused:
        return "paused"
    if status.problem:
        return "off: the ledger is damaged"
    if status.terms is None:
        return "off: no terms are accepted"
    return "on" if status.pending_terms is None else "off: other terms wait for an answer"


def describe_list(status: Status, *, has_reasons: bool) -> Iterator[str]:
    """Yield sentences that explain a list of recommendations to the owner.

    Args:
        status: The client's status.
        has_reasons: Whether an item of the list has a score.
    """
    if not status.in_catalogue:
        yield "None of your recorded items is in the catalogue."
    if status.start is not None:
        yield output.describe_start(status.start)
    elif not status.reports_behind:
        # Without any reports the model is zero, so only tags can rank items.
        by_tags = has_reasons and status.in_catalogue
        order = "recommendations use tags only" if by_tags else "the items are in catalogue order"
        yield f"The model is not trained yet, because no reports have been counted: {order}."
        return
    if not status.in_catalogue:
        yield "These are popular items."
    if status.is_young:
        yield (
            "The model is not good yet: its last epoch counted only "
            f"{output.pluralize(status.reports_behind, 'report')}, for "
            f"{output.pluralize(status.items, 'item')}."
        )


def describe_reasons(recommendation: dict[str, Any]) -> str:
    """Return the reasons of a recommendation in words.

    Args:
        recommendation: The result of `recommendation_to_dict`.
    """
    return ", ".join(
        f"{reason['title'] if reason['kind'] == 'item' else reason['tag'] + ': ' + reason['name']}"
        f" ({reason['share']:.0%})"
        for reason in recommendation["reasons"]
        if reason["share"] > MIN_REASON_SHARE
    )


def recommendation_to_dict(recommendation: Recommendation) -> dict[str, Any]:
    """Return a recommendation for JSON, with the same keys as the browser's client."""
    return {
        "id": recommendation.id,
        "title": recommendation.title,
        "score": recommendation.score,
        "reasons": [_reason_to_dict(reason) for reason in recommendation.reasons],
    }


def _reason_to_dict(reason: Reason) -> dict[str, Any]:
    # Import it here, because `--help` must not import cryptography.
    from sottovoce.protocol import Item

    source, share = reason.source, reason.share
    if isinstance(source, Item):
        return {"kind": "item", "id": source.id, "title": source.title, "share": share}
    if source is None:
        return {"kind": "now", "share": share}
    return {"kind": "tag", "tag": source.kind, "name": source.name, "share": share}


def outlook_to_dict(outlook: Outlook | None) -> dict[str, Any]:
    """Return an outlook for JSON. Without an outlook, all values are null."""
    names = ("promise", "turns_left", "turns_within_limit", "epsilon_at_limit", "summary")
    return dict.fromkeys(names) if outlook is None else asdict(outlook)
