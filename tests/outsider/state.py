"""All that a device keeps, in one file that is replaced as a whole: every save is one step."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.outsider.ledger import Charge
from tests.outsider.plans import Plan

if TYPE_CHECKING:
    from tests.outsider.mechanisms import Terms


@dataclass
class Batch:
    body: str
    """In hexadecimal; empty when its epoch is done."""
    moment: float
    end: int
    not_before: float = 0.0


@dataclass
class State:
    path: Path
    limit: float = 0.0
    accepted: Terms | None = None
    key: str = ""
    epoch: int = 0
    manifest: str = ""
    files: dict[str, str] = field(default_factory=dict)
    """By hash, in hexadecimal."""
    plans: dict[int, Plan] = field(default_factory=dict)
    batches: dict[int, Batch] = field(default_factory=dict)
    charges: list[Charge] = field(default_factory=list)

    @classmethod
    def load(cls, path: Path) -> State:
        kept: dict[str, Any] = json.loads(path.read_text())
        drawn, made, charged = (kept.pop(name) for name in ("plans", "batches", "charges"))
        return cls(
            path,
            **kept,
            plans={int(epoch): Plan(*plan) for epoch, plan in drawn.items()},
            batches={int(epoch): Batch(**batch) for epoch, batch in made.items()},
            charges=[Charge(*charge) for charge in charged],
        )

    def save(self) -> None:
        fields = {key: value for key, value in asdict(self).items() if key != "path"}
        new = self.path.with_name(self.path.name + ".new")
        with new.open("w") as file:
            json.dump(fields, file)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self.path)
        folder = os.open(self.path.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)

    def waiting(self) -> int | None:
        """The epoch whose batch is still to be sent."""
        return next((epoch for epoch, batch in self.batches.items() if batch.body), None)
