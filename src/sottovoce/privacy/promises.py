"""The promise of a device to its owner: the privacy cost of all that it sent and may still send.

Python and the browser must give the figures and sentences in `tests/vectors/promises.json`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, exp, log10
from typing import Literal

from sottovoce.privacy.bound import Group, central_bound
from sottovoce.privacy.events import DEFAULT_DELTA, Reporting
from sottovoce.privacy.ledger import Charge, round_up
from sottovoce.privacy.statement import WEAK_ABOVE, format_chance, format_number, pluralize

# A guess that is wrong in fewer than this many of 100 cases is described as "always" right.
MIN_DOUBT_PERCENT = 1e-4
# Two epsilons whose ratio differs from 1 by less than this are equal except for rounding.
ROUNDING_TOLERANCE = 1e-12
# exp() of a larger number may overflow a double.
MAX_EXPONENT = 700
EPSILON_MEANING = "any conclusion is at most exp(epsilon) times as likely as with another history"
PER_DEVICE_NOTE = "That is for one device: several of one person add up"
PER_ACCOUNT_NOTE = (
    "That is for one account, whose devices share its reports of this training, if the proxy "
    "counts honestly; otherwise for one device. Several of one person add up"
)


@dataclass(frozen=True)
class Promise:
    """The privacy that a device promises to its owner.

    It is computed from the ledger, which records each charge (the epsilon of a batch of reports),
    and from the terms of the present training.

    The figures cover all charges of all trainings, and all epochs in which the device may still
    report under the terms.
    """

    local: float
    """The local epsilon: the sum of the epsilons of all reports. It holds in every case."""
    central: float
    """The central epsilon at `delta`, as bounded by `bound.py`. Each report is hidden by the crowd
    that its terms enforced."""
    dummies_only: float
    """The central epsilon if every other device is fake, so that only dummies hide this one."""
    clients: int
    """The size of the crowd that the terms enforce, the device itself included."""
    delta: float
    """Delta of `central` and `dummies_only`."""
    unit: Literal["account", "device"] | None = None
    """Whom the figures are for if the terms require accounts: one account or one device.

    None if the terms require no accounts: the figures are then for one device. The devices of one
    account may together report in a fixed number of epochs. Besides, the owner of each device
    limits the epsilon of its reports.
    """

    def summarize(self, reports: int, names: int | None = None) -> list[str]:
        """Return the sentences that ask an owner for consent, in the terminal and in the browser.

        They say what leaves the device, how much it reveals, and how to stop.

        Args:
            reports: Number of reports that may still leave.
            names: The number of outcomes of a report, if reports name items; else None.
        """
        by_chance = ", blurred by chance,"
        if names is not None:
            by_chance = f" (what you touched last, or one of {names:,} by chance)"
        some = f"at most {pluralize(reports, 'report')}{by_chance}"
        leaves = f"{some} {'goes' if reports == 1 else 'go'} through a proxy to a server"
        return [
            f"Your history stays here; {leaves if reports else 'no more reports leave'}.",
            self._describe_guess(),
            "You can stop at any time, but not undo what has left.",
        ]

    def _describe_guess(self) -> str:
        by_dummies = self.dummies_only < self.local and self.dummies_only <= WEAK_ABOVE
        mixed = self.dummies_only if by_dummies else self.central
        if mixed > WEAK_ABOVE:
            return "This protects nobody: from what leaves, your history may be worked out."
        is_mixed = mixed < self.local
        chance = _format_guess_chance(mixed, self.delta if is_mixed else 0.0)
        guess = f"A 50:50 guess about it is then right at most {chance} times in 100"
        guess += f" for one {self.unit}" if self.unit else ""
        # A dishonest proxy may let an account send more, but a device counts its own reports.
        device = " for one device" if self.unit == "account" else ""
        if not is_mixed and not device:
            return f"{guess}."
        fakes = "others are fake or " if is_mixed and not by_dummies else ""
        return f"{guess}, or {_format_guess_chance(self.local)}{device} if {fakes}the proxy cheats."

    def list_figures(self) -> list[tuple[str, str]]:
        """Return the numbers behind the summary, each with its conditions."""
        linked = f"{format_number(self.local, 3)}, for all that this device has reported"
        honest = "the proxy mixes honestly, does not work with the server and"
        mixed = []
        if self.dummies_only < self.local:
            fake = "adds its dummies, even if all other devices are fake"
            mixed.append(f"{format_number(self.dummies_only, 3)} if {honest} {fake}")
        if self.central < min(self.local, self.dummies_only):
            who = "accounts" if self.unit else "devices"
            crowd = f"as many honest {who} report in every epoch as its terms asked for"
            crowd += f" (now {self.clients:,})"
            condition = f"{'also' if mixed else honest} {crowd}"
            mixed.append(f"{format_number(self.central, 3)} if {condition}")
        chance = f". Plus a chance of {format_chance(self.delta)}"
        note = PER_ACCOUNT_NOTE if self.unit else PER_DEVICE_NOTE
        return [
            ("epsilon, linked", f"{linked} and may report, whatever happens"),
            ("epsilon, mixed", "; ".join(mixed) + chance if mixed else "the same"),
            ("what epsilon is", f"{EPSILON_MEANING}. {note}"),
        ]


def _format_guess_chance(epsilon: float, delta: float = 0.0) -> str:
    """Format the largest number of 100 guesses that are right; without reports it is 50."""
    # The chance that the guess is right is at most (e^epsilon + delta) / (e^epsilon + 1).
    doubt = 100 * (1 - delta) / (1 + exp(min(epsilon, MAX_EXPONENT)))
    if doubt < MIN_DOUBT_PERCENT:
        return "always"
    places = max(0, ceil(-log10(doubt)))
    # Rounded up; 1e-9 absorbs the rounding of the product.
    return f"{ceil((100 - doubt) * 10**places - 1e-9) / 10**places:.{places}f}"


def promise(
    left: Reporting | None,
    clients: int,
    charges: Sequence[Charge] = (),
    delta: float = DEFAULT_DELTA,
    unit: Literal["account", "device"] | None = None,
) -> Promise:
    """Return the promise for all reports that were charged and all that may still be sent.

    Args:
        left: The reports that may still be sent under the terms; None if there are none.
        clients: Size of the crowd that the terms enforce, the device itself included.
        charges: Charges of the ledger, of all trainings.
        delta: Delta of `Promise.central` and `Promise.dummies_only`.
        unit: Whom the figures are for if the terms require accounts; see `Promise.unit`.

    >>> from sottovoce.privacy import Reporting
    >>> promise(Reporting(5.0, 1, 2, 0.0318), clients=50_000).local
    10.0
    """
    spent = sum((charge.cost for charge in charges), Fraction(0))
    to_come = Fraction(left.epsilon) * left.total if left else 0
    local = round_up(spent + to_come)
    parts = [Group(left, clients)] if left else []
    for charge in charges:
        event = Reporting(charge.epsilon, charge.reports, 1, charge.loud_fraction, charge.dummies)
        parts.append(Group(event, charge.clients))
    without_crowd = [Group(event, 1) for event, _ in parts]
    bounds = (central_bound(_merge_groups(groups), delta) for groups in (parts, without_crowd))
    # A bound that is below `local` only because of rounding counts as equal to it. Otherwise the
    # sentences would mention dummies where there are none.
    central, dummies_only = (
        bound if bound < local * (1 - ROUNDING_TOLERANCE) else local for bound in bounds
    )
    return Promise(local, central, dummies_only, clients, delta, unit)


def _merge_groups(groups: Iterable[Group]) -> list[Group]:
    """Merge groups of equal epsilon and loud fraction.

    A merged group has the smallest crowd and the fewest dummies of its groups.
    """
    # The bound stays valid, because a smaller crowd or fewer dummies never hide better. Groups
    # without other people or without dummies are merged separately: otherwise the merged group
    # would have none either.
    merged: dict[tuple[float, float, bool, bool], Group] = {}
    for event, clients in groups:
        kind = event.epsilon, event.loud_fraction, clients > 1, event.cover > 0
        total, cover = event.total, event.cover
        if before := merged.get(kind):
            total += before.event.total
            clients, cover = min(clients, before.clients), min(cover, before.event.cover)
        together = Reporting(event.epsilon, 1, total, event.loud_fraction, cover)
        merged[kind] = Group(together, clients)
    return list(merged.values())
