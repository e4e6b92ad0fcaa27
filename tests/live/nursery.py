"""Parts as processes of their own, started quickly: one process imports everything and forks them.

    python -m tests.live.nursery

reads a line of JSON for each part to start and answers with its process id. A part is what
`sottovoce server run` or `sottovoce proxy run` is, but for one thing: at the n-th commit of a kind,
before it or after it, it kills itself.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import sottovoce.cli.proxy
import sottovoce.cli.server
from sottovoce.proxy.tables import Tables
from sottovoce.server import InProcess
from sottovoce.server.store import Transaction
from sottovoce.server.store import store as server_store
from sottovoce.storage import Database

if TYPE_CHECKING:
    from sqlalchemy import Engine

KINDS = {
    "server": ("add_epoch", "set_waiting", "close", "add_chunk", "add_commit", "apply"),
    "proxy": ("add_manifest", "add_batch", "add_flush", "set_delivered", "settle"),
}
"""What makes a transaction one of a kind: that this was called in it."""


class Opener(InProcess):
    """As `Pool`, without processes: those take a second to start."""

    def __init__(self, _: int):
        pass

    def close(self) -> None:
        pass


class Fate:
    """Dies at the commit of its kind and number."""

    def __init__(self, kind: str, number: int, *, after: bool):
        self._kind, self._left, self._after = kind, number, after
        self._is_one = False

    def watch(self, tables: type) -> None:
        """A call of this name makes the transaction one of the kind. One writer at a time."""
        method = getattr(tables, self._kind)

        @wraps(method)
        def noticed(*arguments: Any, **named: Any) -> Any:
            self._is_one = True
            return method(*arguments, **named)

        setattr(tables, self._kind, noticed)

    def around(self, commit: Callable[..., None]) -> Callable[..., None]:
        def fatal(*arguments: Any) -> None:
            if self._is_one:
                self._left -= 1
            die = self._is_one and self._left == 0
            self._is_one = False
            if die and not self._after:
                _die()
            commit(*arguments)
            if die:
                _die()

        return fatal


def _die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("nobody comes here")


def run_part(part: str, config: Path, fate: Fate | None) -> None:
    """In the child."""
    if part == "server":
        vars(sottovoce.cli.server)["Pool"] = Opener
        if fate is not None:
            _doom_server(fate)
        sottovoce.cli.server.run(config)
    else:
        if fate is not None:
            fate.watch(Tables)
            Database.commit = fate.around(Database.commit)  # type: ignore[method-assign]
        sottovoce.cli.proxy.run(config)


def _doom_server(fate: Fate) -> None:
    fate.watch(Transaction)
    names = vars(server_store)
    open_engine = names["open_engine"]

    def doomed(url: str) -> Engine:
        engine: Engine = open_engine(url)
        dialect: Any = engine.dialect
        dialect.do_commit = fate.around(dialect.do_commit)
        return engine

    names["open_engine"] = doomed


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the dead are not waited for
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            for stream in (1, 2):
                os.dup2(log, stream)
            kind = order["kind"]
            fate = None if kind is None else Fate(kind, order["number"], after=order["after"])
            try:
                run_part(order["part"], Path(order["config"]), fate)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(0)
        print(child, flush=True)


if __name__ == "__main__":
    main()
