"""A thread for the regular work of a service, such as ending epochs and forwarding reports."""

import logging
import threading
from collections.abc import Callable

from sottovoce.errors import SottovoceError
from sottovoce.service.logs import Troubles

log = logging.getLogger("sottovoce")


class Heartbeat:
    """A thread that calls `tick` every `interval` seconds, and at once after `wake_up`.

    A failed tick is logged once and repeated. The pause before it doubles with every failure, up to
    `max_interval` seconds. So a tick must be safe to repeat.

    Args:
        tick: The work to do.
        interval: Seconds between two ticks.
        troubles: The troubles of the service, in which a failed tick is named.
        max_interval: Seconds between two ticks after many failures.
    """

    def __init__(
        self,
        tick: Callable[[], None],
        interval: float,
        troubles: Troubles,
        *,
        max_interval: float = 60.0,
    ):
        self._tick = tick
        self._interval = interval
        self._max_interval = max(max_interval, interval)
        self._awake = threading.Event()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self.failures = 0
        """The number of failed ticks in a row."""
        self._troubles = troubles

    def start(self) -> None:
        self._thread.start()

    def wake_up(self) -> None:
        """Begin the next tick at once."""
        self._awake.set()

    def stop(self) -> None:
        """Stop after the current tick, but wait for it at most `max_interval` seconds."""
        self._is_stopping = True
        self._awake.set()
        if self._thread.is_alive():
            self._thread.join(self._max_interval)

    def _run(self) -> None:
        while not self._is_stopping:
            self._awake.clear()
            self.tick()
            if not self._is_stopping:
                self._awake.wait(self._get_pause())

    def tick(self) -> None:
        """Do one tick, and record whether it failed."""
        try:
            self._tick()
            self.failures = 0
            self._troubles.update("tick", None)
        except SottovoceError as error:
            self.failures += 1
            self._troubles.update("tick", str(error))
        except Exception as error:
            self.failures += 1
            self._troubles.update("tick", f"the regular work failed: {error!r}; see the log")
            log.exception("the regular work failed")

    def _get_pause(self) -> float:
        # Limit the exponent: 2.0**failures would overflow after a day of failures.
        return min(self._interval * 2.0 ** min(self.failures, 30), self._max_interval)
