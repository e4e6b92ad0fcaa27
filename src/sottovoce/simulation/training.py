"""Algorithm 2 of the paper: in each epoch, collect reports, estimate the gradient, update V."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import CheckpointError
from sottovoce.simulation.evaluation.quality import NEGATIVES_METRIC
from sottovoce.simulation.files import ModelFile, read_model, write_model
from sottovoce.simulation.interface import Engine
from sottovoce.training import (
    NameCounts,
    Settings,
    make_first_items,
    make_items_from_start,
)

Record = dict[str, Any]
# Key of the table of counts in a checkpoint, if the reports of the training name items.
COUNTS_NAME = "name_counts"


@dataclass(frozen=True)
class TrainingState:
    """The model after some epochs: everything that a continuation needs."""

    epochs_done: int
    V: NDArray[np.float32]
    seconds: float = 0.0
    """Duration of the last epoch."""
    n_reports: int = 0
    """Reports in the last epoch."""
    names: NameCounts | None = None
    """Counts of the named items in a training of names; None in other trainings."""
    has_start: bool = False
    """Whether the first V was learnt from public data (a public start)."""

    def add_items(self, n_items: int) -> "TrainingState":
        """Return the state for a catalogue of `n_items` items, of which the last ones are new."""
        new_rows = np.zeros((n_items - len(self.V), self.V.shape[1]), np.float32)
        names = None if self.names is None else self.names.add_items(n_items)
        return replace(self, V=np.concatenate([self.V, new_rows]), names=names)


def start_training(
    settings: Settings, n_items: int, start: NDArray[np.float32] | None = None
) -> TrainingState:
    """Return the state before the first epoch.

    Args:
        settings: The training's settings.
        n_items: Number of items.
        start: An item matrix that was learnt from public data; None: there is none.
    """
    if start is None:
        names = NameCounts.make_empty(n_items) if settings.asks_for_names else None
        return TrainingState(0, make_first_items(settings, n_items), names=names)
    names = NameCounts.from_items(start) if settings.asks_for_names else None
    return TrainingState(0, make_items_from_start(settings, start), names=names, has_start=True)


def train(
    settings: Settings, engine: Engine, first: TrainingState, *, row_limit: float = 0.0
) -> Iterator[TrainingState]:
    """Run the remaining epochs, and yield the state after each."""
    state = first
    while state.epochs_done < settings.epochs:
        state = run_epoch(engine, state, row_limit=row_limit)
        yield state


def run_epoch(engine: Engine, state: TrainingState, *, row_limit: float = 0.0) -> TrainingState:
    """Run the next epoch, and return the state after it."""
    started, epoch = time.perf_counter(), state.epochs_done
    if state.names is None:
        names = None
        V, n_reports = engine.learn(state.V, epoch, row_limit=row_limit, has_start=state.has_start)
    else:
        collected = engine.collect_with_dummies(state.V, epoch)
        counts, n_reports = collected.sums, collected.n_reports
        names = state.names.add_epoch(engine.mechanism, counts, n_reports, engine.settings.fade)
        V = names.update_items(state.V)
    seconds = time.perf_counter() - started
    return TrainingState(epoch + 1, V, seconds, n_reports, names, state.has_start)


@dataclass
class TrainingLog:
    """The state of a training and a record of each epoch, both kept in an optional checkpoint."""

    settings: Settings
    state: TrainingState
    records: list[Record]
    """For each epoch: its number, its seconds, the people who took part, and its metrics."""
    checkpoint: Path | None = None
    identity: Mapping[str, Any] | None = None
    """JSON values, such as the hash of the data, that must equal those in the checkpoint."""

    @classmethod
    def open(
        cls,
        settings: Settings,
        n_items: int,
        checkpoint: Path | None = None,
        identity: Mapping[str, Any] | None = None,
        start: NDArray[np.float32] | None = None,
    ) -> "TrainingLog":
        """Start a training, or continue the one in the checkpoint if the file exists.

        Raises:
            CheckpointError: The checkpoint belongs to another run, or has more epochs than
                `settings`.
        """
        first = start_training(settings, n_items, start)
        # A checkpoint has a hash of the start, and is refused if it began with another one.
        hashes = {} if start is None else {"start": sha256(start.tobytes()).hexdigest()}
        log = cls(settings, first, [], checkpoint, {**(identity or {}), **hashes})
        if checkpoint is None or not checkpoint.exists():
            return log
        saved = read_model(checkpoint)
        if differences := _list_differences(saved, settings, log.identity or {}):
            raise CheckpointError(
                f"{checkpoint}: belongs to another run: {'; '.join(differences)}. Remove the file, "
                "or name another one"
            )
        if saved.epochs_done > settings.epochs:
            raise CheckpointError(
                f"{checkpoint}: has {saved.epochs_done} epochs already, but epochs is "
                f"{settings.epochs}; set epochs to {saved.epochs_done} or more, or name another "
                "file"
            )
        # `seconds` and `n_reports` of the state stay 0: the record of the last epoch has them.
        names = NameCounts(saved.arrays[COUNTS_NAME]) if settings.asks_for_names else None
        log.state = replace(first, epochs_done=saved.epochs_done, V=saved.V, names=names)
        log.records = list(saved.extra["epochs"])
        return log

    @property
    def is_complete(self) -> bool:
        return self.state.epochs_done == self.settings.epochs

    def run(
        self,
        engine: Engine,
        measure: Callable[[TrainingState], Record],
        on_epoch: Callable[[Record], None] = lambda _: None,
    ) -> None:
        """Run the remaining epochs, and write the checkpoint after each.

        Args:
            engine: The engine that computes the reports.
            measure: Returns further fields for the record of an epoch, such as metrics.
            on_epoch: Called with the record of each epoch after it was added to the log.
        """
        for state in train(self.settings, engine, self.state):
            people = state.n_reports // self.settings.reports
            record = {"epoch": state.epochs_done, "seconds": state.seconds, "people": people}
            self.records.append(record | measure(state))
            self.state = state
            # The checkpoint includes the metrics, so a continued run need not measure them again.
            if self.checkpoint:
                extra = {**(self.identity or {}), "epochs": self.records}
                arrays = {} if state.names is None else {COUNTS_NAME: state.names.table}
                model = ModelFile(state.V, self.settings, state.epochs_done, extra, arrays)
                write_model(self.checkpoint, model)
            on_epoch(self.records[-1])


def select_metrics(record: Mapping[str, Any]) -> dict[str, float]:
    """Return the metrics of a record (names with `@`) and the number of negatives, if any."""
    return {
        name: value for name, value in record.items() if "@" in name or name == NEGATIVES_METRIC
    }


def _list_differences(
    saved: ModelFile, settings: Settings, identity: Mapping[str, Any]
) -> list[str]:
    """Describe how the run in a file differs from this run, with the values of both."""
    there, here = saved.settings.as_dict(), settings.as_dict()
    # A run may continue with more epochs, unless each person takes part only in some of them: who
    # takes part depends on the number of epochs.
    if not settings.lifetime:
        there["epochs"] = here["epochs"]
    there |= {name: saved.extra.get(name) for name in identity}
    here |= identity
    names = [name for name in {**here, **there} if there.get(name) != here.get(name)]
    # Another seed or split holds out other items, which changes the data too. So the data is named
    # only if everything else is equal.
    if names == ["data"]:
        return ["other data"]
    return [
        f"{name} is {there.get(name)} there and {here.get(name)} here"
        for name in names
        if name != "data"
    ]
