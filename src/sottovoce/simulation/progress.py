"""The metrics that `FederatedMF.fit` measures after each epoch, and its progress bar."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sottovoce.core import Histories
from sottovoce.core.tags import Tags
from sottovoce.simulation.evaluation.lists import make_device_model, to_factors
from sottovoce.simulation.evaluation.quality import measure_scores
from sottovoce.simulation.evaluation.ranking import PEOPLE_PER_EPOCH_TEST, Factors
from sottovoce.simulation.files import compute_fingerprint
from sottovoce.simulation.training import Record, TrainingLog, TrainingState, select_metrics
from sottovoce.training import Settings

# The field of an epoch's record that has the fingerprint of the test used for its metrics.
TEST_FIELD = "tested"


@dataclass(frozen=True, eq=False)
class FitTest:
    """The test on which the model is measured after every epoch."""

    histories: Histories
    """The items that each person's device knows."""
    hidden: Histories
    """The test items of the same people."""
    tags: Tags
    settings: Settings

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the test items and the tags."""
        table = self.tags.table
        return compute_fingerprint(self.hidden, table.indptr, table.indices)

    def measure(self, state: TrainingState) -> Record:
        """Return the metrics of an item matrix, and the fingerprint of this test.

        After the last epoch all people are tested, after earlier ones about
        `PEOPLE_PER_EPOCH_TEST` of them.
        """
        model = make_device_model(state.V, self.settings, self.tags)
        places = np.arange(self.histories.n_users)
        if state.epochs_done < self.settings.epochs and len(places) > PEOPLE_PER_EPOCH_TEST:
            tested = np.flatnonzero(np.diff(self.hidden.indptr))
            places = tested[:: -(-len(tested) // PEOPLE_PER_EPOCH_TEST)]
        histories, hidden = self.histories.take(places), self.hidden.take(places)
        metrics = measure_scores(Factors(*to_factors(model, histories)), histories, hidden)
        return {**metrics, TEST_FIELD: self.fingerprint}


def refresh_metrics(log: TrainingLog, test: FitTest | None) -> None:
    """Drop metrics that were measured on another test; measure the last epoch if it has none.

    Args:
        log: The log of a training that continues from a checkpoint.
        test: The present test; None drops the metrics of all epochs.
    """
    # Earlier epochs cannot be measured any more: their item matrices are not stored.
    for record in log.records:
        if test is None or record.get(TEST_FIELD) != test.fingerprint:
            for name in (TEST_FIELD, *select_metrics(record)):
                record.pop(name, None)
    if test and log.records and TEST_FIELD not in log.records[-1]:
        log.records[-1] |= test.measure(log.state)


@contextmanager
def show_epoch_bar(epochs: int, *, is_shown: bool) -> Iterator[Callable[[Record], None]]:
    """Show a live bar on standard error; yield the function to call with each record."""
    if not is_shown:
        yield lambda _: None
        return
    # Imported late, since most trainings show no bar.
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task("training", total=epochs)

        def show(record: Record) -> None:
            metrics = [f"{name} {value:.4f}" for name, value in select_metrics(record).items()]
            description = "  ".join(["training", *metrics[:1]])
            bar.update(task, completed=record["epoch"], description=description)

        yield show
