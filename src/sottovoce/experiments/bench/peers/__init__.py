"""General simulators of federated learning on the same epoch, side by side with the cpu engine."""

from sottovoce.experiments.bench.peers.comparison import PeersPlan, PeersResult, run_peers
from sottovoce.experiments.bench.peers.registry import PEERS

__all__ = ["PEERS", "PeersPlan", "PeersResult", "run_peers"]
