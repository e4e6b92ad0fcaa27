"""The epochs of `FederatedMF.fit`: a checkpoint after each, metrics, a bar."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sottovoce.simulation.engines import build_engine
from sottovoce.simulation.files import fingerprint
from sottovoce.simulation.loop import train
from sottovoce.simulation.quality import model_of, quality
from sottovoce.simulation.resuming import keep, record_of, resume

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from sottovoce.model import Histories
    from sottovoce.model.tags import Tags
    from sottovoce.simulation.loop import Trained
    from sottovoce.training import Settings

TESTED = "tested"
"""What the metrics of a record are of."""


@dataclass(frozen=True, eq=False)
class Tested:
    """What every epoch is measured on."""

    histories: Histories
    hidden: Histories
    tags: Tags
    settings: Settings

    @cached_property
    def name(self) -> str:
        return fingerprint(self.hidden, self.tags.table.indptr, self.tags.table.indices)

    def metrics(self, V: NDArray[np.float32]) -> dict[str, Any]:
        """By name, and what they are of."""
        model = model_of(V, self.settings)(self.tags)
        return {**quality(model, self.histories, self.hidden), TESTED: self.name}


def fitted(
    histories: Histories,
    settings: Settings,
    engine: tuple[str, Mapping[str, Any]],
    checkpoint: Path | None,
    tested: Tested | None,
) -> Iterator[tuple[Trained, dict[str, Any]]]:
    """A state and a record after each epoch, those that the checkpoint already has included.

    Of these, metrics on something else are left out; those of the last are computed anew.
    """
    identity = {"data": fingerprint(histories), "resample": None} if checkpoint else {}
    start, records = resume(checkpoint, settings, identity, histories.n_items)
    records = [_of_this_test(record, tested) for record in records]
    if tested and records and TESTED not in records[-1]:
        records[-1] |= tested.metrics(start.V)
    for record in records:
        yield start, record
    if start.epochs_done == settings.epochs:
        return
    name, options = engine
    with build_engine(name, histories, settings, **options) as running:
        for state in train(settings, running, start):
            records.append(record_of(state, settings) | (tested.metrics(state.V) if tested else {}))
            if checkpoint:
                keep(checkpoint, state, settings, identity, records)
            yield state, records[-1]


def _of_this_test(record: dict[str, Any], tested: Tested | None) -> dict[str, Any]:
    if tested and record.get(TESTED) == tested.name:
        return record
    return {name: value for name, value in record.items() if name != TESTED and "@" not in name}


def metrics_in(record: Mapping[str, Any]) -> dict[str, float]:
    """All that is named `...@K`."""
    return {name: value for name, value in record.items() if "@" in name}


@contextmanager
def epoch_bar(epochs: int, *, shown: bool) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """A live bar on standard error; gives what is to be called with each record."""
    if not shown:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task("training", total=epochs)

        def show(record: Mapping[str, Any]) -> None:
            measured = [f"{name} {value:.4f}" for name, value in metrics_in(record).items()]
            said = "  ".join(["training", *measured[:1]])
            bar.update(task, completed=record["epoch"], description=said)

        yield show
