"""Connections by hand: whatever bytes, from whatever address of the loopback network."""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass
from typing import Any, Self

HERE = "127.0.0.1"
PATIENCE = 20.0


class Line:
    """One connection to a port of this machine."""

    def __init__(self, port: int, source: str = HERE):
        self._socket = socket.create_connection(
            (HERE, port), timeout=PATIENCE, source_address=(source, 0)
        )

    def send(self, data: bytes) -> bool:
        """Whether it could be sent."""
        try:
            self._socket.sendall(data)
        except OSError:
            return False
        return True

    def read_all(self) -> bytes:
        """What they say until they close, or break off."""
        said = b""
        try:
            while piece := self._socket.recv(65_536):
                said += piece
        except ConnectionError:
            pass
        return said

    def read_answer(self) -> Answer:
        """One, of a connection that may be kept."""
        with self._socket.makefile("rb") as stream:
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                line = stream.readline()
                assert line, head
                head += line
            answer = Answer.of(head)
            length = int(answer.headers.get("content-length", 0))
            return Answer(answer.status, answer.headers, stream.read(length))

    def is_quiet(self) -> bool:
        """Whether they have neither said anything that was not read, nor closed it."""
        self._socket.setblocking(False)
        try:
            self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except ConnectionError:
            return False
        finally:
            self._socket.settimeout(PATIENCE)
        return False

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @classmethod
    def of(cls, data: bytes) -> Answer:
        head, _, body = data.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines if line)
        return cls(int(first.split(" ")[1]), headers, body)

    def problem(self) -> Any:
        assert self.headers["content-type"] == "application/problem+json"
        about = json.loads(self.body)
        assert about["status"] == self.status
        return about


def request(method: str, path: str, *headers: str, body: bytes = b"") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: here", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


def asked(port: int, data: bytes, source: str = HERE) -> Answer:
    """One request on a connection of its own, which they close."""
    with Line(port, source) as line:
        line.send(data)
        return Answer.of(line.read_all())
