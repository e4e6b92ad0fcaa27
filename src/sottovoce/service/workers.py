"""What a process that works for another does first.

Nothing else is imported here: every worker begins with it, and should not wait for more.
"""

import os
import signal
import threading
from multiprocessing import parent_process


def begin_worker() -> None:
    """In the worker: Ctrl-C is for the parent to handle, and nobody outlives it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
