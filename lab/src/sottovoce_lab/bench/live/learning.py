"""The cost of an epoch of names divided by the cost of an epoch of taste, planned for one budget.

    python -m sottovoce_lab.bench.live.learning --people 2000 --items 9781 --budget 10

Each kind of training has its own server and proxy, to which the same number of people report. The
two kinds take turns.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from sottovoce.cli.options import LEARN_MECHANISMS, Learn
from sottovoce.protocol import SEALED_BYTES, Batch
from sottovoce.server import InProcessOpener
from sottovoce.training import Budget, Settings
from sottovoce.training.planning import plan_open_ended
from sottovoce_lab.bench.live.bench_server import PROXY_NAME, BenchServer
from sottovoce_lab.bench.live.intake import measure_intake
from sottovoce_lab.bench.timing import Spread

# Costs of one epoch by name: CPU seconds or bytes.
Costs = dict[str, float]


def measure_epoch(bench: BenchServer, folder: Path, people: int) -> Costs:
    """Return the costs of one epoch in which this number of people report."""
    signed = bench.signed
    epoch, reports = signed.manifest.epoch, signed.manifest.terms.reports
    (chunk,) = bench.seal_chunks(1, people * reports, 1)
    with bench.open_fresh_server(folder / "server", InProcessOpener()) as server:
        count = measure_seconds(
            lambda: server.take_chunk(PROXY_NAME, epoch, chunk.name, chunk.encode())
        )
        server.commit(PROXY_NAME, epoch, signed.hash, 1, chunk.reports)
        apply = measure_seconds(server.tick)
        assert server.get_signed_manifest().manifest.epoch == epoch + 1, "the epoch was applied"
    intake = measure_intake(bench, folder, batches=people, rounds=1, watch=lambda _: None)
    proxy = people / intake.per_cpu_second.median + people / intake.mixed_per_cpu_second.median
    batch = Batch(epoch, signed.hash, bytes(16), bytes(SEALED_BYTES * reports))
    return {
        "server, seconds to count": count,
        "server, seconds to apply": apply,
        "proxy, seconds": proxy,
        "all, seconds": count + apply + proxy,
        "a device sends, bytes": len(batch.encode()),
        "a device fetches, bytes": len(signed.encode()) + len(bench.model),
    }


def measure_seconds(work: Callable[[], object]) -> float:
    """Return the CPU seconds of this process."""
    began = time.process_time()
    work()
    return time.process_time() - began


def compare_kinds(
    plans: Mapping[Learn, Settings], items: int, people: int, rounds: int
) -> dict[str, tuple[float, float, Spread]]:
    """Return the median costs of names and of taste, and their ratio in the same round."""
    costs: dict[Learn, list[Costs]] = {kind: [] for kind in plans}
    with tempfile.TemporaryDirectory(prefix="sottovoce-bench-") as name:
        benches = {
            kind: BenchServer.make(Path(name) / kind, items=items, training=plan)
            for kind, plan in plans.items()
        }
        for number in range(rounds):
            for kind, bench in benches.items():
                folder = Path(name) / f"{kind}-{number}"
                costs[kind].append(measure_epoch(bench, folder, people))
    compared = {}
    for cost in costs["names"][0]:
        names = [epoch[cost] for epoch in costs["names"]]
        taste = [epoch[cost] for epoch in costs["taste"]]
        ratio = Spread.from_values([a / b for a, b in zip(names, taste, strict=True)])
        medians = Spread.from_values(names).median, Spread.from_values(taste).median
        compared[cost] = (*medians, ratio)
    return compared


def main() -> None:
    """Print the costs of both kinds and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=2_000, help="people who report")
    parser.add_argument("--items", type=int, default=9_781)
    parser.add_argument("--budget", type=float, default=10.0, help="local budget")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    plans = {
        kind: plan_open_ended(
            20 * arguments.people,
            arguments.items,
            budget=Budget(local=arguments.budget),
            mechanism=mechanism,
        )
        for kind, mechanism in LEARN_MECHANISMS.items()
    }
    compared = compare_kinds(plans, arguments.items, arguments.people, arguments.rounds)
    for cost, (names, taste, ratio) in compared.items():
        sys.stdout.write(
            f"{cost}: names {names:.5g}, taste {taste:.5g}, "
            f"ratio {ratio.median:.3f} ({ratio.low:.3f}..{ratio.high:.3f})\n"
        )


if __name__ == "__main__":
    main()
