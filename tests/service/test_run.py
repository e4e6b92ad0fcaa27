"""The real thing: a process, a socket on the loopback interface, signals. Nothing sleeps."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sottovoce.errors import SettingsError
from sottovoce.service import Listen, read_settings
from tests.processes import free_port

if TYPE_CHECKING:
    from tests.service.program import Service

MARK = "marked-5f1c"


def request(connection: socket.socket, path: str, *headers: str) -> None:
    lines = [f"GET {path} HTTP/1.1", "Host: localhost", *headers]
    connection.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())


def answer(connection: socket.socket) -> tuple[str, str]:
    """Head and body, read until the other side closes."""
    with connection, connection.makefile("rb") as stream:
        head, _, body = stream.read().decode().partition("\r\n\r\n")
    return head.lower(), body


def test_it_answers_and_says_nothing_about_itself_or_whoever_asked(
    start: Callable[..., Service],
) -> None:
    service = start()
    asked = [
        (f"/hello?{MARK}=1", "200"),
        (f"/{MARK}", "404"),
        ("/broken", "500"),
    ]
    clients = []
    for path, status in asked:
        connection = service.connect()
        clients.append(connection.getsockname()[1])
        headers = (f"User-Agent: {MARK}", f"X-Forwarded-For: {MARK}", "Connection: close")
        request(connection, path, *headers)
        head, body = answer(connection)
        assert head.startswith(f"http/1.1 {status} ")
        assert "\r\nserver:" not in head
        assert "\r\ndate:" not in head
        assert MARK not in head + body
    upgrade = service.connect()
    clients.append(upgrade.getsockname()[1])
    websocket = ("Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==")
    request(upgrade, f"/{MARK}", "Connection: Upgrade", "Upgrade: websocket", *websocket)
    upgrade.shutdown(socket.SHUT_WR)
    answer(upgrade)
    assert service.end()[0] == 0
    assert MARK not in service.log
    assert not [port for port in clients if f":{port}" in service.log]


@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGINT])
def test_told_to_stop_it_closes_what_it_opened_and_returns(
    start: Callable[..., Service], told: signal.Signals
) -> None:
    service = start()
    service.wait_for("(?s)running on.*for its clients.*running on.*for its operator alone")
    assert service.end(told) == (0, "closed\nreturned\n")
    assert "Traceback" not in service.log


def test_a_request_under_way_finishes(start: Callable[..., Service]) -> None:
    service = start()
    connection = service.connect()
    request(connection, "/slow")
    process = service.process
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGTERM)
    service.wait_for("Shutting down")
    process.stdin.write("go on\n")
    process.stdin.flush()
    head, body = answer(connection)
    assert head.startswith("http/1.1 200 ")
    assert body == "finished"
    assert service.ended() == (0, "closed\nreturned\n")


def test_what_cannot_start_does_not_end_as_if_all_were_well(start: Callable[..., Service]) -> None:
    code, output = start("0", "0", "fail").ended()
    assert code not in {0, None}
    assert "returned" not in output
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for ports in ((port, "0"), ("0", port)):
            code, output = start(*ports).ended()
            assert code not in {0, None}
            assert output == "", "nothing has begun"


def test_the_first_ends_with_a_second_that_cannot_begin(start: Callable[..., Service]) -> None:
    """Both want one port, which is free until the first has it."""
    port = str(free_port())
    code, output = start(port, port).ended()
    assert code not in {0, None}
    assert output == "closed\n"
    socket.create_server(("127.0.0.1", int(port))).close()


def test_the_operators_listener_answers_and_ends_with_the_other(
    start: Callable[..., Service],
) -> None:
    service = start()
    for path, watch, status in (
        ("/metrics", True, "200"), ("/readyz", True, "200"), ("/healthz", True, "200"),
        ("/hello", True, "404"), ("/metrics", False, "404"),
    ):  # fmt: skip
        connection = service.connect(watch=watch)
        request(connection, path, "Connection: close")
        assert answer(connection)[0].startswith(f"http/1.1 {status} ")
    assert service.end() == (0, "closed\nreturned\n")


@pytest.mark.parametrize("port", [-1, 65_536, 10**9])
def test_a_port_that_is_none_is_refused(port: int) -> None:
    with pytest.raises(SettingsError, match="port must be from 0"):
        Listen(port=port)


@pytest.mark.parametrize("name", ["private_key", "client_authority"])
def test_half_of_tls_is_refused_rather_than_served_in_clear(tmp_path: Path, name: str) -> None:
    """An operator who asks for client certificates must not get plain HTTP for everybody."""
    (tmp_path / "listen.toml").write_text(f'{name} = "file.pem"')
    with pytest.raises(SettingsError, match="without a certificate"):
        read_settings(tmp_path / "listen.toml", Listen)
    complete = f'certificate = "chain.pem"\n{name} = "file.pem"'
    (tmp_path / "listen.toml").write_text(complete)
    with pytest.raises(SettingsError, match=r"certificate: .*chain\.pem is not a file"):
        read_settings(tmp_path / "listen.toml", Listen)
    for file in ("chain.pem", "file.pem"):
        (tmp_path / file).touch()
    assert getattr(read_settings(tmp_path / "listen.toml", Listen), name) == tmp_path / "file.pem"
