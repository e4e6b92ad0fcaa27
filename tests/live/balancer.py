"""A balancer as small as can be: TCP connections go to one backend after the other."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from itertools import count


class Balancer:
    """One that does not listen is passed over; a connection that breaks is broken on both sides."""

    def __init__(self, listening: socket.socket):
        self.port: int = listening.getsockname()[1]
        self.backends: list[int] = []
        self._listening = listening
        self._turn = count()

    def serve(self) -> None:
        with suppress(OSError):  # until it is closed
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        with closing(client):
            backend = self._backend()
            if backend is None:
                return
            with closing(backend):
                back = threading.Thread(target=_pump, args=(backend, client), daemon=True)
                back.start()
                _pump(client, backend)
                back.join()

    def _backend(self) -> socket.socket | None:
        first = next(self._turn)
        for step in range(len(self.backends)):
            port = self.backends[(first + step) % len(self.backends)]
            with suppress(OSError):
                return socket.create_connection(("127.0.0.1", port))
        return None


def _pump(source: socket.socket, target: socket.socket) -> None:
    """Until either side is gone; then both are."""
    with suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
    for each in (source, target):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


@contextmanager
def balancing() -> Iterator[Balancer]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        found = Balancer(listening)
        threading.Thread(target=found.serve, daemon=True).start()
        yield found
        with suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)
