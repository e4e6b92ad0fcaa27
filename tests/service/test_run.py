"""A running service: a process, a socket on the loopback interface, and signals."""

import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from queue import Queue

import pytest

from sottovoce.errors import SettingsError, UnavailableError
from sottovoce.service.heartbeat import Heartbeat
from sottovoce.service.listen import Listen
from sottovoce.service.logs import Troubles
from sottovoce.service.toml import read_settings
from tests.service.program import Service

MARK = "marked-5f1c"


def request(connection: socket.socket, path: str, *headers: str) -> None:
    lines = [f"GET {path} HTTP/1.1", "Host: localhost", *headers]
    connection.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())


def answer(connection: socket.socket) -> tuple[str, str]:
    """Return head and body, read until the other side closes."""
    with connection, connection.makefile("rb") as stream:
        head, _, body = stream.read().decode().partition("\r\n\r\n")
    return head.lower(), body


def test_service_answers_without_naming_itself_or_logging_clients(
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


def test_request_in_progress_is_finished_at_shutdown(start: Callable[..., Service]) -> None:
    service = start()
    connection = service.connect()
    request(connection, "/slow")
    process = service.process
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGTERM)
    service.wait_for("stopping")
    process.stdin.write("go on\n")
    process.stdin.flush()
    head, body = answer(connection)
    assert head.startswith("http/1.1 200 ")
    assert body == "finished"
    assert service.ended() == (0, "closed\nreturned\n")


def test_failed_start_has_an_exit_code(start: Callable[..., Service]) -> None:
    code, output = start("0", "0", "fail").ended()
    assert code not in {0, None}
    assert "returned" not in output
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for ports in ((port, "0"), ("0", port)):
            code, output = start(*ports).ended()
            assert code not in {0, None}
            assert output == "", "nothing has begun"


def test_watch_listener_ends_with_the_service(
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


@pytest.mark.parametrize("name", ["private_key", "client_authority"])
def test_incomplete_tls_settings_are_refused(tmp_path: Path, name: str) -> None:
    # An operator who asks for client certificates must not get plain HTTP.
    (tmp_path / "listen.toml").write_text(f'{name} = "file.pem"')
    with pytest.raises(SettingsError, match=rf"{name}.*\bcertificate\b"):
        read_settings(tmp_path / "listen.toml", Listen)
    complete = f'certificate = "chain.pem"\n{name} = "file.pem"'
    (tmp_path / "listen.toml").write_text(complete)
    with pytest.raises(SettingsError, match=r"certificate.*chain\.pem"):
        read_settings(tmp_path / "listen.toml", Listen)
    for file in ("chain.pem", "file.pem"):
        (tmp_path / file).touch()
    assert getattr(read_settings(tmp_path / "listen.toml", Listen), name) == tmp_path / "file.pem"


NEVER = 3600.0

SOON = 60.0
"""An upper bound for what takes microseconds: a test that reaches it has failed."""


class Pauses(threading.Event):
    """Never waits; remembers how long it was asked to."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.asked.append(timeout)
        return True


def pauses_of(
    outcomes: Sequence[Exception | None], interval: float, slowest: float
) -> list[float | None]:
    """Return how long the heartbeat rests after each of these outcomes."""
    left = iter(outcomes)

    def beat() -> None:
        outcome = next(left, ...)
        if outcome is ...:
            heart._is_stopping = True
        elif outcome is not None:
            raise outcome

    heart = Heartbeat(beat, interval, Troubles(), max_interval=slowest)
    heart._awake = pauses = Pauses()
    heart.start()
    heart._thread.join(SOON)
    assert not heart._thread.is_alive()
    return pauses.asked


@pytest.fixture
def hearts() -> Iterator[Callable[..., Heartbeat]]:
    started: list[Heartbeat] = []

    def start(beat: Callable[[], None], interval: float = NEVER) -> Heartbeat:
        heart = Heartbeat(beat, interval, Troubles())
        started.append(heart)
        heart.start()
        return heart

    yield start
    for heart in started:
        heart.stop()


def test_wake_up_during_a_tick_is_not_lost(hearts: Callable[..., Heartbeat]) -> None:
    begun: Queue[int] = Queue()
    go_on = threading.Semaphore(0)

    def beat() -> None:
        begun.put(1)
        go_on.acquire()

    heart = hearts(beat)
    begun.get(timeout=SOON)
    heart.wake_up()
    go_on.release(3)
    begun.get(timeout=SOON)


def test_pauses_double_after_failures_and_are_reset_by_success() -> None:
    failed = UnavailableError("not now")
    outcomes = [None, failed, failed, failed, failed, failed, None, failed, None]
    assert pauses_of(outcomes, 5.0, 60.0) == [5, 10, 20, 40, 60, 60, 5, 10, 5]


def test_pauses_do_not_overflow_after_many_failures(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL, "sottovoce")
    pauses = pauses_of([UnavailableError("not now")] * 1_100, 0.5, 60.0)
    assert len(pauses) == 1_100
    assert pauses[:4] == [1, 2, 4, 8]
    assert set(pauses[7:]) == {60.0}
