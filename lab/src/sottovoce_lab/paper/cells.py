"""A cell: one number's whole origin. Equal cells have equal keys, whichever table asks for them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

from sottovoce.data.split import SplitRule
from sottovoce.errors import SettingsError
from sottovoce.training import Settings

Measured = Literal["left-out", "late", "people"]
Way = Literal["tags", "time", "both"]
Trained = Literal["paper", "paper-alpha", "loudest"]
Method = Literal[
    "paper", "paper-alpha", "loudest", "random", "popularity", "private-popularity",
    "named-counts", "named-als", "mf", "fcf", "dplcf", "dp-als", "cost", "liars", "attacker",
]  # fmt: skip
TRAINED: tuple[Trained, ...] = get_args(Trained)
"""The paper's system as it describes it, the same with our alpha, and ours."""
THEIRS: tuple[Trained, ...] = ("paper", "paper-alpha")
OURS: tuple[Trained, ...] = ("loudest",)
COMPARED: tuple[Trained, ...] = ("paper", "loudest")
"""What figures and tables of many cells have; another alpha is a row of Table 5."""
METHODS: tuple[Method, ...] = get_args(Method)
VERSION = 6
"""To be raised when a method changes so that old results no longer stand for it."""

Value = float | int | bool | str


@dataclass(frozen=True)
class Size:
    """How many users and items are drawn from the data; None takes all."""

    users: int | None = None
    items: int | None = None

    def __str__(self) -> str:
        return f"{_number(self.users)} users x {_number(self.items)} items"


@dataclass(frozen=True)
class Cell:
    """What is trained, on whom, and how it is tested."""

    method: Method
    size: Size
    seed: int
    """Of the split, the negatives and whatever the method draws."""
    parameters: tuple[tuple[str, Value], ...] = ()
    """The method's own, by name and in this order; of a training all its settings but the seed."""
    draw: int = 0
    """Seed of the subset: the paper draws its nine subsets once and splits them several times."""
    split: SplitRule = "random"
    negatives: int = 99
    curve: bool = False
    """Whether every epoch is evaluated, or the last alone."""
    known: tuple[Way, ...] = ()
    """What devices know for free, with which it is tested as well."""
    measured: Measured = "left-out"
    """Where the item ranks that was left out; what people get who come late; or who gets what."""
    resample: int | None = None
    """People who are made out of those of the data and report in their place."""

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise SettingsError(f"no method {self.method!r}; there are {', '.join(METHODS)}")

    @classmethod
    def make(cls, method: Method, size: Size, seed: int, **given: Any) -> Cell:
        """A cell of a method that is not a training of ours, from its parameters by name."""
        fixed = {name: given.pop(name) for name in ("draw", "split", "curve") if name in given}
        return cls(method, size, seed, tuple(sorted(given.items())), **fixed)

    @classmethod
    def training(
        cls,
        method: Method,
        size: Size,
        settings: Settings,
        seed: int,
        *,
        draw: int = 0,
        split: SplitRule = "random",
        curve: bool = False,
    ) -> Cell:
        """A cell of a training: whatever its settings' own seed is, the cell's one counts."""
        parameters = tuple((k, v) for k, v in sorted(settings.as_dict().items()) if k != "seed")
        return cls(method, size, seed, parameters, draw, split, curve=curve)

    @property
    def named(self) -> dict[str, Any]:
        return dict(self.parameters)

    @property
    def settings(self) -> Settings:
        return Settings.from_dict({**self.named, "seed": self.seed})

    @property
    def trained_as(self) -> Cell:
        """The same for all cells whose item matrix is the same, however it is tested."""
        measured: Measured = "late" if self.measured == "late" else "left-out"
        return replace(self, known=(), measured=measured)

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "parameters": self.named}

    @property
    def key(self) -> str:
        """The same in every process and on every machine: 32 hexadecimal digits of a hash."""
        written = json.dumps({"version": VERSION, **self.as_dict()}, sort_keys=True)
        return hashlib.sha256(written.encode()).hexdigest()[:32]

    def __str__(self) -> str:
        named = self.named
        how = "".join(
            f", {short} {named[name]:g}"
            for name, short in (("epsilon", "eps"), ("reports", "k"))
            if name in named
        )
        return f"{self.method}{how}, {self.size}, seed {self.seed}"


def _number(count: int | None) -> str:
    return "all" if count is None else f"{count:,}"
