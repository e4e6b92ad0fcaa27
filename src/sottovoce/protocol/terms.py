"""The terms, which a device's owner must accept before the device reports.

Every manifest contains the terms of its training. A device stores the terms that its owner
accepted. Later manifests may have better terms for the owner, but not worse ones. Each field has
one rule (`TERM_RULES`), which decides whether a new value is worse. A manifest with a single worse
field is refused, even if other fields are better.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from fractions import Fraction
from hashlib import sha256
from json import dumps
from math import ceil, exp
from operator import gt, lt, ne
from typing import Any, Literal, Self

from sottovoce.characters import pluralize
from sottovoce.core import MECHANISMS
from sottovoce.core.bounds import MAX_DUMMIES, MAX_FACTORS, MAX_ITEMS, MAX_REPORTS
from sottovoce.core.coin import MAX_EPSILON, MIN_EPSILON
from sottovoce.errors import ProtocolError
from sottovoce.privacy import (
    COIN_RHO,
    DEFAULT_DELTA,
    Charge,
    Ledger,
    Promise,
    Reporting,
    promise,
)
from sottovoce.protocol import strict
from sottovoce.training import Participation, Settings

# The largest `min_clients` of terms. If a crowd never becomes large enough, every epoch is lost.
MAX_CLIENTS = 10_000_000
# `min_clients` may grow by this factor without asking the owner again.
MAX_CROWD_GROWTH = 10
TRAINING_ID_BYTES = 16
# The terms say how often a name is true if the report is linked to its sender. They give one
# example for each of these shares of people who would give the same name.
NAME_SHARES = (0.01, 0.0001)
# Sentences for the owner. The browser client uses the same ones.
ACCOUNTS_SENTENCE = "each with an account of its own; your devices share what yours may send"
TRIAL_SENTENCE = "This is a trial: most people in it are invented, so nobody is hidden among them."


@dataclass(frozen=True)
class Terms:
    """Upper bounds for the reports of a device, and lower bounds for what hides them."""

    training: bytes
    """The id of the training: random bytes, drawn when the training begins."""
    mechanism: str
    """Name of the mechanism that makes reports."""
    parameters: Mapping[str, int]
    """The public parameters of the mechanism, by name."""
    epsilon: float
    """The privacy budget (local epsilon) of one report."""
    loud_fraction: float
    """rho: the largest fraction of all directions that can be loud for one history."""
    reports: int
    """k: the number of reports in every batch."""
    epochs: int
    """The largest number of epochs in which a device takes part. Epochs that were discarded
    count too."""
    share: float
    """The fraction of the epochs in which a device takes part. In a training without an end, the
    probability that it takes part in an epoch."""
    min_clients: int
    """The smallest number of devices whose reports are mixed. An epoch with fewer is discarded."""
    hold: int
    """The number of seconds that an epoch with fewer devices than `min_clients` is kept after it
    closes, before it is discarded."""
    dummies: int
    """D: the number of uniform random reports that every proxy mixes into each epoch."""
    factors: int
    """F: the number of columns of the item matrix."""
    max_items: int
    """The largest number of items (M) that the catalogue may grow to."""
    accounts: bool
    """Whether a batch needs a token. Each account gets one token for an epoch."""
    trial: bool
    """Whether this is a trial. Most people in a trial are invented, and hide nobody."""

    def as_dict(self) -> dict[str, Any]:
        """Return the terms as a dict that can be written as JSON."""
        return {**asdict(self), "training": self.training.hex()}

    @property
    def name(self) -> str:
        """A hash of the terms. An owner repeats it to accept exactly these terms."""
        # The hash is not shortened: a server could find two terms with the same short hash within a
        # minute.
        return sha256(dumps(self.as_dict(), sort_keys=True).encode()).hexdigest()

    def describe(self) -> list[tuple[str, str]]:
        """Describe all terms for the owner, as pairs of a label and a text."""
        parameters = "".join(f", {name} {value}" for name, value in self.parameters.items())
        epochs = f"{self.epochs:,} at most, counted by this device"
        items = pluralize(self.max_items, "item")
        if self.share < 1:
            epochs += f"; about {self.share:.3g} of those there are, drawn by this device"
        return [
            ("reports", f"{self.reports} of four bytes in an epoch, epsilon {self.epsilon:g} each"),
            *self._describe_name(),
            ("epochs", epochs),
            (
                "dummies",
                f"mixed with {pluralize(self.dummies, 'random report')}, which the proxy draws",
            ),
            (
                "crowd",
                f"and of at least {pluralize(self.min_clients, 'device')}, this one included",
            ),
            *([("accounts", ACCOUNTS_SENTENCE)] if self.accounts else ()),
            ("waiting", f"up to {_format_duration(self.hold)} for that crowd, then thrown away"),
            ("mechanism", f"{self.mechanism}, loud share {self.loud_fraction:g}{parameters}"),
            ("model", f"{pluralize(self.factors, 'number')} an item, at most {items}"),
            ("training", self.training.hex()),
            *([("trial", TRIAL_SENTENCE)] if self.trial else ()),
        ]

    def _describe_name(self) -> list[tuple[str, str]]:
        """Describe what a report says, and what it says to somebody who knows its sender."""
        if self.names is None:
            return []
        odds = exp(self.epsilon)
        truth = _format_percent(odds / (odds + self.names - 1))
        # The theorem of Bayes, where the prior probability of a name is the share of people who
        # would give it.
        common, rare = (
            _format_percent(odds * share / (odds * share + 1 - share)) for share in NAME_SHARES
        )
        says = (
            f"names the item that you touched last, or nothing, in {truth} of 100 cases, else one "
            f"of {self.names:,} items and free places by chance"
        )
        linked = (
            f"to you: a name that 1 in 100 people would give is true in {common} of 100 cases, one "
            f"that 1 in 10,000 would give in {rare}"
        )
        return [("a report", says), ("if it is linked", linked)]

    def turns_left(self, charges: Iterable[Charge]) -> int:
        """Return in how many more epochs the device may take part.

        Args:
            charges: All charges of the device's ledger. Charges of other trainings do not count.
        """
        # The device counts its own charges, so that a server cannot make it spend more by
        # discarding epochs.
        taken = sum(charge.training == self.training for charge in charges)
        return max(self.epochs - taken, 0)

    def turns_within(self, ledger: Ledger) -> int:
        """Return how many of the epochs in `turns_left` the owner's limit allows."""
        return min(self.turns_left(ledger.charges), ledger.remaining // self.cost)

    def promise(
        self, charges: Sequence[Charge] = (), delta: float = DEFAULT_DELTA, turns: int | None = None
    ) -> Promise:
        """Return the promise for all reports that the device has made and may still make.

        Args:
            charges: All charges of the device's ledger.
            delta: Delta of the central epsilon.
            turns: The number of epochs in which the device may still take part. None means all that
                `turns_left` allows.
        """
        all_turns = self.turns_left(charges)
        turns = all_turns if turns is None else turns
        left = replace(self.event, epochs=turns) if turns else None
        # Each device has its own limit. If the limit allows fewer epochs than the terms, another
        # device of the account may report in the others, so the promise is for this device only.
        unit: Literal["account", "device"] = "account" if turns == all_turns else "device"
        return promise(left, self.min_clients, charges, delta, unit if self.accounts else None)

    def summarize(self, charges: Sequence[Charge], turns: int, waiting: int = 0) -> list[str]:
        """Return the sentences that ask the owner to let the device report in `turns` more epochs.

        Args:
            charges: All charges of the device's ledger.
            turns: The number of epochs.
            waiting: Number of reports in a batch that is charged and still waits to be sent.
        """
        reports = turns * self.reports + waiting
        lines = self.promise(charges, turns=turns).summarize(reports, self.names)
        return [TRIAL_SENTENCE, *lines] if self.trial else lines

    @property
    def asks_for_names(self) -> bool:
        """Whether reports name items, and not directions of a gradient."""
        return MECHANISMS[self.mechanism].asks_for_names

    @property
    def names(self) -> int | None:
        """K: the number of outcomes of a report that names an item; None for other reports."""
        return self.parameters["names"] if self.asks_for_names else None

    @property
    def cost(self) -> Fraction:
        """The exact epsilon that the ledger charges for one epoch."""
        return Fraction(self.epsilon) * self.reports

    @property
    def event(self) -> Reporting:
        """All reports of a device under these terms, in the form of the privacy accountant."""
        return Reporting(self.epsilon, self.reports, self.epochs, self.loud_fraction, self.dummies)

    @classmethod
    def from_settings(
        cls, training: bytes, settings: Settings, participation: Participation, items: int
    ) -> Self:
        """Return the terms of a training.

        Args:
            training: The id of the training.
            settings: The settings of the training.
            participation: The server's requirements for the crowd and for devices.
            items: The number of items of the catalogue.
        """
        mechanism = settings.build(items)
        max_items = participation.max_items or min(2 * items, MAX_ITEMS)
        return cls(
            training=training,
            mechanism=settings.mechanism,
            parameters=mechanism.public_parameters(),
            epsilon=settings.epsilon,
            loud_fraction=mechanism.loud_fraction,
            reports=settings.reports,
            epochs=settings.max_turns,
            share=settings.share,
            min_clients=participation.min_clients,
            hold=participation.hold,
            dummies=settings.dummies,
            factors=settings.factors,
            max_items=mechanism.limit_items(max_items),
            accounts=participation.accounts,
            trial=participation.trial,
        )

    @classmethod
    def from_json(cls, content: Any) -> Self:
        """Parse the terms of a manifest.

        Raises:
            ProtocolError: The terms are malformed, or a value is out of the protocol's bounds.
        """
        if not isinstance(content, dict):
            raise ProtocolError("manifest: terms must be an object")
        strict.check_keys(content, {field.name for field in fields(cls)}, "manifest: terms")
        return cls(**_parse_fields(content))

    def list_worse_terms(self, asked: Self) -> list[str]:
        """Return one sentence for each field that is worse for the owner than in these terms.

        Args:
            asked: The new terms.
        """
        return [
            rule.sentence.format(
                *(_format_field(getattr(terms, rule.field)) for terms in (self, asked))
            )
            for rule in TERM_RULES
            if rule.is_worse(self, asked)
        ]


@dataclass(frozen=True)
class Rule:
    """The rule that decides whether the new value of a field is worse than the agreed value."""

    field: str
    """Name of the field of `Terms`."""
    sentence: str
    """Sentence for the owner about the worse value: a format string with {0} for the agreed value
    and {1} for the new value."""
    worse: Callable[[Any, Any], bool] = ne
    """Returns whether the agreed value and the new value, in this order, make the terms worse."""

    def is_worse(self, agreed: Terms, asked: Terms) -> bool:
        return self.worse(getattr(agreed, self.field), getattr(asked, self.field))


def _is_worse_crowd(before: int, now: int) -> bool:
    # A smaller crowd hides less. A crowd that is far larger would never become complete, and
    # devices would spend their budget for nothing.
    return not before <= now <= MAX_CROWD_GROWTH * before


class ParametersRule(Rule):
    """Rule for the parameters of a mechanism, some of which may change from epoch to epoch."""

    def is_worse(self, agreed: Terms, asked: Terms) -> bool:
        # Parameters of another mechanism are not compared: the rule for `mechanism` refuses it
        # already.
        kind = MECHANISMS.get(agreed.mechanism)
        changeable = () if kind is None else kind.changeable_parameters

        def pinned(terms: Terms) -> dict[str, int]:
            return {name: v for name, v in terms.parameters.items() if name not in changeable}

        return agreed.mechanism == asked.mechanism and pinned(agreed) != pinned(asked)


TERM_RULES = (
    Rule("training", "reports would go to another training"),
    Rule("mechanism", "reports would be made by {1}, not by {0}"),
    ParametersRule("parameters", "the mechanism's parameters would be {1}, not {0}"),
    # A smaller epsilon, or fewer reports in an epoch, are worse too. The owner's limit would then
    # allow more reports than the owner was told, and more reports among the same dummies may reveal
    # more.
    Rule("epsilon", "the budget of one report would change from epsilon {0} to {1}"),
    # A smaller fraction is worse too: if fewer directions are loud, a report that names one of them
    # stands out more among dummies.
    Rule("loud_fraction", "the share of loud directions would be {1}, not {0}"),
    Rule("reports", "an epoch would take {1} reports, not {0}"),
    Rule("epochs", "a lifetime would have {1} epochs, not {0}", lt),
    Rule("share", "the part of the epochs with this device would rise from {} to {}", lt),
    Rule(
        "min_clients",
        "a report would be hidden among at least {1} people, not {0} (fewer hide less, and more "
        "than ten times as many may never come together)",
        _is_worse_crowd,
    ),
    Rule("hold", "an epoch would wait for its crowd for {1} seconds, not {0}", lt),
    Rule("dummies", "the proxy would mix in {1} random reports, not {0}", gt),
    Rule("factors", "the model would have {1} factors, not {0}", lt),
    Rule("max_items", "the model could have {1} items, not {0}", lt),
    Rule("accounts", "reports would need an account, or would no longer need one"),
    Rule("trial", "this would be a trial, or would no longer be one"),
)


def _format_field(value: Any) -> Any:
    # Parameters are sorted by name, so that the server cannot change their order.
    if not isinstance(value, dict):
        return value
    return ", ".join(f"{name} {number}" for name, number in sorted(value.items()))


def _format_percent(share: float) -> str:
    """Format a share as a number of cases out of 100, rounded up to one decimal place."""
    return f"{ceil(1000 * share) / 10:g}"


def _format_duration(seconds: int) -> str:
    """Format seconds in the largest unit of which they are a whole multiple."""
    for unit, name in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= unit and seconds % unit == 0:
            return f"{seconds // unit} {name}" + ("" if seconds == unit else "s")
    return f"{seconds} seconds"


def _parse_fields(content: dict[str, Any]) -> dict[str, Any]:
    def integer(name: str, low: int, high: int = strict.MAX_INTEGER) -> int:
        return strict.parse_int(content[name], min_value=low, max_value=high, what=f"terms: {name}")

    def real(name: str, low: float, high: float) -> float:
        return strict.parse_float(
            content[name], min_value=low, max_value=high, what=f"terms: {name}"
        )

    mechanism = content["mechanism"]
    if not isinstance(mechanism, str) or mechanism not in MECHANISMS:
        raise ProtocolError(f"terms: unknown mechanism {strict.format_value(mechanism)}")
    return {
        "training": strict.parse_hex(
            content["training"], size=TRAINING_ID_BYTES, what="terms: training"
        ),
        "mechanism": mechanism,
        "parameters": _parse_parameters(content["parameters"], mechanism),
        "epsilon": real("epsilon", MIN_EPSILON, MAX_EPSILON),
        "loud_fraction": real("loud_fraction", 0, COIN_RHO),
        "reports": integer("reports", 1, MAX_REPORTS),
        "epochs": integer("epochs", 1),
        "share": real("share", 2**-32, 1),
        "min_clients": integer("min_clients", 1, MAX_CLIENTS),
        "hold": integer("hold", 0),
        "dummies": integer("dummies", 0, MAX_DUMMIES),
        "factors": integer("factors", 1, MAX_FACTORS),
        "max_items": integer("max_items", 1, MAX_ITEMS),
        "accounts": strict.parse_bool(content["accounts"], what="terms: accounts"),
        "trial": strict.parse_bool(content["trial"], what="terms: trial"),
    }


def _parse_parameters(content: Any, mechanism: str) -> dict[str, int]:
    if not isinstance(content, dict):
        raise ProtocolError("terms: parameters must be an object")
    strict.check_keys(content, set(MECHANISMS[mechanism].public_names()), "terms: parameters")
    return {
        name: strict.parse_int(
            value, min_value=0, max_value=strict.MAX_INTEGER, what=f"terms: {name}"
        )
        for name, value in content.items()
    }
