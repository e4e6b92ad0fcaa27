"""Which peers there are, which are installed, and how to install the others."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module, metadata
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol, cast

from sottovoce.errors import MissingExtraError

if TYPE_CHECKING:
    from sottovoce.experiments.bench.peers.sample import PeerEpoch, Sample, Work


class PeerModule(Protocol):
    def run(self, sample: Sample, work: Work, cores: int) -> PeerEpoch:
        """One epoch of the sample, each device doing this work, after one that is not timed."""


@dataclass(frozen=True)
class Peer:
    name: str
    module: str
    """Ours, that drives it."""
    needs: tuple[str, ...]
    """Packages; the first is the peer's own."""
    install: str

    @property
    def is_installed(self) -> bool:
        return all(find_spec(package) is not None for package in self.needs)

    @property
    def version(self) -> str:
        return metadata.version(self.needs[0])

    def driver(self) -> PeerModule:
        return cast("PeerModule", import_module(self.module))


PEERS = (
    Peer(
        "Flower",
        "sottovoce.experiments.bench.peers.flower",
        ("flwr", "ray"),
        # Its own commands ask for an older typer than ours, so no extra can have both; its
        # simulator needs none.
        "pip install 'flwr[simulation]' && pip install 'sottovoce[all]'",
    ),
    Peer(
        "pfl",
        "sottovoce.experiments.bench.peers.pfl_numpy",
        ("pfl",),
        # It asks for an older dp-accounting than the simulator, so no extra can have both.
        "pip install pfl (in an environment of its own: it brings an older dp-accounting)",
    ),
)


def installed() -> list[Peer]:
    """At least one, or an error that says how to get one."""
    found = [peer for peer in PEERS if peer.is_installed]
    if not found:
        ways = "; ".join(f"{name}: {install}" for name, install in missing().items())
        raise MissingExtraError(f"no peer is installed to compare with. {ways}")
    return found


def missing() -> dict[str, str]:
    """The others: how to install them."""
    return {peer.name: peer.install for peer in PEERS if not peer.is_installed}
