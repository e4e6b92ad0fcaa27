"""What `FederatedMF.fit` tells about its epochs: metrics on a test, and a bar."""

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

# In the record of an epoch: the fingerprint of the test that its metrics are of.
TEST_FIELD = "tested"


@dataclass(frozen=True, eq=False)
class FitTest:
    """The held-out items that every epoch is measured on."""

    histories: Histories
    hidden: Histories
    tags: Tags
    settings: Settings

    @cached_property
    def fingerprint(self) -> str:
        """A name that differs for other people, items or tags."""
        table = self.tags.table
        return compute_fingerprint(self.hidden, table.indptr, table.indices)

    def measure(self, state: TrainingState) -> Record:
        """Return the metrics of an item matrix, and the fingerprint of this test.

        In the end all people are tested, and after earlier epochs `PEOPLE_PER_EPOCH_TEST`.
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
    """Drop the metrics of a continued training that are of another test; measure its last epoch."""
    # Only the last epoch is measured again: the item matrices of earlier ones are not stored.
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
