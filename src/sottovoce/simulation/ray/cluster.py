"""A Ray cluster: there already, or made of this machine until it is closed."""

from __future__ import annotations

import logging
import os
import socket
from typing import TYPE_CHECKING

from sottovoce.errors import MissingExtraError, SettingsError

if TYPE_CHECKING:
    from typing import Any


PATIENCE = 5.0
"""Seconds for an address to answer; Ray itself would try for minutes."""


def import_ray() -> Any:
    """Ray itself, if it is there."""
    # It would tell its makers that it is used.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError("the ray engine needs Ray: pip install 'sottovoce[ray]'") from error
    return ray


class Cluster:
    def __init__(self, address: str | None):
        self.ray = ray = import_ray()
        self._is_ours = not ray.is_initialized()
        if not self._is_ours:
            return
        if address is not None:
            _check_answers(address)
        try:
            ray.init(
                address or "local",
                include_dashboard=None if address else False,
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
        except (ConnectionError, ValueError) as error:
            raise SettingsError(f"no Ray cluster can be reached at {address}: {error}") from error

    def cores(self) -> list[str]:
        """The machine of each core, in turns: the first cores are on different machines."""
        alive = [node for node in self.ray.nodes() if node["Alive"]]
        numbered = [
            (core, node["NodeID"])
            for node in alive
            for core in range(int(node["Resources"].get("CPU", 0)))
        ]
        if not numbered:
            raise SettingsError("no machine of the Ray cluster has a core for us")
        return [machine for _, machine in sorted(numbered)]

    def close(self) -> None:
        """Leave the cluster; stop it if it was made here."""
        if self._is_ours:
            self.ray.shutdown()


def _check_answers(address: str) -> None:
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not (host and port.isdecimal()):
        return  # such as "auto", which Ray looks up
    try:
        socket.create_connection((host, int(port)), PATIENCE).close()
    except OSError as error:
        raise SettingsError(f"no Ray cluster answers at {address}: {error}") from error
