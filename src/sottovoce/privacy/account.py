"""The statement: what one person's part in a training costs, in numbers and in words.

Two views. *Local*: somebody can tell whose reports these are; it holds whatever happens. *Central*:
an honest proxy shuffles everybody's reports and nobody can link two; far smaller, and it rests on
that.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from decimal import ROUND_CEILING, Decimal
from math import ceil, floor, log10
from typing import TYPE_CHECKING

from sottovoce.errors import SettingsError
from sottovoce.privacy.events import checked_delta
from sottovoce.privacy.local import is_counted, local_epsilon
from sottovoce.privacy.shuffle import Crowd, central_epsilon, is_composed

if TYPE_CHECKING:
    from typing import Any

    from sottovoce.privacy.events import Reporting

WEAK_ABOVE = 100.0
"""A lifetime local budget beyond this protects nobody by itself."""
WEAK_CENTRAL_ABOVE = 10.0
"""And a central one beyond this is nothing to stand on either."""
DELTA = 1e-6


@dataclass(frozen=True)
class Figures:
    """The budget of one span."""

    span: str
    reports: int
    pure: float
    """Local, by pure composition (delta 0)."""
    local: float
    """Local, exact at delta."""
    central: float | None
    """After the shuffle, at delta; None where no crowd is known."""


@dataclass(frozen=True)
class Account:
    """Everything that is promised about one way of reporting."""

    event: Reporting
    delta: float
    crowd: Crowd | None
    people: int | None
    """In the smallest epoch; None where that is not known."""
    trainings: int
    spans: tuple[Figures, ...]
    """A report, an epoch, a training, a lifetime."""

    @property
    def training(self) -> float:
        """`T k eps`."""
        return self.event.pure

    @property
    def lifetime(self) -> Figures:
        """The longest span: what a person is asked to accept."""
        return self.spans[-1]

    @property
    def weak(self) -> bool:
        """Whether there is nothing to stand on."""
        central = self.lifetime.central
        nothing_central = central is None or central > WEAK_CENTRAL_ABOVE
        return self.lifetime.pure > WEAK_ABOVE and nothing_central

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "delta": self.delta,
            "epsilon": self.event.epsilon,
            "reports_per_epoch": self.event.reports,
            "epochs": self.event.epochs,
            "trainings": self.trainings,
            "loud_fraction": self.event.loud_fraction,
            "crowd": None if self.crowd is None else asdict(self.crowd),
            "spans": [asdict(figures) for figures in self.spans],
            "weak": self.weak,
        }

    def statement(self) -> str:
        """A paragraph that a product owner can repeat: what is promised, and what is not."""
        return " ".join([self._sends(), self._local(), self._central(), NOT_PROMISED])

    def _sends(self) -> str:
        event = self.event
        epochs = "one epoch" if event.epochs == 1 else f"each of {event.epochs:,} epochs"
        lifetime = "" if self.trainings == 1 else f", in each of {self.trainings} trainings"
        return (
            f"Each person sends {_count(event.reports, 'report')} of four bytes in "
            f"{epochs}{lifetime}. Local epsilon: {shown(event.epsilon, 6)} "
            f"for a report, {shown(self.spans[1].pure, 6)} for an epoch, {shown(event.pure, 6)} "
            "for the whole training."
        )

    def _local(self) -> str:
        figures = self.lifetime
        bound = "" if is_counted(self._whole()) else "; an upper bound: too many to count out"
        text = (
            "Promised in every case, even if every report can be traced to its sender: the reports "
            f"of a person are at most e^{shown(figures.pure)} times as likely as with any other "
            f"history (e^{shown(figures.local)} with probability 1 - {self.delta:g}{bound})."
        )
        if figures.pure > WEAK_ABOVE:
            text += (
                f" A local epsilon of {shown(figures.pure)} over a lifetime is weak: by itself it "
                "protects nobody."
            )
        return text

    def _central(self) -> str:
        central, crowd = self.lifetime.central, self.crowd
        if central is None or crowd is None:
            return f"There is no central figure, because {self._no_crowd()}."
        bound = "" if self._is_composed() else " (an upper bound: these are too many to count out)"
        text = (
            f"Promised if the proxy shuffles honestly and {crowd.honest:,} honest people take part "
            f"in every epoch: what the server sees is at most e^{shown(central)} times as likely "
            f"as with any other history of the person, with probability 1 - {self.delta:g}{bound}. "
            "This does not hold if proxy and server work together."
        )
        if central > WEAK_CENTRAL_ABOVE:
            text += " That is weak too." if self.lifetime.pure > WEAK_ABOVE else " That is weak."
        return text

    def _no_crowd(self) -> str:
        if self.people is None:
            return "the number of people is not known"
        return "an epoch may have no more than one person, who has nobody to hide among"

    def _is_composed(self) -> bool:
        return self.crowd is None or is_composed(self._whole(), self.crowd)

    def _whole(self) -> Reporting:
        return _lifetime(self.event, self.trainings)


NOT_PROMISED = (
    "Not promised: to hide that a person takes part, to hide what the model says about people in "
    "general, or to hide what a person shows elsewhere."
)


def account(
    event: Reporting, among: Crowd | int | None = None, delta: float = DELTA, trainings: int = 1
) -> Account:
    """Account for a report, an epoch, a training and a lifetime of `trainings`.

    `among` are the people of the smallest epoch, or only their number.
    """
    checked_delta(delta)
    if trainings < 1:
        raise SettingsError(f"trainings must be a whole number of at least 1, got {trainings!r}")
    crowd = among if isinstance(among, Crowd) else Crowd.of(among)
    spans = {
        "report": event.one_report(),
        "epoch": event.one_epoch(),
        "training": event,
        "lifetime": _lifetime(event, trainings),
    }
    # Spans often coincide (one report an epoch, one training a lifetime): each is computed once.
    known = {
        each: (
            local_epsilon(each, delta),
            None if crowd is None else central_epsilon(each, crowd, delta),
        )
        for each in set(spans.values())
    }
    figures = tuple(
        Figures(span, each.total, each.pure, *known[each]) for span, each in spans.items()
    )
    people = among.clients if isinstance(among, Crowd) else among
    return Account(event, delta, crowd, people, trainings, figures)


def _lifetime(event: Reporting, trainings: int) -> Reporting:
    return replace(event, epochs=event.epochs * trainings)


def up(value: float, digits: int) -> float:
    """To so many digits, never below: a promise is not rounded in our favour."""
    if value == 0:
        return 0.0
    places = digits - 1 - floor(log10(value))
    return ceil(value * 10.0**places) / 10.0**places


def shown(epsilon: float, digits: int = 4) -> str:
    """An epsilon as every table and sentence has it: never less than it is.

    What differs in the sixteenth digit is the rounding of a product, no loss of privacy.
    """
    exact = Decimal(f"{epsilon:.15g}")
    step = Decimal(1).scaleb(exact.adjusted() - digits + 1)
    return f"{float(exact.quantize(step, ROUND_CEILING)):.{digits}g}"


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}" + ("" if n == 1 else "s")
