"""Cells: each describes one number completely, so equal cells have equal keys in all tables."""

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, Self, get_args

from sottovoce.data.split import SplitRule
from sottovoce.errors import SettingsError
from sottovoce.training import Settings

# How a cell is tested:
# - "left-out": the rank of the item that was left out, among sampled others.
# - "catalogue": its rank among sampled others and in the whole catalogue.
# - "late": the quality of recommendations for people who never reported.
# - "people": the quality for fifths of the people and of the items.
TestKind = Literal["left-out", "catalogue", "late", "people"]
# Side information, which devices use in addition to the model and do not send.
SideKind = Literal["tags", "time", "both"]
# In this order: the system as the paper describes it, that system with our alpha, and our system.
TrainedMethod = Literal["paper", "paper-alpha", "loudest"]
Method = Literal[
    "paper", "paper-alpha", "loudest", "random", "popularity", "private-popularity",
    "named-counts", "named-als", "mf", "ease", "fcf", "dplcf", "dp-als", "cost", "poisoning",
    "attacker",
]  # fmt: skip
METHOD_NAMES: tuple[Method, ...] = get_args(Method)
TRAINED_METHODS: tuple[TrainedMethod, ...] = get_args(TrainedMethod)
PAPER_METHODS: tuple[TrainedMethod, ...] = ("paper", "paper-alpha")
OUR_METHODS: tuple[TrainedMethod, ...] = ("loudest",)
# The methods in figures and tables with many cells; "paper-alpha" is only in Table 5.
COMPARED_METHODS: tuple[TrainedMethod, ...] = ("paper", "loudest")
# Part of every key. Raise it when a method changes, so that old results are computed again.
CELL_VERSION = 7
ParameterValue = float | int | bool | str


@dataclass(frozen=True)
class Size:
    """How many users and items are drawn from the data; None takes all."""

    users: int | None = None
    items: int | None = None

    def __str__(self) -> str:
        users, items = (
            "all" if count is None else f"{count:,}" for count in (self.users, self.items)
        )
        return f"{users} users x {items} items"


@dataclass(frozen=True)
class Cell:
    """The model to train, the people to train it on, and the test."""

    method: Method
    size: Size
    seed: int
    """Seed of the split, of the negatives and of everything that the method draws."""
    parameters: tuple[tuple[str, ParameterValue], ...] = ()
    """The method's parameters in a fixed order. For a training, they are all settings except the
    seed."""
    draw: int = 0
    """Seed of the subset: the paper draws its nine subsets once and splits them several times."""
    split: SplitRule = "random"
    negatives: int = 99
    curve: bool = False
    """Whether every epoch is evaluated, or only the last one."""
    side_information: tuple[SideKind, ...] = ()
    """Side information of further tests. There is always a test without side information."""
    measured: TestKind = "left-out"
    resample: int | None = None
    """Number of people who are drawn from the data with replacement, and report. None: the people
    of the data report."""

    def __post_init__(self) -> None:
        if self.method not in METHOD_NAMES:
            raise SettingsError(
                f"unknown method {self.method!r}; choose one of {', '.join(METHOD_NAMES)}"
            )

    @classmethod
    def from_parameters(cls, method: Method, size: Size, seed: int, **parameters: Any) -> Self:
        """Make a cell of a method that does not take `Settings`.

        The arguments `draw`, `split` and `curve` set the fields; the others are parameters.
        """
        names = ("draw", "split", "curve")
        fields = {name: parameters.pop(name) for name in names if name in parameters}
        return cls(method, size, seed, tuple(sorted(parameters.items())), **fields)

    @classmethod
    def from_settings(
        cls,
        method: Method,
        size: Size,
        settings: Settings,
        seed: int,
        *,
        draw: int = 0,
        split: SplitRule = "random",
        curve: bool = False,
    ) -> Self:
        """Make a cell of a training; the seed of the settings is replaced by the cell's."""
        parameters = tuple((k, v) for k, v in sorted(settings.as_dict().items()) if k != "seed")
        return cls(method, size, seed, parameters, draw, split, curve=curve)

    @property
    def options(self) -> dict[str, Any]:
        """The parameters by name."""
        return dict(self.parameters)

    @property
    def settings(self) -> Settings:
        """Settings of a training."""
        return Settings.from_dict({**self.options, "seed": self.seed})

    @property
    def training_cell(self) -> Self:
        """The cell that stands for a training: the same for all tests of one item matrix."""
        measured: TestKind = "late" if self.measured == "late" else "left-out"
        return replace(self, side_information=(), measured=measured)

    def to_dict(self) -> dict[str, Any]:
        """Return the cell for JSON."""
        fields = {**asdict(self), "parameters": self.options}
        # The key is a hash of these names. A renamed field keeps its old name here, or all
        # results that were computed before would be lost.
        fields["known"] = fields.pop("side_information")
        return fields

    @property
    def key(self) -> str:
        """32 hexadecimal digits of a hash, the same in every process and on every machine."""
        text = json.dumps({"version": CELL_VERSION, **self.to_dict()}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def __str__(self) -> str:
        budget = "".join(
            f", {label} {self.options[name]:g}"
            for name, label in (("epsilon", "eps"), ("reports", "k"))
            if name in self.options
        )
        return f"{self.method}{budget}, {self.size}, seed {self.seed}"
