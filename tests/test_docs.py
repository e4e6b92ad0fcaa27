"""Documentation that can be wrong is tested: commands, options, names, examples."""

import csv
import importlib
import json
import pkgutil
import re
import runpy
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import sottovoce
from sottovoce.cli.app import app
from sottovoce.protocol import Catalogue
from tests.cli.test_sandbox import running
from tests.processes import free_port

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY")]
PAGES += sorted(
    {*ROOT.glob("docs/**/*.md"), *ROOT.glob("lab/docs/*.md")} - set(ROOT.glob("docs/lab/*"))
)
COMMAND = re.compile(r"^\s*(?:\$ )?sottovoce ((?:.*\\\n)*.*)$", re.MULTILINE)


def commands() -> list[tuple[str, str]]:
    """Every `sottovoce ...` line of every page's code blocks."""
    found = []
    for page in PAGES:
        for block in re.findall(r"```(?:sh|bash|console)\n(.*?)```", page.read_text(), re.DOTALL):
            found += [(page.name, line) for line in COMMAND.findall(block)]
    return found


def subcommand(command: Any, name: str) -> Any:
    """What a group has under this name, if it is a group and has it."""
    return command.get_command(None, name) if hasattr(command, "get_command") else None


@pytest.mark.parametrize(("page", "line"), commands())
def test_every_documented_command_and_option_exists(page: str, line: str) -> None:
    words = shlex.split(line.replace("\\\n", " "), comments=True)
    command: Any = typer.main.get_command(app)
    while words and (below := subcommand(command, words[0])):
        command, words = below, words[1:]
    runs = not hasattr(command, "get_command") or command.invoke_without_command
    assert runs, f"{page}: no such command: sottovoce {line}"
    known = {
        name for parameter in command.params for name in parameter.opts + parameter.secondary_opts
    }
    used = {word.partition("=")[0] for word in words if word.startswith("--")}
    assert used <= known | {"--help"}, f"{page}: {used - known}"


def test_every_command_is_documented() -> None:
    text = "".join(page.read_text() for page in PAGES)
    group: Any = typer.main.get_command(app)
    for name in group.list_commands(None):
        assert f"sottovoce {name}" in text, name


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


@pytest.mark.parametrize(
    "name", [m.name for m in pkgutil.walk_packages(sottovoce.__path__, "sottovoce.")]
)
def test_exported_names_exist_and_every_module_says_what_it_is_for(name: str) -> None:
    if name == "sottovoce.__main__":
        return
    module = importlib.import_module(name)
    assert module.__doc__, name
    for exported in getattr(module, "__all__", []):
        assert hasattr(module, exported), f"{name}.{exported}"


ROOMS = "|".join(module.name for module in pkgutil.iter_modules(sottovoce.__path__))
NAME = re.compile(rf"`((?:{ROOMS})(?:\.\w+)+)`")
FILES = (".py", ".toml")


@pytest.mark.parametrize("page", [ROOT / "CONTRIBUTING.md", ROOT / "docs" / "architecture.md"])
def test_names_of_our_code_exist(page: Path) -> None:
    """`client.reporting.make_batch` and the like."""
    for name in NAME.findall(page.read_text()):
        if not name.endswith(FILES):
            assert resolves("sottovoce." + name), f"{page.name}: {name}"


def resolves(name: str) -> bool:
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


def test_what_examples_use_is_in_the_reference() -> None:
    page = (ROOT / "docs" / "reference" / "python.md").read_text()
    listed = set(re.findall(r":: (sottovoce\.\S+)", page))
    for file in [*(ROOT / "examples").glob("*.py"), *(ROOT / "examples").rglob("*.ipynb")]:
        for module, names in re.findall(r"from (sottovoce\S*) import ([\w, ]+)", file.read_text()):
            for name in names.split(", "):
                assert f"{module}.{name}" in listed, f"{file.name}: {module}.{name}"


def test_the_example_runs() -> None:
    titles = runpy.run_path(str(ROOT / "examples" / "recommend.py"))["main"]()
    assert len(titles) == 5


def test_the_grid_of_the_example_finds_that_privacy_costs() -> None:
    pytest.importorskip("sklearn")
    found = runpy.run_path(str(ROOT / "examples" / "grid.py"))["main"]()
    assert list(found) == [10, 40, 80, 200, 800, 1600]
    assert found[1600] > 2 * found[10] > 0


def test_numbers_of_the_version_agree() -> None:
    web = {
        name: json.loads((ROOT / "web" / name).read_text(encoding="utf-8"))
        for name in ("client/package.json", "page/package.json", "package-lock.json")
    }
    locked = web["package-lock.json"]["packages"]
    found = {
        "pyproject.toml": tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
            "version"
        ],
        "lab/pyproject.toml": tomllib.loads((ROOT / "lab/pyproject.toml").read_text())["project"][
            "version"
        ],
        "CHANGELOG.md": re.findall(
            "^## (\\d\\S*)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE
        )[0],
        "CITATION.cff": re.findall(
            "^version: (.*)", (ROOT / "CITATION.cff").read_text(), re.MULTILINE
        )[0],
        "client/package.json": web["client/package.json"]["version"],
        "page/package.json": web["page/package.json"]["dependencies"]["sottovoce-client"],
        "package-lock.json, client": locked["client"]["version"],
        "package-lock.json, page": locked["page"]["dependencies"]["sottovoce-client"],
    }
    assert {
        place: number for place, number in found.items() if number != sottovoce.__version__
    } == {}


FOLLOWED = ("server init", "server run", "proxy init", "proxy run")
"""By the operator's tutorial, and `up` and `swarm` by `tests/cli/test_sandbox.py`."""
LAST = "server go-beyond"
"""Of a server that stands still."""


def of_services(page: str) -> list[list[str]]:
    """Commands of a running system, those for a stopped server last."""
    lines = [line for name, line in commands() if name == page]
    words = [
        shlex.split(line.replace("\\\n", " "), comments=True)
        for line in lines
        if line.startswith(("server", "proxy", "client")) and not line.startswith(FOLLOWED)
    ]
    return sorted(words, key=lambda each: " ".join(each).startswith(LAST))


@pytest.mark.slow
@pytest.mark.parametrize("page", ["operations.md", "lifecycle.md"])
def test_the_commands_of_a_service_run(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    port = free_port()
    options = ("--port", port, "--epoch-seconds", 1, "--least-clients", 1)
    put = {
        "my-server/server.toml": "my-system/server/server.toml",
        "my-proxy/proxy.toml": "my-system/proxy/proxy.toml",
        "/backup/monday.sqlite": "monday.sqlite",
        "https://proxy.example": f"http://127.0.0.1:{port}",
    }
    shown = of_services(page)
    stopped = [words for words in shown if words[:2] == LAST.split()]
    with running("my-system", "--data", "ml-latest-small", *options) as (_, said):
        (put["VERIFICATION_KEY"],) = set(re.findall("--key ([0-9a-f]{64})", said))
        export("my-system/server/server.toml")
        for words in shown[: len(shown) - len(stopped)]:
            output = say([put.get(word, word) for word in words])
            if words == ["client", "terms"]:
                (put["NAME"],) = set(re.findall("terms --accept ([0-9a-f]{64})", output))
    for words in stopped:
        say([put.get(word, word) for word in words])


def say(words: list[str]) -> str:
    if words[:2] == ["client", "sync"]:
        words = [*words, "--jitter", "0"]
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, words, input="y\n")
    waits = words[1] == "status"  # its code 1 says that something waits
    assert result.exit_code in (0, waits), (words, result.output, result.exception)
    assert result.output.strip(), words
    return result.output


def export(config: str) -> None:
    """The table of a shop that sells what the catalogue has, and one thing more."""
    say(["server", "status", "--config", config, "--catalogue", "kept.json"])
    catalogue = Catalogue.decode(Path("kept.json").read_bytes())
    sold = [[item.id, item.title, "film"] for item in catalogue.items]
    with Path("shop.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["sku", "name", "kind"], *sold, ["S-01", "Soap", "bath"]])
