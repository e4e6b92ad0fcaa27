"""The comparison: check that peers compute the same, then take turns with the cpu engine."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sottovoce.evaluation.kernels import checked_threads
from sottovoce.experiments.bench.epoch import TimedEpoch
from sottovoce.experiments.bench.peers.registry import installed, missing
from sottovoce.experiments.bench.peers.sample import EVERY_WORK, Sample, check_sums
from sottovoce.experiments.bench.timing import Contender, Spread, take_turns
from sottovoce.settings import check, setting
from sottovoce.training import Settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sottovoce.data import Interactions
    from sottovoce.experiments.bench.peers.registry import Peer
    from sottovoce.experiments.bench.peers.sample import Work
    from sottovoce.experiments.bench.timing import Watch

OURS = "sottovoce, cpu engine"


@dataclass(frozen=True)
class PeersPlan:
    mechanism: str = "loudest"
    factors: int = 5
    epsilon: float = 2.5
    reports: int = 100
    seed: int = 0
    people: int = setting(200, "people that peers simulate", least=1)
    repeats: int = setting(5, "rounds", least=1)
    threads: int | None = None
    """None: all cores. Flower gets as many processes."""

    def __post_init__(self) -> None:
        check(self)

    def settings(self) -> Settings:
        return Settings.preset(
            self.mechanism,
            factors=self.factors,
            epsilon=self.epsilon,
            reports=self.reports,
            seed=self.seed,
        )


@dataclass(frozen=True)
class PeerRate:
    peer: str
    version: str
    work: Work
    seconds: list[float]
    """Of the sample's epoch, round by round."""
    client_epochs_per_second: Spread
    ours_over_peer: Spread
    """How many times as many client-epochs a second the cpu engine has, within a round."""


@dataclass(frozen=True)
class PeersResult:
    data: dict[str, Any]
    plan: PeersPlan
    threads: int
    sample: int
    """People that peers really simulated."""
    ours: Spread
    """Client-epochs a second, on all people."""
    seconds: list[float]
    """Of our epoch, round by round."""
    rates: list[PeerRate]
    left_out: dict[str, str]
    """Peers that are not installed, and how to install them."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def run_peers(
    data: Interactions, plan: PeersPlan, watch: Watch = lambda _what: None
) -> PeersResult:
    """Time every installed peer on a sample of these people; `watch` is told what is being done."""
    peers = installed()
    threads = plan.threads or checked_threads(None)
    watch("warming up: the cpu engine (compiles the first time)")
    ours = TimedEpoch.warmed_up(data.histories, plan.settings(), threads)
    sample = draw_sample(ours, plan)
    _check_all(peers, sample, threads, watch)
    contenders = [_contender(peer, work, sample, threads) for peer, work in _every(peers)]
    seconds = take_turns([Contender(OURS, ours.run), *contenders], plan.repeats, watch)
    own = data.histories.n_users / np.asarray(seconds[OURS])
    return PeersResult(
        data={key: data.summary()[key] for key in ("name", "users", "items", "interactions")},
        plan=plan,
        threads=threads,
        sample=len(sample),
        ours=Spread.of(own),
        seconds=seconds[OURS],
        rates=[
            rate_of(peer, work, seconds[_name(peer, work)], len(sample), own)
            for peer, work in _every(peers)
        ],
        left_out=missing(),
    )


def draw_sample(epoch: TimedEpoch, plan: PeersPlan) -> Sample:
    """At random; each keeps their number, and so their reports."""
    everybody = epoch.histories
    size = min(plan.people, everybody.n_users)
    order = np.random.default_rng(plan.seed).permutation(everybody.n_users)
    chosen = np.sort(order[:size]).astype(np.int64)
    return Sample(everybody.take(chosen), chosen, epoch.settings, epoch.V)


def rate_of(
    peer: Peer, work: Work, seconds: Sequence[float], people: int, own: np.ndarray[Any, Any]
) -> PeerRate:
    """From the seconds of each round, and our client-epochs a second in the same rounds."""
    rates = people / np.asarray(seconds)
    return PeerRate(
        peer=peer.name,
        version=peer.version,
        work=work,
        seconds=list(seconds),
        client_epochs_per_second=Spread.of(rates),
        ours_over_peer=Spread.of(own / rates),
    )


def _check_all(peers: Sequence[Peer], sample: Sample, cores: int, watch: Watch) -> None:
    """Before anything is timed. Devices that do nothing have no sums to compare."""
    expected = sample.expected()
    for peer, work in _every(peers):
        if work != "nothing":
            watch(f"comparing sums: {_name(peer, work)}")
            found = peer.driver().run(sample, work, cores).found
            check_sums(_name(peer, work), found, expected)


def _contender(peer: Peer, work: Work, sample: Sample, cores: int) -> Contender:
    return Contender(_name(peer, work), lambda: peer.driver().run(sample, work, cores).seconds)


def _every(peers: Sequence[Peer]) -> list[tuple[Peer, Work]]:
    return [(peer, work) for peer in peers for work in EVERY_WORK]


def _name(peer: Peer, work: Work) -> str:
    return f"{peer.name}, {work}"
