"""The privacy report of a training: the privacy cost for one person, in numbers and in words.

It states two kinds of epsilon. The *local* epsilon holds in every case, even if somebody can tell
who sent each report. The *central* epsilon is far smaller, but holds only if an honest proxy
shuffles everybody's reports, so that nobody can tell which of them are from the same person.
"""

from dataclasses import asdict, dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from math import exp
from typing import Any

from sottovoce.privacy.events import DEFAULT_DELTA, Reporting, check_delta
from sottovoce.privacy.local import is_enumerated, local_epsilon
from sottovoce.privacy.shuffle import central_epsilon, is_composed

# A local or central epsilon above this protects nobody. All clients use the same threshold.
WEAK_ABOVE = 10.0
UPPER_BOUND_NOTE = " (an upper bound: these are too many to count out)"
NOT_PROMISED = (
    "Not promised: to hide that a person takes part, to hide what the model says about people in "
    "general, or to hide what a person shows elsewhere."
)


@dataclass(frozen=True)
class Figures:
    """The privacy cost of one span of time."""

    span: str
    """`report`, `epoch` or `training`."""
    reports: int
    """Number of reports of one person in the span."""
    pure: float
    """Local epsilon by pure composition (delta 0)."""
    local: float
    """Local epsilon at delta."""
    central: float | None
    """Central epsilon at delta; None if there are neither other people nor dummies."""
    dummies_only: float | None
    """Central epsilon if every other person is fake; None if there are not enough dummies."""


@dataclass(frozen=True)
class PrivacyReport:
    """The privacy cost of one way of reporting, by span."""

    event: Reporting
    """What each person does in a training."""
    delta: float
    """Delta of the figures that are not pure."""
    people: int | None
    """Number of people in the smallest epoch; None if unknown."""
    spans: tuple[Figures, ...]
    """Figures of one report, one epoch and the whole training."""

    @property
    def training(self) -> Figures:
        """Figures of the whole training, which a person is asked to accept."""
        return self.spans[-1]

    @property
    def is_weak(self) -> bool:
        """Whether the central epsilon, or if there is none the local one, exceeds `WEAK_ABOVE`."""
        central = self.training.central
        # A small central epsilon protects even if the local one is large.
        return (self.training.pure if central is None else central) > WEAK_ABOVE

    def as_dict(self) -> dict[str, Any]:
        """Return the report in the form that is written as JSON."""
        return {
            "delta": self.delta,
            "epsilon": self.event.epsilon,
            "reports_per_epoch": self.event.reports,
            "epochs": self.event.epochs,
            "loud_fraction": self.event.loud_fraction,
            "dummies": self.event.dummies,
            "people": self.people,
            "spans": [asdict(figures) for figures in self.spans],
            "weak": self.is_weak,
        }

    def statement(self) -> str:
        """Return a paragraph that a product owner can quote: what is promised, and what is not."""
        return " ".join(
            [
                self._describe_reports(),
                self._describe_local(),
                self._describe_central(),
                NOT_PROMISED,
            ]
        )

    def _describe_reports(self) -> str:
        event = self.event
        epochs = "one epoch" if event.epochs == 1 else f"each of {event.epochs:,} epochs"
        return (
            f"Each person sends {pluralize(event.reports, 'report')} of four bytes in "
            f"{epochs}. Local epsilon: {format_epsilon(event.epsilon, 6)} "
            f"for a report, {format_epsilon(self.spans[1].pure, 6)} for an epoch, "
            f"{format_epsilon(event.pure, 6)} for the whole training."
        )

    def _describe_local(self) -> str:
        figures = self.training
        note = "" if is_enumerated(self.event) else UPPER_BOUND_NOTE
        text = (
            "Promised in every case, even if every report can be traced to its sender: any "
            f"conclusion from the reports of a person is {describe_bound(figures.pure, digits=4)}"
        )
        # With few reports, epsilon at delta equals the pure one. Printing it twice would confuse.
        if format_epsilon(figures.local) != format_epsilon(figures.pure):
            text += f"; it is also {describe_bound(figures.local, self.delta, digits=4)}{note}"
        text += "."
        if figures.pure > WEAK_ABOVE:
            text += (
                f" A local epsilon of {format_epsilon(figures.pure)} over a lifetime is weak: by "
                "itself it protects nobody."
            )
        return text

    def _describe_central(self) -> str:
        figures, people = self.training, self.people or 1
        central = figures.central
        if central is None:
            reason = "an epoch may have no more than one person, who has nobody to hide among"
            reason = "the number of people is not known" if self.people is None else reason
            return f"There is no central figure, because {reason}."
        note = "" if is_composed(self.event, people) else UPPER_BOUND_NOTE
        proxy = "Promised if the proxy shuffles honestly and"
        claim = "any conclusion from what the server sees is"
        crowd = f"{people:,} honest people take part in every epoch"
        bound = f"{describe_bound(central, self.delta, digits=4)}{note}."
        if figures.dummies_only is None:
            text = f"{proxy} {crowd}: {claim} {bound}"
        else:
            text = (
                f"{proxy} adds {self.event.dummies:,} dummies to every epoch, even if everybody "
                f"else in it is fake: {claim} "
                f"{describe_bound(figures.dummies_only, self.delta, digits=4)}{note}."
            )
            if central < figures.dummies_only:
                text += f" If {crowd}: {bound}"
        text += " This does not hold if proxy and server work together."
        if central > WEAK_ABOVE:
            text += f" A central epsilon of {format_epsilon(central)} is weak too."
        return text


def make_privacy_report(
    event: Reporting, people: int | None = None, delta: float = DEFAULT_DELTA
) -> PrivacyReport:
    """Compute the privacy cost of a report, an epoch and a training.

    Args:
        event: What each person does in a training, as `Settings.event` returns it.
        people: Number of people in the smallest epoch. None if unknown: there is no central
            figure then, unless dummies hide a person.
        delta: Amount by which probabilities may differ beyond the factor e^epsilon, in the figures
            that are not pure.
    """
    check_delta(delta)

    def central(span: Reporting, crowd: int) -> float | None:
        return central_epsilon(span, crowd, delta) if crowd > 1 or span.cover else None

    spans = {"report": event.one_report(), "epoch": event.one_epoch(), "training": event}
    # Spans often coincide (one report an epoch): compute each of them once.
    epsilons = {
        span: (local_epsilon(span, delta), central(span, people or 1), central(span, 1))
        for span in set(spans.values())
    }
    figures = tuple(
        Figures(name, span.total, span.pure, *epsilons[span]) for name, span in spans.items()
    )
    return PrivacyReport(event, delta, people, figures)


def describe_bound(epsilon: float, delta: float = 0.0, digits: int = 3) -> str:
    """Describe the bound `P[S] <= e^epsilon Q[S] + delta` in words.

    Epsilon and delta are rounded up.

    >>> print(describe_bound(0.4273, 1e-6))
    at most e^0.428 (1.54) times as likely as with any other history, plus at most one in \
1,000,000
    """
    # A factor of many thousands cannot be imagined, so it is left out.
    factor = f" ({format_number(exp(epsilon), digits)})" if epsilon < WEAK_ABOVE else ""
    power = f"e^{format_number(epsilon, digits)}"
    text = f"at most {power}{factor} times as likely as with any other history"
    return f"{text}, plus at most {format_chance(delta)}" if delta else text


def format_epsilon(epsilon: float, digits: int = 4) -> str:
    """Format an epsilon for a table, rounded up."""
    return f"{float(_round(epsilon, digits, ROUND_CEILING)):.{digits}g}"


def format_number(value: float, digits: int, rounding: str = ROUND_CEILING) -> str:
    """Format a number with this many significant digits, without an exponent."""
    return f"{_round(value, digits, rounding).normalize():,f}"


def format_chance(delta: float) -> str:
    """Format a delta as "one in 1,000,000"; the chance that is stated is at least delta."""
    # The number is rounded down, so the chance that is stated is never smaller than delta.
    return f"one in {format_number(1 / delta, 6, ROUND_FLOOR)}"


def pluralize(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless it is one."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def _round(value: float, digits: int, rounding: str) -> Decimal:
    # A difference in the sixteenth digit comes from floating point and is no loss of privacy.
    exact = Decimal(f"{value:.15g}")
    return exact.quantize(Decimal(1).scaleb(exact.adjusted() - digits + 1), rounding)
