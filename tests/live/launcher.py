"""Parts as processes of their own, started quickly: one process imports everything and forks them.

    python -m tests.live.launcher

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
from sottovoce.proxy.store import Tables
from sottovoce.server import InProcess
from sottovoce.server.store import Transaction
from sottovoce.server.store import store as server_store
from sottovoce.storage import Database

if TYPE_CHECKING:
    from sqlalchemy import Engine

KINDS = {
    "server": ("add_epoch", "set_crowd", "close", "add_chunk", "add_commit", "apply"),
    "proxy": ("add_manifest", "add_batch", "add_flush", "set_delivered", "settle"),
}
"""What makes a transaction one of a kind: that this was called in it."""


class Opener(InProcess):
    """As `Pool`, without processes: those take a second to start."""

    def __init__(self, _: int):
        pass

    def close(self) -> None:
        pass


class KillPoint:
    """Kills its process at the commit of this kind and number."""

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
        def killing(*arguments: Any) -> None:
            if self._is_one:
                self._left -= 1
            die = self._is_one and self._left == 0
            self._is_one = False
            if die and not self._after:
                _kill_itself()
            commit(*arguments)
            if die:
                _kill_itself()

        return killing


def _kill_itself() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("nobody comes here")


def run_part(part: str, config: Path, kill_point: KillPoint | None) -> None:
    """In the child."""
    if part == "server":
        vars(sottovoce.cli.server)["Pool"] = Opener
        if kill_point is not None:
            _kill_server_at(kill_point)
        sottovoce.cli.server.run(config)
    else:
        if kill_point is not None:
            kill_point.watch(Tables)
            Database.commit = kill_point.around(Database.commit)  # type: ignore[method-assign]
        sottovoce.cli.proxy.run(config)


def _kill_server_at(kill_point: KillPoint) -> None:
    kill_point.watch(Transaction)
    names = vars(server_store)
    open_engine = names["open_engine"]

    def open_killable(url: str) -> Engine:
        engine: Engine = open_engine(url)
        dialect: Any = engine.dialect
        dialect.do_commit = kill_point.around(dialect.do_commit)
        return engine

    names["open_engine"] = open_killable


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children that ended are not waited for
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            for stream in (1, 2):
                os.dup2(log, stream)
            kind = order["kind"]
            kill_point = (
                None if kind is None else KillPoint(kind, order["number"], after=order["after"])
            )
            try:
                run_part(order["part"], Path(order["config"]), kill_point)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(0)
        print(child, flush=True)


if __name__ == "__main__":
    main()
