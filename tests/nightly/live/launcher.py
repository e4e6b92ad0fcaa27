"""Starts services quickly: one process imports everything and forks them.

    python -m tests.nightly.live.launcher

reads a line of JSON for each service to start and answers with its process id. It runs like
`sottovoce server run` or `sottovoce proxy run`, but opens reports in its own process.
"""

import json
import os
import signal
import sys
import traceback
from pathlib import Path

import sottovoce.cli.proxy
import sottovoce.cli.server
from sottovoce.server import InProcessOpener


class Opener(InProcessOpener):
    """Opens reports like `OpenerPool`, but without processes, which take a second to start."""

    def __init__(self, _: int):
        pass

    def close(self) -> None:
        pass


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children that ended are not waited for
    vars(sottovoce.cli.server)["OpenerPool"] = Opener
    parts = {"server": sottovoce.cli.server.run, "proxy": sottovoce.cli.proxy.run}
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            for stream in (1, 2):
                os.dup2(log, stream)
            try:
                parts[order["part"]](Path(order["config"]))
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(0)
        print(child, flush=True)


if __name__ == "__main__":
    main()
