"""Flower's simulation engine: a ClientApp for each device in Ray's processes, a Strategy that adds.

A device's answer is its k reports, as in the live system; the Strategy adds them up and makes the
next item matrix. Nothing of a person travels with a message: processes read the sample once.
"""

from __future__ import annotations

import logging
import os
import pickle
import time
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from sottovoce.errors import SottovoceError
from sottovoce.experiments.bench.peers.sample import PeerEpoch
from sottovoce.mechanism import sum_signs
from sottovoce.simulation.interface import Collected

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sottovoce.experiments.bench.peers.sample import Sample, Work

ROUNDS = 2
"""The first one warms the processes up: they import, read the sample and load compiled code."""
SET_TO_0 = (
    "FLWR_TELEMETRY_ENABLED",  # neither tells its makers that it is used
    "RAY_USAGE_STATS_ENABLED",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO",  # a warning about cards, where nobody asked for one
    "RAY_worker_niceness",  # else its processes give way to whatever else the machine does
)
A_CORE = {"num_cpus": 1, "num_gpus": 0.0}
"""Of a client. Flower's own default is two, which would leave half of the cores idle."""


def run(sample: Sample, work: Work, cores: int) -> PeerEpoch:
    for name in SET_TO_0:
        os.environ.setdefault(name, "0")
    from flwr.simulation import run_simulation

    logging.getLogger("flwr").setLevel(logging.ERROR)
    epochs: list[PeerEpoch] = []
    with TemporaryDirectory(prefix="sottovoce-") as folder:
        file = Path(folder) / "sample"
        file.write_bytes(pickle.dumps(sample))
        run_simulation(
            server_app=_server_app(sample, {"sample": str(file), "work": work}, epochs),
            client_app=_client_app(),
            num_supernodes=len(sample),
            backend_config={"client_resources": A_CORE, "init_args": _ray(cores)},
        )
    return epochs[-1]


def _ray(cores: int) -> dict[str, Any]:
    """A cluster of its own, whatever else runs on this machine."""
    return {"address": "local", "num_cpus": cores, "log_to_driver": False, "logging_level": "error"}


def answer(message: Any, context: Any) -> Any:
    """One device; called in a process of Ray."""
    from flwr.app import Array, ArrayRecord, Message, RecordDict

    config, V = message.content["config"], message.content["arrays"]["V"].numpy()
    sample = _sample(config["sample"])
    reports = sample.reports(int(context.node_config["partition-id"]), V, config["work"])
    said = ArrayRecord({"reports": Array(reports)})
    return Message(RecordDict({"arrays": said}), reply_to=message)


@lru_cache(maxsize=1)
def _sample(file: str) -> Sample:
    return cast("Sample", pickle.loads(Path(file).read_bytes()))  # noqa: S301 - `run` wrote it


def _client_app() -> Any:
    from flwr.clientapp import ClientApp

    app = ClientApp()
    app.train()(answer)
    return app


def _server_app(sample: Sample, config: dict[str, str], epochs: list[PeerEpoch]) -> Any:
    from flwr.app import Array, ArrayRecord, ConfigRecord
    from flwr.serverapp import ServerApp

    def main(grid: Any, context: Any) -> None:  # noqa: ARG001 - Flower's signature
        strategy = _strategy(sample, epochs)
        published = ArrayRecord({"V": Array(sample.V)})
        strategy.start(grid, published, num_rounds=ROUNDS, train_config=ConfigRecord(config))

    app = ServerApp()
    app.main()(main)
    return app


def _strategy(sample: Sample, epochs: list[PeerEpoch]) -> Any:
    """Everybody is asked, nobody is asked to evaluate, and V stays what it is: one epoch, again."""
    from flwr.serverapp.strategy import FedAvg

    class AddedReports(FedAvg):
        def configure_train(self, *arguments: Any, **named: Any) -> Any:
            self.began = time.perf_counter()
            return super().configure_train(*arguments, **named)

        def aggregate_train(self, server_round: int, replies: Iterable[Any]) -> tuple[None, None]:  # noqa: ARG002
            found = _added(replies, sample.settings.build(sample.histories.n_items).n_directions)
            sample.update(found)
            epochs.append(PeerEpoch(time.perf_counter() - self.began, found))
            return None, None

    return AddedReports(fraction_evaluate=0.0, min_available_nodes=len(sample), min_train_nodes=1)


def _added(replies: Iterable[Any], n_directions: int) -> Collected:
    said = []
    for reply in replies:
        if reply.has_error():
            raise SottovoceError(f"a device of Flower failed: {reply.error.reason}")
        said.append(reply.content["arrays"]["reports"].numpy())
    reports = np.stack(said)
    return Collected(sum_signs(reports, n_directions), reports.size)
