"""The paper's Algorithm 2: epochs of reports, estimate, update."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import CheckpointError
from sottovoce.simulation.files import ModelFile, read_model, write_model
from sottovoce.simulation.interface import Engine
from sottovoce.training import Settings, make_first_items

Record = dict[str, Any]
NEGATIVES_METRIC = "negatives"
"""Among metrics: with how many others what was left out is ranked."""


@dataclass(frozen=True)
class TrainingState:
    """The model after some epochs: everything that a continuation needs."""

    epochs_done: int
    V: NDArray[np.float32]
    seconds: float = 0.0
    """Of the last epoch."""
    n_reports: int = 0
    """In the last epoch."""


def start_training(settings: Settings, n_items: int) -> TrainingState:
    return TrainingState(0, make_first_items(settings, n_items))


def train(
    settings: Settings, engine: Engine, start: TrainingState, *, row_limit: float = 0.0
) -> Iterator[TrainingState]:
    """One state after each epoch that is still to do."""
    V = start.V
    for epoch in range(start.epochs_done, settings.epochs):
        began = time.perf_counter()
        V, n_reports = engine.learn(V, epoch, row_limit=row_limit)
        yield TrainingState(epoch + 1, V, time.perf_counter() - began, n_reports)


def go_on(
    settings: Settings,
    engine: Engine,
    start: TrainingState,
    records: list[Record],
    measure: Callable[[TrainingState], Record],
    checkpoint: Path | None,
    identity: Record,
) -> Iterator[TrainingState]:
    """Train, and add what is said of each epoch to the records, with what is measured of it.

    The checkpoint is written after each: state, records, and what run they are of (`identity`).
    """
    for state in train(settings, engine, start):
        people = state.n_reports // settings.reports
        record = {"epoch": state.epochs_done, "seconds": state.seconds, "people": people}
        records.append(record | measure(state))
        if checkpoint:
            extra = {**identity, "epochs": records}
            write_model(checkpoint, ModelFile(state.V, settings, state.epochs_done, extra))
        yield state


def select_metrics(record: Mapping[str, Any]) -> dict[str, float]:
    """All that is named `...@K`, and what it was ranked against."""
    return {
        name: value for name, value in record.items() if "@" in name or name == NEGATIVES_METRIC
    }


def resume(
    checkpoint: Path | None, settings: Settings, identity: Record, n_items: int
) -> tuple[TrainingState, list[Record]]:
    """The state to go on from: the checkpoint's, if it belongs to this very run."""
    if checkpoint is None or not checkpoint.exists():
        return start_training(settings, n_items), []
    saved = read_model(checkpoint)
    if differing := _differing(saved, settings, identity):
        raise CheckpointError(
            f"{checkpoint}: belongs to another run: {'; '.join(differing)}. Remove the file, or "
            "name another one"
        )
    if saved.epochs_done > settings.epochs:
        raise CheckpointError(
            f"{checkpoint}: has {saved.epochs_done} epochs already, and {settings.epochs} are "
            "asked for; ask for more, or name another"
        )
    return TrainingState(saved.epochs_done, saved.V), list(saved.extra["epochs"])


def _differing(saved: ModelFile, settings: Settings, identity: Record) -> list[str]:
    """What is not as in the run that the file is of, with the values there and here.

    More epochs than before is a continuation, unless people take turns. Data is named only if all
    else is the same: another seed or split leaves out other items.
    """
    there, here = saved.settings.as_dict(), settings.as_dict()
    if not settings.lifetime:
        there["epochs"] = here["epochs"]
    there |= {name: saved.extra.get(name) for name in identity}
    here |= identity
    names = [name for name in {**here, **there} if there.get(name) != here.get(name)]
    if names == ["data"]:
        return ["other data"]
    pairs = ((name, there.get(name), here.get(name)) for name in names if name != "data")
    return [f"{name} is {theirs} there and {ours} here" for name, theirs, ours in pairs]
