"""A Ray cluster: there already, or made of this machine until it is closed."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from sottovoce.errors import MissingExtraError, SettingsError

if TYPE_CHECKING:
    from typing import Any


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
        try:
            ray.init(
                address or "local",
                include_dashboard=None if address else False,
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
        except (ConnectionError, ValueError) as error:
            raise SettingsError(f"no Ray cluster can be reached at {address}: {error}") from error

    @property
    def cores(self) -> int:
        return max(int(self.ray.cluster_resources().get("CPU", 1)), 1)

    def close(self) -> None:
        """Leave the cluster; stop it if it was made here."""
        if self._is_ours:
            self.ray.shutdown()
