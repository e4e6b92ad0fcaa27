"""The folder of results: a description of their data, and one small file for each cell."""

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from sottovoce.data import Interactions
from sottovoce.errors import CheckpointError, SettingsError, get_reason
from sottovoce.simulation.files import compute_fingerprint
from sottovoce.storage.files import write_atomically
from sottovoce_lab.paper.cells import Cell

ABOUT_FILE = "about.json"
REQUESTED_FILE = "asked.json"
# The scale of a quick run, in which all sizes are tiny.
QUICK_SCALE = 0.0
# Numbers of users, items and interactions of the Netflix file of lab/docs/report.md.
NETFLIX_SHAPE = (75_040, 9_781, 23_323_394)


@dataclass(frozen=True)
class About:
    """The data set and the scale of the results in a folder."""

    data: str
    """Fingerprint of histories, timestamps and tags."""
    source: str
    """Value of `--data`, without its folder."""
    name: str
    users: int
    items: int
    interactions: int
    timestamps: bool
    """Whether interactions have timestamps, so that the latest one is known."""
    tags: bool
    """Whether the items have tags."""
    min_interactions: int
    scale: float
    """Share of the full run's people, or `QUICK_SCALE`."""
    seeds: int
    """Largest number of splits that cells were computed for."""

    @classmethod
    def from_data(
        cls, data: Interactions, source: str, *, min_interactions: int, scale: float, seeds: int
    ) -> Self:
        """Describe a data set; this reads all of it once."""
        digest = hashlib.sha256(compute_fingerprint(data.histories).encode())
        if data.timestamps is not None:
            digest.update(np.ascontiguousarray(data.timestamps).data)
        if data.tags is not None:
            digest.update(json.dumps(data.tags.tolist()).encode())
        histories = data.histories
        return cls(
            data=digest.hexdigest(),
            source=Path(source).name,
            name=data.name,
            users=histories.n_users,
            items=histories.n_items,
            interactions=histories.n_interactions,
            timestamps=data.timestamps is not None,
            tags=data.tags is not None,
            min_interactions=min_interactions,
            scale=scale,
            seeds=seeds,
        )

    @property
    def quick(self) -> bool:
        """Whether this is a quick run."""
        return self.scale == QUICK_SCALE

    @property
    def display_name(self) -> str:
        """Name of the data for readers."""
        is_netflix = (self.users, self.items, self.interactions) == NETFLIX_SHAPE
        return "Netflix Prize subset" if is_netflix else self.name

    def describe(self) -> str:
        """Return the sentences for the top of all results."""
        if self.quick:
            smaller = "SMOKE RUN (--quick), tiny subsets and few epochs: no result. "
        elif self.scale < 1:
            smaller = (
                f"Scale {self.scale:g}: {self.scale:g} times the people of the full run, and so "
                "more noise; all else is the same. The paper's numbers are of its own sizes. "
            )
        else:
            smaller = ""
        # Readers must not take our numbers and the paper's for numbers of the same data.
        if self.name == "ml-20m":
            origin = "The paper's numbers are of ML-20M too."
        else:
            origin = "It stands in for ML-20M: the paper's numbers are ML-20M's."
        return (
            f"{smaller}Data: {self.display_name}, {self.users:,} users x {self.items:,} items, "
            f"{self.interactions:,} interactions. {origin}"
        )


class CellStore:
    """Results on disk, one JSON file for each cell."""

    def __init__(self, folder: Path, about: About):
        self.folder = folder
        self.about = about
        self._cache: dict[str, dict[str, Any]] = {}

    @classmethod
    def create(cls, folder: Path, about: About) -> Self:
        """Open a folder for computing, which is new or has results of the same data and scale."""
        if (folder / ABOUT_FILE).exists():
            before = read_about(folder)
            if (before.data, before.scale) != (about.data, about.scale):
                raise SettingsError(
                    f"{folder}: holds results of {before.describe()} Name another --out"
                )
            about = replace(about, seeds=max(about.seeds, before.seeds))
        content = json.dumps(asdict(about), indent=2) + "\n"
        write_atomically(folder / ABOUT_FILE, content.encode())
        return cls(folder, about)

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open a folder with results."""
        return cls(folder, read_about(folder))

    def add_requested(self, names: list[str]) -> None:
        """Record which experiments were requested."""
        # Other experiments share cells with these. Without this record they would be reported with
        # nearly no results.
        requested = sorted({*self.read_requested(), *names})
        write_atomically(self.folder / REQUESTED_FILE, (json.dumps(requested) + "\n").encode())

    def read_requested(self) -> list[str]:
        """Return the experiments that were requested in this run or an earlier one."""
        try:
            return [str(name) for name in json.loads((self.folder / REQUESTED_FILE).read_bytes())]
        except (OSError, ValueError, TypeError):
            return []

    def get(self, cell: Cell) -> dict[str, Any] | None:
        """Return a cell's result, or None where there is no valid one of this data."""
        key = cell.key
        if key not in self._cache:
            result = self._read(key)
            if result is None:
                return None
            self._cache[key] = result
        return self._cache[key]

    def put(self, cell: Cell, result: dict[str, Any], seconds: float) -> None:
        """Store a cell's result in one step."""
        content = {
            "cell": cell.to_dict(),
            "data": self.about.data,
            "result": result,
            "seconds": round(seconds, 3),
        }
        text = json.dumps(content, indent=1) + "\n"
        write_atomically(self._get_path(cell.key), text.encode())
        self._cache[cell.key] = result

    def _read(self, key: str) -> dict[str, Any] | None:
        try:
            content = json.loads(self._get_path(key).read_bytes())
            result = content["result"] if content["data"] == self.about.data else None
        except (OSError, ValueError, KeyError, TypeError):
            # The file is missing or not one of ours: the cell is computed again.
            return None
        return result if isinstance(result, dict) else None

    def _get_path(self, key: str) -> Path:
        return self.folder / "cells" / f"{key}.json"


def read_about(folder: Path) -> About:
    """Read the description of the results in a folder."""
    try:
        return About(**json.loads((folder / ABOUT_FILE).read_bytes()))
    except (OSError, ValueError, TypeError) as error:
        raise CheckpointError(
            f"{folder}: no results of `sottovoce paper` ({ABOUT_FILE}: {get_reason(error)}); "
            "compute some first"
        ) from error
