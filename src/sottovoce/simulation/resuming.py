"""A checkpoint after every epoch, and a run that goes on from it as if it had never stopped."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sottovoce.errors import CheckpointError
from sottovoce.simulation.files import ModelFile, read_model, write_model
from sottovoce.simulation.loop import Trained, begin

if TYPE_CHECKING:
    from pathlib import Path

    from sottovoce.training import Settings


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
    # More epochs than before is a continuation, unless people take turns; all else is another run.
    longer = replace(saved.settings, epochs=settings.epochs)
    same = settings in ([saved.settings] if settings.lifetime else [longer])
    if not same or any(saved.extra.get(name) != value for name, value in identity.items()):
        raise CheckpointError(
            f"{checkpoint}: belongs to another run (other settings, data, split or negatives); "
            "remove it or name another file"
        )
    if saved.epochs_done > settings.epochs:
        raise CheckpointError(
            f"{checkpoint}: has {saved.epochs_done} epochs already, not {settings.epochs}"
        )
    return Trained(saved.epochs_done, saved.V), list(saved.extra["epochs"])
