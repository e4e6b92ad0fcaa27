"""What a service does by itself, again and again: close, flush, forward, apply."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from sottovoce.errors import SottovoceError

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger("sottovoce")


class Heartbeat:
    """Calls `beat` every `interval` seconds in a thread of its own, and at once after `hurry`.

    A beat that fails is said in the log and tried again, later each time, up to `slowest` seconds:
    everything a beat does must be safe to do twice.
    """

    def __init__(self, beat: Callable[[], None], interval: float, *, slowest: float = 60.0):
        self._beat = beat
        self._interval = interval
        self._slowest = max(slowest, interval)
        self._awake = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self.failures = 0
        """Beats in a row that failed, for whoever asks whether all is well."""

    def start(self) -> None:
        """Begin, with a beat at once."""
        self._thread.start()

    def hurry(self) -> None:
        """Do not wait for the next one."""
        self._awake.set()

    def stop(self) -> None:
        """Finish the beat that is under way, and no more."""
        self._stopping = True
        self._awake.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping:
            self._awake.clear()
            try:
                self._beat()
                self.failures = 0
            except SottovoceError as error:
                self.failures += 1
                log.warning("%s: %s", type(error).__name__, error)
            except Exception:
                self.failures += 1
                log.exception("a beat failed")
            if not self._stopping:
                self._awake.wait(self._pause())

    def _pause(self) -> float:
        """Seconds to the next beat. The exponent is capped: after a day of failures too."""
        return min(self._interval * 2.0 ** min(self.failures, 30), self._slowest)
