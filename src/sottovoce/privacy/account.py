"""The statement: what one person's part in a training costs, in numbers and in words.

Two views. *Local*: somebody can tell whose reports these are; it holds whatever happens. *Central*:
an honest proxy shuffles everybody's reports and nobody can link two; far smaller, and it rests on
that.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from fractions import Fraction
from math import ceil, exp, log10
from typing import Any, Literal

from sottovoce.privacy.bound import Group, central_bound
from sottovoce.privacy.events import Reporting, checked_delta
from sottovoce.privacy.ledger import Charge, rounded_up
from sottovoce.privacy.local import is_counted, local_epsilon
from sottovoce.privacy.shuffle import central_epsilon, is_composed

WEAK_ABOVE = 10.0
"""Beyond this an epsilon protects nobody, local or central: the rule of all clients."""
LEAST_DOUBT = 1e-4
"""Times in 100: what is nearer to certainty is not told in digits."""
DELTA = 1e-6
ROUNDING = 1e-12


@dataclass(frozen=True)
class Figures:
    """The budget of one span."""

    span: str
    """`report`, `epoch` or `training`."""
    reports: int
    """How many of one person are in it."""
    pure: float
    """Local, by pure composition (delta 0)."""
    local: float
    """Local, exact at delta."""
    central: float | None
    """After the shuffle, at delta; None where there is nothing to hide among."""
    alone: float | None
    """The same if every other person is fake; None where no dummies hide this one."""


@dataclass(frozen=True)
class Account:
    """Everything that is promised about one way of reporting."""

    event: Reporting
    """What each person does in a training."""
    delta: float
    """Of the figures that are not pure."""
    people: int | None
    """In the smallest epoch; None where that is not known."""
    spans: tuple[Figures, ...]
    """A report, an epoch, the whole training."""

    @property
    def whole(self) -> Figures:
        """Of the training: what a person is asked to accept."""
        return self.spans[-1]

    @property
    def weak(self) -> bool:
        """Whether there is nothing to stand on."""
        central = self.whole.central
        return (self.whole.pure if central is None else central) > WEAK_ABOVE

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "delta": self.delta,
            "epsilon": self.event.epsilon,
            "reports_per_epoch": self.event.reports,
            "epochs": self.event.epochs,
            "loud_fraction": self.event.loud_fraction,
            "dummies": self.event.dummies,
            "people": self.people,
            "spans": [asdict(figures) for figures in self.spans],
            "weak": self.weak,
        }

    def statement(self) -> str:
        """A paragraph that a product owner can repeat: what is promised, and what is not."""
        return " ".join([self._sends(), self._local(), self._central(), NOT_PROMISED])

    def _sends(self) -> str:
        event = self.event
        epochs = "one epoch" if event.epochs == 1 else f"each of {event.epochs:,} epochs"
        return (
            f"Each person sends {_count(event.reports, 'report')} of four bytes in "
            f"{epochs}. Local epsilon: {shown(event.epsilon, 6)} "
            f"for a report, {shown(self.spans[1].pure, 6)} for an epoch, {shown(event.pure, 6)} "
            "for the whole training."
        )

    def _local(self) -> str:
        figures = self.whole
        bound = "" if is_counted(self.event) else TOO_MANY
        text = (
            "Promised in every case, even if every report can be traced to its sender: any "
            f"conclusion from the reports of a person is {at_most(figures.pure, digits=4)}"
        )
        if shown(figures.local) != shown(figures.pure):
            text += f"; it is also {at_most(figures.local, self.delta, digits=4)}{bound}"
        text += "."
        if figures.pure > WEAK_ABOVE:
            text += (
                f" A local epsilon of {shown(figures.pure)} over a lifetime is weak: by itself it "
                "protects nobody."
            )
        return text

    def _central(self) -> str:
        figures, people = self.whole, self.people or 1
        central = figures.central
        if central is None:
            why = "an epoch may have no more than one person, who has nobody to hide among"
            why = "the number of people is not known" if self.people is None else why
            return f"There is no central figure, because {why}."
        bound = "" if is_composed(self.event, people) else TOO_MANY
        proxy = "Promised if the proxy shuffles honestly and"
        seen = "any conclusion from what the server sees is"
        crowd = f"{people:,} honest people take part in every epoch"
        hidden = f"{at_most(central, self.delta, digits=4)}{bound}."
        if figures.alone is None:
            text = f"{proxy} {crowd}: {seen} {hidden}"
        else:
            text = (
                f"{proxy} adds {self.event.dummies:,} dummies to every epoch, even if everybody "
                f"else in it is fake: {seen} {at_most(figures.alone, self.delta, digits=4)}{bound}."
            )
            if central < figures.alone:
                text += f" If {crowd}: {hidden}"
        text += " This does not hold if proxy and server work together."
        if central > WEAK_ABOVE:
            text += f" A central epsilon of {shown(central)} is weak too."
        return text


TOO_MANY = " (an upper bound: these are too many to count out)"
NOT_PROMISED = (
    "Not promised: to hide that a person takes part, to hide what the model says about people in "
    "general, or to hide what a person shows elsewhere."
)


def account(event: Reporting, people: int | None = None, delta: float = DELTA) -> Account:
    """Account for a report, an epoch and a training.

    Args:
        event: What each person does in a training, as `Settings.event` gives it.
        people: How many take part in the smallest epoch; None: not known, so there is no central
            figure.
        delta: What probabilities may differ by, beyond the factor e^epsilon, in a figure that is
            not pure.
    """
    checked_delta(delta)

    def hidden(each: Reporting, among: int) -> float | None:
        return central_epsilon(each, among, delta) if among > 1 or each.cover else None

    spans = {"report": event.one_report(), "epoch": event.one_epoch(), "training": event}
    # Spans often coincide (one report an epoch): each is computed once.
    known = {
        each: (local_epsilon(each, delta), hidden(each, people or 1), hidden(each, 1))
        for each in set(spans.values())
    }
    figures = tuple(
        Figures(span, each.total, each.pure, *known[each]) for span, each in spans.items()
    )
    return Account(event, delta, people, figures)


def at_most(epsilon: float, delta: float = 0.0, digits: int = 3) -> str:
    """What holds for every set S of observations, `P[S] <= e^epsilon Q[S] + delta`, in words.

    Rounded against us; a number that nobody can picture is left out.

    >>> print(at_most(0.4273, 1e-6))
    at most e^0.428 (1.54) times as likely as with any other history, plus at most one in \
1,000,000
    """
    pictured = f" ({_plain(exp(epsilon), digits)})" if epsilon < WEAK_ABOVE else ""
    text = (
        f"at most e^{_plain(epsilon, digits)}{pictured} times as likely as with any other history"
    )
    return f"{text}, plus at most one in {_plain(1 / delta, 6, ROUND_FLOOR)}" if delta else text


def shown(epsilon: float, digits: int = 4) -> str:
    """An epsilon as every table has it: never less than it is."""
    return f"{float(_rounded(epsilon, digits, ROUND_CEILING)):.{digits}g}"


def _plain(value: float, digits: int, rounding: str = ROUND_CEILING) -> str:
    return f"{_rounded(value, digits, rounding).normalize():,f}"


def _rounded(value: float, digits: int, rounding: str) -> Decimal:
    """What differs in the sixteenth digit is the rounding of a product, no loss of privacy."""
    exact = Decimal(f"{value:.15g}")
    return exact.quantize(Decimal(1).scaleb(exact.adjusted() - digits + 1), rounding)


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}" + ("" if n == 1 else "s")


@dataclass(frozen=True)
class Promise:
    """What a device promises to its owner, from its ledger and the terms alone.

    Both figures are for everything that was ever charged, in all trainings, and for the turns that
    are left under the terms.
    """

    local: float
    """The sum of all epsilons: it holds whatever happens."""
    central: float
    """The bound of `bound.py` at `delta`, each report in the crowd that was enforced for it."""
    alone: float
    """The same if every other device is fake: what the proxy's dummies hide by themselves."""
    clients: int
    """The crowd that the terms enforce, the device itself included."""
    delta: float
    """Of the central figures."""
    unit: Literal["account", "device"] | None = None
    """Whom the figures are for, where the terms need accounts; None: one device, and they do not.

    One account shares the turns of the terms among its devices, but each of them has its own limit.
    """

    def in_short(self, reports: int) -> list[str]:
        """What leaves, how much that can tell, how to stop: what anybody is asked, in any client.

        A guess none of whose answers is likelier than 50% before is right with a chance of at most
        (e^epsilon + delta) / (e^epsilon + 1) after.

        Args:
            reports: How many may still leave.
        """
        some = f"at most {_count(reports, 'report')}, blurred by chance,"
        leaves = f"{some} {'goes' if reports == 1 else 'go'} through a proxy to a server"
        return [
            f"Your history stays here; {leaves if reports else 'no more reports leave'}.",
            self._telling(),
            "You can stop at any time, but not undo what has left.",
        ]

    def _telling(self) -> str:
        by_dummies = self.alone < self.local and self.alone <= WEAK_ABOVE
        hidden = self.alone if by_dummies else self.central
        if hidden > WEAK_ABOVE:
            return "This protects nobody: from what leaves, your history may be worked out."
        is_hidden = hidden < self.local
        sure = _in_100(hidden, self.delta if is_hidden else 0.0)
        guess = f"A 50:50 guess about it is then right at most {sure} times in 100"
        guess += f" for one {self.unit}" if self.unit else ""
        # A proxy that cheats may let an account send more: a device counts its own.
        device = " for one device" if self.unit == "account" else ""
        if not is_hidden and not device:
            return f"{guess}."
        fakes = "others are fake or " if is_hidden and not by_dummies else ""
        return f"{guess}, or {_in_100(self.local)}{device} if {fakes}the proxy cheats."

    def in_figures(self) -> list[tuple[str, str]]:
        """The numbers behind these words, each with what it rests on."""
        linked = f"{_plain(self.local, 3)}, for all that this device has reported and may report"
        honest, hidden = "the proxy mixes honestly, does not work with the server and", []
        if self.alone < self.local:
            fake = "adds its dummies, even if all other devices are fake"
            hidden.append(f"{_plain(self.alone, 3)} if {honest} {fake}")
        if self.central < min(self.local, self.alone):
            who = "accounts" if self.unit else "devices"
            crowd = f"as many honest {who} report in every epoch as its terms asked for"
            crowd += f" (now {self.clients:,})"
            hidden.append(f"{_plain(self.central, 3)} if {'also' if hidden else honest} {crowd}")
        chance = f". Plus a chance of one in {_plain(1 / self.delta, 6, ROUND_FLOOR)}"
        return [
            ("epsilon, linked", f"{linked}, whatever happens"),
            ("epsilon, mixed", "; ".join(hidden) + chance if hidden else "the same"),
            ("what epsilon is", f"{MEANING}. {OF_ACCOUNT if self.unit else OF_DEVICE}"),
        ]


MEANING = "any conclusion is at most exp(epsilon) times as likely as with another history"
OF_DEVICE = "That is for one device: several of one person add up"
OF_ACCOUNT = (
    "That is for one account, whose devices share its reports of this training, if the proxy "
    "counts honestly; otherwise for one device. Several of one person add up"
)


def _in_100(epsilon: float, delta: float = 0.0) -> str:
    """How often a guess is right that would be so 50 times in 100; never rounded down."""
    doubt = 100 * (1 - delta) / (1 + exp(min(epsilon, 700)))
    if doubt < LEAST_DOUBT:
        return "always"
    places = max(0, ceil(-log10(doubt)))
    return f"{ceil((100 - doubt) * 10**places - 1e-9) / 10**places:.{places}f}"


def promise(
    left: Reporting | None,
    clients: int,
    charges: Sequence[Charge] = (),
    delta: float = DELTA,
    unit: Literal["account", "device"] | None = None,
) -> Promise:
    """For all that was charged, and for what may still leave under the terms.

    Args:
        left: What may still leave; None: nothing.
        clients: The crowd that the terms enforce, the device itself included.
        charges: What the ledger has charged, in all trainings.
        delta: Of the central figures.
        unit: Whom it is for, where the terms need accounts.

    >>> from sottovoce.privacy import Reporting
    >>> promise(Reporting(5.0, 1, 2, 0.0318), clients=50_000).local
    10.0
    """
    spent = sum((charge.cost for charge in charges), Fraction(0))
    to_come = Fraction(left.epsilon) * left.total if left else 0
    local = rounded_up(spent + to_come)
    parts = [Group(left, clients)] if left else []
    for each in charges:
        event = Reporting(each.epsilon, each.reports, 1, each.loud_fraction, each.dummies)
        parts.append(Group(event, each.clients))
    alone = [Group(event, 1) for event, _ in parts]
    bounds = (central_bound(_groups(each), delta) for each in (parts, alone))
    # What differs by rounding alone is the same: it would name dummies where there are none.
    central, by_dummies = (each if each < local * (1 - ROUNDING) else local for each in bounds)
    return Promise(local, central, by_dummies, clients, delta, unit)


def _groups(parts: Iterable[Group]) -> list[Group]:
    """Reports of equal epsilon and rho together, in the least of their crowds and dummies.

    Fewer are never better. Reports without any stay apart: they count in full.
    """
    found: dict[tuple[float, float, bool, bool], Group] = {}
    for event, clients in parts:
        kind = event.epsilon, event.loud_fraction, clients > 1, event.cover > 0
        total, cover = event.total, event.cover
        if before := found.get(kind):
            total += before.event.total
            clients, cover = min(clients, before.clients), min(cover, before.event.cover)
        together = Reporting(event.epsilon, 1, total, event.loud_fraction, cover)
        found[kind] = Group(together, clients)
    return list(found.values())
