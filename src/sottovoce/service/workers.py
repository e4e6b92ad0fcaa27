"""The first step of a worker process.

Nothing else is imported here, because every worker imports this module and should start quickly.
"""

import os
import signal
import threading
from multiprocessing import parent_process


def set_up_worker() -> None:
    """Leave Ctrl-C to the parent process, and end when it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
