"""The paper's Algorithm 2: epochs of reports, estimate, update."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import CheckpointError
from sottovoce.simulation.files import ModelFile, read_model, write_model
from sottovoce.simulation.interface import Engine
from sottovoce.training import Settings, first_items


@dataclass(frozen=True)
class Trained:
    """The model after some epochs: everything that a continuation needs."""

    epochs_done: int
    V: NDArray[np.float32]
    seconds: float = 0.0
    """Of the last epoch."""
    n_reports: int = 0
    """In the last epoch."""


def begin(settings: Settings, n_items: int) -> Trained:
    return Trained(0, first_items(settings, n_items))


def train(settings: Settings, engine: Engine, start: Trained) -> Iterator[Trained]:
    """One state after each epoch that is still to do."""
    V = start.V
    for epoch in range(start.epochs_done, settings.epochs):
        began = time.perf_counter()
        V, n_reports = engine.learn(V, epoch)
        yield Trained(epoch + 1, V, time.perf_counter() - began, n_reports)


# A checkpoint after every epoch, and a run that goes on from it as if it had never stopped.


def record_of(state: Trained, settings: Settings) -> dict[str, Any]:
    """What is said of an epoch; metrics may join it."""
    return {
        "epoch": state.epochs_done,
        "seconds": state.seconds,
        "people": state.n_reports // settings.reports,
    }


def keep(
    checkpoint: Path,
    state: Trained,
    settings: Settings,
    identity: dict[str, Any],
    epochs: list[dict[str, Any]],
) -> None:
    """Write the state, what run it is of (`identity`), and the records of its epochs."""
    extra = {**identity, "epochs": epochs}
    write_model(checkpoint, ModelFile(state.V, settings, state.epochs_done, extra))


def resume(
    checkpoint: Path | None, settings: Settings, identity: dict[str, Any], n_items: int
) -> tuple[Trained, list[dict[str, Any]]]:
    """The state to go on from: the checkpoint's, if it belongs to this very run."""
    if checkpoint is None or not checkpoint.exists():
        return begin(settings, n_items), []
    saved = read_model(checkpoint)
    if differing := _differing(saved, settings, identity):
        raise CheckpointError(
            f"{checkpoint}: belongs to another run: {'; '.join(differing)}. Remove the file, or "
            "name another one"
        )
    if saved.epochs_done > settings.epochs:
        raise CheckpointError(
            f"{checkpoint}: has {saved.epochs_done} epochs already, and {settings.epochs} are "
            "asked for"
        )
    return Trained(saved.epochs_done, saved.V), list(saved.extra["epochs"])


def _differing(saved: ModelFile, settings: Settings, identity: dict[str, Any]) -> list[str]:
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
    return [
        f"{name} is {_said(there, name)} there and {_said(here, name)} here"
        for name in names
        if name != "data"
    ]


def _said(values: dict[str, Any], name: str) -> str:
    value = values.get(name)
    return "none" if value is None else str(value)
