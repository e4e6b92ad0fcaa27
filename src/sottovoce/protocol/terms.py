"""The terms: all that a device's owner agrees to, as one block of every manifest.

A device pins the terms that its owner accepted. A server may later ask for less, never for more:
each field has one rule, and a single field that is worse refuses the manifest, whatever got better.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from fractions import Fraction
from hashlib import sha256
from json import dumps
from operator import gt, lt, ne
from typing import Any, Literal, Self

from sottovoce.characters import counted
from sottovoce.core import MECHANISMS
from sottovoce.core.bounds import MOST_DUMMIES, MOST_FACTORS, MOST_ITEMS, MOST_REPORTS
from sottovoce.core.coin import LEAST_EPSILON, MAX_EPSILON
from sottovoce.errors import ProtocolError
from sottovoce.privacy import SIGN, Charge, Ledger, Promise, Reporting, promise
from sottovoce.privacy.account import DELTA
from sottovoce.protocol import strict
from sottovoce.training import Participation, Settings

MOST_CLIENTS = 10_000_000
"""No crowd is larger: one that is never reached would make every epoch a wasted one."""
MOST_GROWTH = 10
"""The crowd that is waited for may become so many times as large without asking, and no larger."""
TRAINING = 16
"""Bytes of a training's id."""
ACCOUNTS = "each with an account of its own; your devices share what yours may send"
TRIAL = "This is a trial: most people in it are invented, so nobody is hidden among them."


@dataclass(frozen=True)
class Terms:
    """What a device is asked for, at most, and among how many, at least."""

    training: bytes
    """The training's id: random bytes, drawn when it begins."""
    mechanism: str
    """Name of the mechanism that makes reports."""
    parameters: Mapping[str, int]
    """The public parameters of that mechanism, by name."""
    epsilon: float
    """The privacy budget of one report."""
    loud_fraction: float
    """rho: the largest fraction of all directions that can be loud for one history."""
    reports: int
    """k: the number of reports in every batch."""
    epochs: int
    """The largest number of epochs in which a device ever takes part, discarded ones included."""
    share: float
    """The fraction of epochs in which a device takes part; without an end, its chance in each."""
    least_clients: int
    """The smallest number of devices whose reports are mixed; below it an epoch is discarded."""
    hold: int
    """Seconds that an epoch waits for `least_clients` after it closes, before it is discarded."""
    dummies: int
    """D: uniform random reports that every proxy mixes into each epoch."""
    factors: int
    """F: the number of columns of the item matrix."""
    most_items: int
    """The largest number of items (M) that the catalogue may grow to."""
    accounts: bool
    """Whether a batch needs a token, of which each account gets one for an epoch."""
    trial: bool
    """Whether this is a trial, in which most people are invented: nobody is hidden among them."""

    def as_dict(self) -> dict[str, Any]:
        """As its JSON has it."""
        return {**asdict(self), "training": self.training.hex()}

    @property
    def name(self) -> str:
        """Another one for other terms: what an owner repeats to accept exactly these.

        Whole: a server that looks for two terms with one short name finds them in a minute.
        """
        return sha256(dumps(self.as_dict(), sort_keys=True).encode()).hexdigest()

    def in_words(self) -> list[tuple[str, str]]:
        """For the owner who wants to know all: a label and what it means, line by line."""
        own = "".join(f", {name} {value}" for name, value in self.parameters.items())
        often = f"{self.epochs:,} at most, counted by this device"
        items = counted(self.most_items, "item")
        if self.share < 1:
            often += f"; about {self.share:.3g} of those there are, drawn by this device"
        return [
            ("reports", f"{self.reports} of four bytes in an epoch, epsilon {self.epsilon:g} each"),
            ("epochs", often),
            (
                "dummies",
                f"mixed with {counted(self.dummies, 'random report')}, which the proxy draws",
            ),
            (
                "crowd",
                f"and of at least {counted(self.least_clients, 'device')}, this one included",
            ),
            *([("accounts", ACCOUNTS)] if self.accounts else ()),
            ("waiting", f"up to {_duration(self.hold)} for that crowd, then thrown away"),
            ("mechanism", f"{self.mechanism}, loud share {self.loud_fraction:g}{own}"),
            ("model", f"{counted(self.factors, 'number')} an item, at most {items}"),
            ("training", self.training.hex()),
            *([("trial", TRIAL)] if self.trial else ()),
        ]

    def turns_left(self, charges: Iterable[Charge]) -> int:
        """Counted by the device: no server makes it spend more, by discarding epochs or otherwise.

        `charges` are all of its ledger's; those of other trainings take no turn.
        """
        taken = sum(charge.training == self.training for charge in charges)
        return max(self.epochs - taken, 0)

    def turns_within(self, ledger: Ledger) -> int:
        """How many of the turns left the owner's limit allows, by the ledger's exact amounts."""
        return min(self.turns_left(ledger.charges), ledger.remaining // self.cost)

    def promise(
        self, charges: Sequence[Charge] = (), delta: float = DELTA, turns: int | None = None
    ) -> Promise:
        """For all that the device has reported and may still report: in `turns`, or all left."""
        all_turns = self.turns_left(charges)
        turns = all_turns if turns is None else turns
        left = replace(self.event, epochs=turns) if turns else None
        # Each device has a limit of its own: what it keeps back, another of the account may send.
        unit: Literal["account", "device"] = "account" if turns == all_turns else "device"
        return promise(left, self.least_clients, charges, delta, unit if self.accounts else None)

    def in_short(self, charges: Sequence[Charge], turns: int) -> list[str]:
        """What an owner is asked, if they take part in `turns` more epochs."""
        said = self.promise(charges, turns=turns).in_short(turns * self.reports)
        return [TRIAL, *said] if self.trial else said

    @property
    def cost(self) -> Fraction:
        """Of one epoch, exactly, as the ledger charges it."""
        return Fraction(self.epsilon) * self.reports

    @property
    def event(self) -> Reporting:
        """All that a device ever reports under these terms, for the accountant."""
        return Reporting(self.epsilon, self.reports, self.epochs, self.loud_fraction, self.dummies)

    @classmethod
    def of(cls, training: bytes, settings: Settings, asked: Participation, items: int) -> Self:
        """What a training with a catalogue of so many items asks for."""
        mechanism = settings.build(items)
        return cls(
            training=training,
            mechanism=settings.mechanism,
            parameters=mechanism.published(),
            epsilon=settings.epsilon,
            loud_fraction=mechanism.loud_fraction,
            reports=settings.reports,
            epochs=settings.most_turns,
            share=settings.share,
            least_clients=asked.least_clients,
            hold=asked.hold,
            dummies=settings.dummies,
            factors=settings.factors,
            most_items=asked.most_items or min(2 * items, MOST_ITEMS),
            accounts=asked.accounts,
            trial=asked.trial,
        )

    @classmethod
    def read(cls, given: Any) -> Self:
        """The block of a manifest, or a `ProtocolError`."""
        if not isinstance(given, dict):
            raise ProtocolError("manifest: terms must be an object")
        strict.exact_keys(given, {each.name for each in fields(cls)}, "manifest: terms")
        return cls(**_checked(given))

    def broken_by(self, asked: Self) -> list[str]:
        """In plain words, everything that would be worse for the owner."""
        return [
            rule.sentence.format(*(_shown(getattr(each, rule.field)) for each in (self, asked)))
            for rule in RULES
            if rule.is_worse(self, asked)
        ]


@dataclass(frozen=True)
class Rule:
    """When one field of the asked terms is worse than the agreed one, and how to say so."""

    field: str
    sentence: str
    worse: Callable[[Any, Any], bool] = ne
    """Of the agreed value and the one asked for."""

    def is_worse(self, agreed: Terms, asked: Terms) -> bool:
        return self.worse(getattr(agreed, self.field), getattr(asked, self.field))


def _another_crowd(before: int, now: int) -> bool:
    """Smaller hides less; far larger would never come together, and be paid for in vain."""
    return not before <= now <= MOST_GROWTH * before


class TheParameters(Rule):
    def is_worse(self, agreed: Terms, asked: Terms) -> bool:
        """Of another mechanism they say nothing; of the same all but its unpinned ones count."""
        kind = MECHANISMS.get(agreed.mechanism)
        unpinned = () if kind is None else kind.unpinned

        def pinned(terms: Terms) -> dict[str, int]:
            return {name: v for name, v in terms.parameters.items() if name not in unpinned}

        return agreed.mechanism == asked.mechanism and pinned(agreed) != pinned(asked)


RULES = (
    Rule("training", "reports would go to another training"),
    Rule("mechanism", "reports would be made by {1}, not by {0}"),
    TheParameters("parameters", "the mechanism's parameters would be {1}, not {0}"),
    Rule("epsilon", "the budget of one report would rise from epsilon {} to {}", lt),
    # Fewer are no better: among dummies a report that names one of fewer stands out more.
    Rule("loud_fraction", "the share of loud directions would be {1}, not {0}"),
    Rule("reports", "an epoch would take {1} reports, not {0}", lt),
    Rule("epochs", "a lifetime would have {1} epochs, not {0}", lt),
    Rule("share", "the part of the epochs with this device would rise from {} to {}", lt),
    Rule(
        "least_clients",
        "a report would be hidden among at least {1} people, not {0} (fewer hide less, and more "
        "than ten times as many may never come together)",
        _another_crowd,
    ),
    Rule("hold", "an epoch would wait for its crowd for {1} seconds, not {0}", lt),
    Rule("dummies", "the proxy would mix in {1} random reports, not {0}", gt),
    Rule("factors", "the model would have {1} factors, not {0}", lt),
    Rule("most_items", "the model could have {1} items, not {0}", lt),
    Rule("accounts", "reports would need an account, or would no longer need one"),
    Rule("trial", "this would be a trial, or would no longer be one"),
)


def _shown(value: Any) -> Any:
    """Parameters by name, whatever their order."""
    if not isinstance(value, dict):
        return value
    return ", ".join(f"{name} {number}" for name, number in sorted(value.items()))


def _duration(seconds: int) -> str:
    """In the largest unit that divides it."""
    for unit, name in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= unit and seconds % unit == 0:
            return f"{seconds // unit} {name}" + ("" if seconds == unit else "s")
    return f"{seconds} seconds"


def _checked(given: dict[str, Any]) -> dict[str, Any]:
    def whole(name: str, least: int, most: int = strict.MOST) -> int:
        return strict.whole(given[name], least=least, most=most, what=f"terms: {name}")

    def real(name: str, least: float, most: float) -> float:
        return strict.number(given[name], least=least, most=most, what=f"terms: {name}")

    mechanism = given["mechanism"]
    if not isinstance(mechanism, str) or mechanism not in MECHANISMS:
        raise ProtocolError(f"terms: no mechanism {strict.shown(mechanism)}")
    return {
        "training": strict.hexadecimal(given["training"], size=TRAINING, what="terms: training"),
        "mechanism": mechanism,
        "parameters": _parameters(given["parameters"], mechanism),
        "epsilon": real("epsilon", LEAST_EPSILON, MAX_EPSILON),
        "loud_fraction": real("loud_fraction", 0, SIGN),
        "reports": whole("reports", 1, MOST_REPORTS),
        "epochs": whole("epochs", 1),
        "share": real("share", 2**-32, 1),
        "least_clients": whole("least_clients", 1, MOST_CLIENTS),
        "hold": whole("hold", 0),
        "dummies": whole("dummies", 0, MOST_DUMMIES),
        "factors": whole("factors", 1, MOST_FACTORS),
        "most_items": whole("most_items", 1, MOST_ITEMS),
        "accounts": strict.boolean(given["accounts"], what="terms: accounts"),
        "trial": strict.boolean(given["trial"], what="terms: trial"),
    }


def _parameters(given: Any, mechanism: str) -> dict[str, int]:
    if not isinstance(given, dict):
        raise ProtocolError("terms: parameters must be an object")
    strict.exact_keys(given, set(MECHANISMS[mechanism].public_names()), "terms: parameters")
    return {
        name: strict.whole(value, least=0, most=strict.MOST, what=f"terms: {name}")
        for name, value in given.items()
    }
