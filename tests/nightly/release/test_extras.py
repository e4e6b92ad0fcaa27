"""The wheel in new environments: each extra works without the others, and names them."""

import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import sottovoce
from sottovoce.cli.app import collect_commands
from tests.nightly.release.building import Built
from tests.nightly.release.fresh import Venv, WheelHouse
from tests.processes import free_port, read_until
from tests.server.world import KEYS
from tests.web.front import instead, refuse
from tests.web.system import running

SMALL_DATA = ("--engine", "reference", "--sample-users", "30", "--sample-items", "50")
CATALOGUE_TEXT = """{"version": 2, "items": [
    {"id": "a", "title": "Alpha", "tags": {"kind": ["x"]}},
    {"id": "b", "title": "Beta", "tags": {"kind": ["x"]}}]}"""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def house(built: Built, tmp_path_factory: pytest.TempPathFactory) -> WheelHouse:
    return WheelHouse(tmp_path_factory.mktemp("house"), built.wheel, "all")


@pytest.fixture
def install(house: WheelHouse, make_venv: Callable[[str], Venv]) -> Callable[[str], Venv]:
    """Return an environment with these extras and their dependencies."""

    def install_extras(extras: str) -> Venv:
        fresh = make_venv(f"with {extras or 'nothing'}")
        house.install(fresh, extras)
        return fresh

    return install_extras


@pytest.fixture
def start_service() -> Iterator[Callable[..., str]]:
    """Return a function that starts a service and waits until it prints its operator's address."""
    running: list[subprocess.Popen[str]] = []

    def start(fresh: Venv, *words: str) -> str:
        process = subprocess.Popen(
            [str(fresh.python), "-m", "sottovoce", *words],
            cwd=fresh.home,
            env={**fresh.variables, "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        running.append(process)
        assert process.stdout is not None
        return read_until("only for its operator", process.stdout).string

    yield start
    for process in running:
        process.terminate()
        process.communicate(timeout=60)


def list_commands(fresh: Venv) -> set[str]:
    """Return the commands that are there; each of the others says how to install it."""
    commands = set()
    for name, command in collect_commands().items():
        missing = re.search(r"\(not installed: (.*?)\)", fresh.run("sottovoce", name, "--help"))
        if missing is None:
            commands.add(name)
        else:
            assert missing[1] == f"pip install {shlex.quote(command.needs)}"
    return commands


def test_bare_it_is_numpy_and_scipy(install: Callable[[str], Venv]) -> None:
    fresh = install("")
    assert fresh.list_installed() == {"numpy", "scipy", "sottovoce"}
    assert fresh.run_python("import sottovoce, sys; print('numpy' in sys.modules)") == "False\n"
    preset = "from sottovoce.training import Settings; print(Settings.preset('loudest').epsilon)"
    assert fresh.run_python(preset) == "2.5\n"
    assert "sottovoce[cli]" in fresh.run("sottovoce", "--version", code=2)
    model = fresh.run("python", "-c", "from sottovoce import FederatedMF", code=1)
    assert "sottovoce[sim]" in model


def test_cli_names_the_extra_of_every_command(install: Callable[[str], Venv]) -> None:
    fresh = install("cli")
    assert fresh.run("sottovoce", "--version") == f"{sottovoce.__version__}\n"
    assert list_commands(fresh) == {"privacy"}  # except a shuffle, which needs `sim`
    assert "sottovoce[sim]" in fresh.run("sottovoce", "simulate", "--epochs", "1", code=2)


def test_sim_simulates(install: Callable[[str], Venv]) -> None:
    fresh = install("sim")
    assert list_commands(fresh) == {"simulate", "privacy", "data"}
    simulate = ("sottovoce", "simulate", *SMALL_DATA, "--min-interactions", "0", "--epochs", "1")
    assert "HR@10" in fresh.run(*simulate)
    assert "sottovoce[plot]" in fresh.run(*simulate, "--plot", "curve.png", code=2)
    drawn = install("plot")
    drawn.run(*simulate, "--plot", "curve.png")
    assert (drawn.home / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_the_laboratory_brings_its_commands(built: Built, install: Callable[[str], Venv]) -> None:
    fresh = install("plot,server")
    laboratory = {"paper", "audit", "bench", "replay"}
    assert not laboratory & list_commands(fresh)
    fresh.pip("install", "--quiet", "--no-index", "--no-deps", str(built.lab))
    assert laboratory < list_commands(fresh)


def test_server_proxy_and_client_meet_from_environments_of_their_own(
    install: Callable[[str], Venv], start_service: Callable[..., str]
) -> None:
    """Install each party's own extra only."""
    server, proxy, client = (install(extras) for extras in ("server", "proxy", "client,cli"))
    assert list_commands(server) == {"server", "proxy", "client", "privacy"}
    assert list_commands(proxy) == {"proxy", "client", "privacy"}
    assert list_commands(client) == {"client", "privacy"}
    ports = [str(free_port()) for _ in range(4)]
    (server.home / "items.json").write_text(CATALOGUE_TEXT)
    key = server.run(
        *("sottovoce", "server", "init", "s", "--catalogue", "items.json", "--proxy", "east"),
        *("--min-clients", "1", "--port", ports[0], "--watch-port", ports[1]),
    )
    (key,) = re.findall("[0-9a-f]{64}", key)
    start_service(server, "server", "run", "--config", "s/server.toml")
    secret = server.home / "s" / "east.secret"
    proxy.run(
        *("sottovoce", "proxy", "init", "p", "--server", f"http://127.0.0.1:{ports[0]}"),
        *("--key", key, "--secret-file", str(secret), "--min-clients", "1"),
        *("--port", ports[2], "--watch-port", ports[3]),
    )
    start_service(proxy, "proxy", "run", "--config", "p/proxy.toml")
    accept_terms(client, f"http://127.0.0.1:{ports[2]}", key, "a")
    assert "was sent" in run_client(client, "sync", "--jitter", "0")
    assert "Beta" in run_client(client, "recommend")


def run_client(client: Venv, *words: str, code: int = 0) -> str:
    """Run a command of the device."""
    return client.run("sottovoce", "client", *words, "--folder", "d", code=code)


def accept_terms(client: Venv, proxy: str, key: str, item: str) -> None:
    """Set up a device that touched an item, and accept the terms."""
    run_client(client, "init", "--proxy", proxy, "--key", key, "--limit", "500")
    run_client(client, "record", item)
    (name,) = set(re.findall("accept ([0-9a-f]{64})", run_client(client, "terms")))
    run_client(client, "terms", "--accept", name, "--limit", "500")


def test_the_released_client_and_services_of_this_tree(
    install: Callable[[str], Venv], tmp_path: Path
) -> None:
    """Refuse a service of another protocol with the true key, and send it nothing."""
    client = install("client,cli")
    with running(tmp_path, people=6) as system:
        accept_terms(client, system.url, KEYS.verification_key.hex(), "1")
        assert "was sent" in run_client(client, "sync", "--jitter", "0")
        system.turn()
        assert "was sent" in run_client(client, "sync", "--jitter", "0")
        listed = run_client(client, "recommend")
        assert system.recommended(["1"])[0].title in listed
        assert len(system.front.batches()) == 2

        system.turn()
        system.front.begin()
        system.front.lies = {"/v2/manifest": instead(system.of_another_version())}
        for asked in (("sync", "--jitter", "0"), ("look",), ("terms",)):
            text = " ".join(run_client(client, *asked, code=2).split())
            assert "version 3" in text
            assert "this program speaks version 2" in text
        system.front.lies = {"/v2/manifest": refuse(404)}  # a service with other paths
        run_client(client, "sync", "--jitter", "0", code=2)
        assert {request.path for request in system.front.requests} == {"/v2/manifest"}
        assert run_client(client, "recommend") == listed
        system.front.begin()
        assert "was sent" in run_client(client, "sync", "--jitter", "0")
