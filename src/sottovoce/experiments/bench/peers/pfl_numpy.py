"""Apple's pfl: its SimulatedBackend in this process, with numpy for a framework.

More processes than one need torch or tensorflow there, which this algorithm has no other use for.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from sottovoce.experiments.bench.peers.sample import PeerEpoch
from sottovoce.mechanism import sum_signs
from sottovoce.simulation.interface import Collected

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.experiments.bench.peers.sample import Sample, Work


def run(sample: Sample, work: Work, cores: int) -> PeerEpoch:  # noqa: ARG001 - one process
    epoch, model = _algorithm(sample, work), _model(sample)
    backend = _backend(sample)
    _iterate(epoch, backend, model)
    began = time.perf_counter()
    _iterate(epoch, backend, model)
    return PeerEpoch(time.perf_counter() - began, model.found)


def _iterate(epoch: Any, backend: Any, model: Any) -> None:
    from pfl.hyperparam.base import AlgorithmHyperParams, ModelHyperParams

    epoch.begin()
    parameters = AlgorithmHyperParams(), backend, model, ModelHyperParams()
    epoch.run(*parameters, send_metrics_to_platform=False)


def _backend(sample: Sample) -> Any:
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.data.sampling import get_user_sampler

    places = list(range(len(sample)))
    data = {place: (sample.histories[place],) for place in places}
    everybody = FederatedDataset.from_slices(data, get_user_sampler("minimize_reuse", places))
    return SimulatedBackend(training_data=everybody, val_data=everybody)


def _model(sample: Sample) -> Any:
    from pfl.metrics import Metrics
    from pfl.model.base import Model

    class Items(Model):
        V = sample.V
        found: Collected

        def apply_model_update(self, statistics: Any) -> Any:
            """V stays what it is: one epoch, again."""
            self.found = Collected(statistics["sums"], int(statistics["reports"][0]))
            sample.update(self.found)
            return self, Metrics()

    return Items()


def _algorithm(sample: Sample, work: Work) -> Any:
    from pfl.algorithm.base import FederatedAlgorithm
    from pfl.common_types import Population
    from pfl.context import CentralContext
    from pfl.metrics import Metrics
    from pfl.stats import MappedVectorStatistics

    n_directions = sample.settings.build(sample.histories.n_items).n_directions

    class Epoch(FederatedAlgorithm):
        def begin(self) -> None:
            """An iteration more."""
            self.is_done = False

        def get_next_central_contexts(
            self,
            model: Any,
            iteration: int,
            algorithm_params: Any,
            model_train_params: Any,
            model_eval_params: Any = None,
        ) -> Any:
            if self.is_done:
                return None, model, Metrics()
            self.is_done = True
            asked = CentralContext(
                current_central_iteration=iteration,
                do_evaluation=False,
                cohort_size=len(sample),
                population=Population.TRAIN,
                algorithm_params=algorithm_params,
                model_train_params=model_train_params,
                model_eval_params=model_eval_params,
            )
            return (asked,), model, Metrics()

        def simulate_one_user(self, model: Any, user_dataset: Any, central_context: Any) -> Any:  # noqa: ARG002
            reports = sample.reports(user_dataset.user_id, model.V, work)
            return MappedVectorStatistics(_said(reports, n_directions)), Metrics()

        def process_aggregated_statistics(
            self,
            central_context: Any,  # noqa: ARG002
            aggregate_metrics: Any,  # noqa: ARG002
            model: Any,
            statistics: Any,
        ) -> Any:
            return model.apply_model_update(statistics)

    return Epoch()


def _said(reports: NDArray[np.uint32], n_directions: int) -> dict[str, NDArray[np.int64]]:
    """By direction, since pfl adds vectors."""
    sums = sum_signs(reports[None, :], n_directions)
    return {"sums": sums, "reports": np.array([reports.size])}
