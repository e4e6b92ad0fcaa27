"""In front of a server's workers: each connection goes to the next one that answers."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import count


@contextmanager
def balancing(ports: Sequence[int], at: socket.socket) -> Iterator[None]:
    """Connections that come in at this socket are passed on, while the block lasts."""
    turn = count()

    def accept() -> None:
        with suppress(OSError):  # the listener is closed
            while True:
                arrived, _ = at.accept()
                threading.Thread(target=carry, args=(arrived,), daemon=True).start()

    def carry(arrived: socket.socket) -> None:
        with ExitStack() as opened, suppress(OSError):
            opened.enter_context(closing(arrived))
            onward = opened.enter_context(closing(connect()))
            back = threading.Thread(target=pass_on, args=(onward, arrived), daemon=True)
            back.start()
            pass_on(arrived, onward)
            back.join()

    def connect() -> socket.socket:
        first = next(turn)
        for step in range(len(ports)):
            with suppress(OSError):
                return socket.create_connection(
                    ("127.0.0.1", ports[(first + step) % len(ports)]), 5
                )
        raise OSError("no worker answers")

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield
    finally:
        at.close()


def pass_on(source: socket.socket, target: socket.socket) -> None:
    """Until one of the two ends."""
    with suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
