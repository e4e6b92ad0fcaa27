"""The first step of a worker process.

This module imports only the standard library, because workers should start quickly.
"""

import os
import signal
import threading
from multiprocessing import parent_process


def set_up_worker() -> None:
    """Ignore Ctrl-C, which the parent process handles, and end when the parent ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
