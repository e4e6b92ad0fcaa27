"""A cell is one number's whole origin; results are kept on disk, one small file for each cell.

Equal cells have equal keys, whichever table asks for them.
"""

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self, get_args

import numpy as np

from sottovoce.data import Interactions
from sottovoce.data.split import SplitRule
from sottovoce.errors import CheckpointError, SettingsError, get_reason
from sottovoce.simulation.files import compute_fingerprint
from sottovoce.storage.files import write_atomically
from sottovoce.training import Settings

Measured = Literal["left-out", "catalogue", "late", "people"]
Way = Literal["tags", "time", "both"]
Trained = Literal["paper", "paper-alpha", "loudest"]
Method = Literal[
    "paper", "paper-alpha", "loudest", "random", "popularity", "private-popularity",
    "named-counts", "named-als", "mf", "ease", "fcf", "dplcf", "dp-als", "cost", "liars",
    "attacker",
]  # fmt: skip
TRAINED: tuple[Trained, ...] = get_args(Trained)
"""The paper's system as it describes it, the same with our alpha, and ours."""
THEIRS: tuple[Trained, ...] = ("paper", "paper-alpha")
OURS: tuple[Trained, ...] = ("loudest",)
COMPARED: tuple[Trained, ...] = ("paper", "loudest")
"""What figures and tables of many cells have; another alpha is a row of Table 5."""
METHODS: tuple[Method, ...] = get_args(Method)
VERSION = 7
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
    """Where the item ranks that was left out, among a few or in the whole catalogue as well; what
    people get who come late; or who gets what."""
    resample: int | None = None
    """People who are made out of those of the data and report in their place."""

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise SettingsError(f"no method {self.method!r}; there are {', '.join(METHODS)}")

    @classmethod
    def make(cls, method: Method, size: Size, seed: int, **given: Any) -> Self:
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
    ) -> Self:
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
    def trained_as(self) -> Self:
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


ABOUT, ASKED = "about.json", "asked.json"
QUICK = 0.0
"""The scale of a smoke run."""


@dataclass(frozen=True)
class About:
    """What a folder's results are of: one data set at one scale, never a mixture."""

    data: str
    """Fingerprint of histories, timestamps and tags."""
    source: str
    """What `--data` was given, without its folder."""
    name: str
    users: int
    items: int
    interactions: int
    timestamps: bool
    """Whether the latest interaction is known."""
    tags: bool
    """Whether anything is known of the items."""
    min_interactions: int
    scale: float
    """Of the full run's people, which share takes part; all else is the same. Or `QUICK`."""
    seeds: int
    """How many splits, at most, a cell has been computed for."""

    @classmethod
    def of(
        cls, data: Interactions, source: str, *, min_interactions: int, scale: float, seeds: int
    ) -> Self:
        """Looks at all of the data, once."""
        digest = hashlib.sha256(compute_fingerprint(data.histories).encode())
        if data.timestamps is not None:
            digest.update(np.ascontiguousarray(data.timestamps).data)
        if data.tags is not None:
            digest.update(json.dumps(data.tags.tolist()).encode())
        histories = data.histories
        return cls(
            digest.hexdigest(),
            Path(source).name,
            data.name,
            histories.n_users,
            histories.n_items,
            histories.n_interactions,
            data.timestamps is not None,
            data.tags is not None,
            min_interactions,
            scale,
            seeds,
        )

    @property
    def quick(self) -> bool:
        """A smoke run: tiny in everything."""
        return self.scale == QUICK

    def sentence(self) -> str:
        """What it ran on, for the head of everything that is shown."""
        if self.quick:
            smaller = "SMOKE RUN (--quick), tiny subsets and few epochs: no result. "
        elif self.scale < 1:
            smaller = (
                f"Scale {self.scale:g}: {self.scale:g} times the people of the full run, and so "
                "more noise; all else is the same. The paper's numbers are of its own sizes. "
            )
        else:
            smaller = ""
        return (
            f"{smaller}Data: {known_as(self)}, {self.users:,} users x {self.items:,} items, "
            f"{self.interactions:,} interactions. {stands_for(self)}"
        )


def known_as(about: About) -> str:
    """The data's name for people; the Netflix file of lab/docs/report.md is known by its shape."""
    if (about.users, about.items, about.interactions) == (75_040, 9_781, 23_323_394):
        return "Netflix Prize subset"
    return about.name


def stands_for(about: About) -> str:
    """A reader must not take our numbers and the paper's for numbers of the same data."""
    if about.name == "ml-20m":
        return "The paper's numbers are of ML-20M too."
    return "It stands in for ML-20M: the paper's numbers are ML-20M's."


class CellStore:
    def __init__(self, folder: Path, about: About):
        self.folder = folder
        self.about = about
        self._known: dict[str, dict[str, Any]] = {}

    @classmethod
    def start(cls, folder: Path, about: About) -> Self:
        """To compute: the folder must be new, or of the same data at the same scale."""
        if (folder / ABOUT).exists():
            before = read_about(folder)
            if (before.data, before.scale) != (about.data, about.scale):
                raise SettingsError(
                    f"{folder}: holds results of {before.sentence()} Name another --out"
                )
            about = About(**{**asdict(about), "seeds": max(about.seeds, before.seeds)})
        write_atomically(folder / ABOUT, (json.dumps(asdict(about), indent=2) + "\n").encode())
        return cls(folder, about)

    @classmethod
    def open(cls, folder: Path) -> Self:
        return cls(folder, read_about(folder))

    def ask(self, names: list[str]) -> None:
        """Remember which experiments were asked for: others share cells with them."""
        asked = sorted({*self.asked(), *names})
        write_atomically(self.folder / ASKED, (json.dumps(asked) + "\n").encode())

    def asked(self) -> list[str]:
        """Now or earlier."""
        try:
            return [str(name) for name in json.loads((self.folder / ASKED).read_bytes())]
        except (OSError, ValueError, TypeError):
            return []

    def get(self, cell: Cell) -> dict[str, Any] | None:
        """A result, if it is there, whole and of this data."""
        key = cell.key
        if key not in self._known:
            found = self._read(key)
            if found is None:
                return None
            self._known[key] = found
        return self._known[key]

    def put(self, cell: Cell, result: dict[str, Any], seconds: float) -> None:
        """All of it or nothing."""
        content = {
            "cell": cell.as_dict(),
            "data": self.about.data,
            "result": result,
            "seconds": round(seconds, 3),
        }
        text = json.dumps(content, indent=1) + "\n"
        write_atomically(self._path(cell.key), text.encode())
        self._known[cell.key] = result

    def _read(self, key: str) -> dict[str, Any] | None:
        try:
            content = json.loads(self._path(key).read_bytes())
            result = content["result"] if content["data"] == self.about.data else None
        except (OSError, ValueError, KeyError, TypeError):
            return None  # not there, or not one of ours: it is computed (anew)
        return result if isinstance(result, dict) else None

    def _path(self, key: str) -> Path:
        return self.folder / "cells" / f"{key}.json"


def read_about(folder: Path) -> About:
    try:
        return About(**json.loads((folder / ABOUT).read_bytes()))
    except (OSError, ValueError, TypeError) as error:
        raise CheckpointError(
            f"{folder}: no results of `sottovoce paper` ({ABOUT}: {get_reason(error)}); compute "
            "some first"
        ) from error
