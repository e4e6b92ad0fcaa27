"""Results on disk: one small file for each cell, written as soon as it is known."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from sottovoce.data import Interactions
from sottovoce.errors import CheckpointError, SettingsError, reason
from sottovoce.simulation.files import fingerprint
from sottovoce.storage.files import write_atomically
from sottovoce_lab.paper.cells import Cell

ABOUT, ASKED = "about.json", "asked.json"


@dataclass(frozen=True)
class About:
    """What a folder's results are of: one data set, at full size or quick, never a mixture."""

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
    quick: bool
    seeds: int
    """How many splits, at most, a cell has been computed for."""

    @classmethod
    def of(
        cls, data: Interactions, source: str, *, min_interactions: int, quick: bool, seeds: int
    ) -> Self:
        """Looks at all of the data, once."""
        digest = hashlib.sha256(fingerprint(data.histories).encode())
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
            quick,
            seeds,
        )

    def sentence(self) -> str:
        """What it ran on, for the head of everything that is shown."""
        quick = (
            "SMOKE RUN (--quick), tiny subsets and few epochs: no result. " if self.quick else ""
        )
        return (
            f"{quick}Data: {known_as(self)}, {self.users:,} users x {self.items:,} items, "
            f"{self.interactions:,} interactions. {stands_for(self)}"
        )


def known_as(about: About) -> str:
    """The data's name for people; the Netflix file of docs/results.md is known by its shape."""
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
            if (before.data, before.quick) != (about.data, about.quick):
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
            f"{folder}: no results of `sottovoce paper` ({ABOUT}: {reason(error)}); compute some "
            "first"
        ) from error
