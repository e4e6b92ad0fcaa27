"""Documentation that can be wrong is tested: commands, options, names, examples."""

import importlib
import inspect
import json
import pkgutil
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from sphinx.ext.napoleon.docstring import GoogleDocstring, NumpyDocstring
from sphinx.pycode import ModuleAnalyzer

import sottovoce
from sottovoce.cli.app import app
from sottovoce.training import Settings, list_settings

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY")]
PAGES += sorted(
    {*ROOT.glob("docs/**/*.md"), *ROOT.glob("lab/docs/*.md"), *ROOT.glob("web/*/README.md")}
    - set(ROOT.glob("docs/lab/*"))
)
COMMAND = re.compile(r"^\s*(?:\$ )?sottovoce ((?:.*\\\n)*.*)$", re.MULTILINE)


def list_commands() -> list[tuple[str, str]]:
    """Return every `sottovoce ...` line of every page's code blocks."""
    lines = []
    for page in PAGES:
        for block in re.findall(r"```(?:sh|bash|console)\n(.*?)```", page.read_text(), re.DOTALL):
            lines += [(page.name, line) for line in COMMAND.findall(block)]
    return lines


def get_subcommand(command: Any, name: str) -> Any:
    """Return the command of this name, or None if there is none or this is no group."""
    return command.get_command(None, name) if hasattr(command, "get_command") else None


@pytest.mark.parametrize(("page", "line"), list_commands())
def test_every_documented_command_and_option_exists(page: str, line: str) -> None:
    words = shlex.split(line.replace("\\\n", " "), comments=True)
    command: Any = typer.main.get_command(app)
    while words and (subcommand := get_subcommand(command, words[0])):
        command, words = subcommand, words[1:]
    runs = not hasattr(command, "get_command") or command.invoke_without_command
    assert runs, f"{page}: no such command: sottovoce {line}"
    options = {
        name for parameter in command.params for name in parameter.opts + parameter.secondary_opts
    }
    used = {word.partition("=")[0] for word in words if word.startswith("--")}
    assert used <= options | {"--help"}, f"{page}: {used - options}"


def test_every_command_is_documented() -> None:
    text = "".join(page.read_text() for page in PAGES)
    group: Any = typer.main.get_command(app)
    for name in group.list_commands(None):
        assert f"sottovoce {name}" in text, name


def test_python_of_the_readme_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall("```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    names: dict[str, object] = {}
    for code in blocks:
        exec(compile(code, "README.md", "exec"), names)
    assert len(names["items"]) > 0  # type: ignore[arg-type]
    assert "for the whole training" in capsys.readouterr().out


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


PACKAGES = "|".join(module.name for module in pkgutil.iter_modules(sottovoce.__path__))
NAME_OF_OURS = re.compile(rf"`((?:{PACKAGES})(?:\.\w+)+)`")
FILE_SUFFIXES = (".py", ".toml")


@pytest.mark.parametrize("page", [ROOT / "CONTRIBUTING.md", ROOT / "docs" / "architecture.md"])
def test_names_of_our_code_exist(page: Path) -> None:
    for name in NAME_OF_OURS.findall(page.read_text()):
        if not name.endswith(FILE_SUFFIXES):
            assert can_resolve("sottovoce." + name), f"{page.name}: {name}"


def can_resolve(name: str) -> bool:
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


DOCUMENTED_NAME = re.compile(
    r"^\.\. auto(class|function|module):: (\S+)\n((?:   :.*\n)*)", re.MULTILINE
)


def list_reference() -> Iterator[tuple[str, Any, bool]]:
    """Yield what the Python reference shows: name, object, and whether its fields are shown."""
    page = (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
    for kind, name, options in DOCUMENTED_NAME.findall(page):
        module, _, last = name.rpartition(".")
        documented = getattr(importlib.import_module(module), last)
        (members,) = re.findall(r":members:(.*)", options) or ["none"]
        inside = [] if kind == "function" else vars(documented).items()
        if kind != "module":
            yield name, documented, members == ""
        for member, value in inside:
            method = getattr(value, "__func__", value)
            is_ours = getattr(method, "__module__", "") == (
                name if kind == "module" else documented.__module__
            )
            is_shown = member[0] != "_" and (
                members == "" or member in members.replace(",", " ").split()
            )
            if is_ours and is_shown and (inspect.isfunction(method) or "__init__" in vars(method)):
                yield f"{name}.{member}", method, False


def list_described(documented: Any, *, fields: bool) -> set[str]:
    """Return the parameters that Sphinx reads in the docstring or in those of a class's fields."""
    names = {"self", "cls"}
    if documented is Settings:
        names |= set(list_settings())  # in a table of their own
    read = NumpyDocstring(str(GoogleDocstring(inspect.getdoc(documented) or "")))
    names |= set(re.findall(r":param (\w+):", str(read)))
    for kind in documented.__mro__[:-1] if fields else ():
        about = ModuleAnalyzer.for_module(kind.__module__).find_attr_docs()
        names |= {name for owner, name in about if owner == kind.__name__}
    return names


def test_every_parameter_in_the_reference_is_described() -> None:
    missing = {
        name: set(inspect.signature(documented).parameters)
        - list_described(documented, fields=fields)
        for name, documented, fields in list_reference()
    }
    assert {name: names for name, names in missing.items() if names} == {}


def test_every_option_of_a_command_has_its_help() -> None:
    def without(command: Any, path: str) -> Iterator[str]:
        for parameter in command.params:
            if not parameter.help and parameter.name != "help":
                yield f"{path} {parameter.name}"
        for name in command.list_commands(None) if hasattr(command, "list_commands") else ():
            yield from without(command.get_command(None, name), f"{path} {name}")

    assert list(without(typer.main.get_command(app), "sottovoce")) == []


def test_numbers_of_the_version_agree() -> None:
    web = {
        name: json.loads((ROOT / "web" / name).read_text(encoding="utf-8"))
        for name in (
            *("client/package.json", "page/package.json", "widget/package.json"),
            "package-lock.json",
        )
    }
    locked = web["package-lock.json"]["packages"]
    versions = {
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
        "widget/package.json": web["widget/package.json"]["version"],
        "widget/package.json, client": web["widget/package.json"]["dependencies"][
            "sottovoce-client"
        ],
        "package-lock.json, widget": locked["widget"]["version"],
        "package-lock.json, page": locked["page"]["dependencies"]["sottovoce-client"],
    }
    assert {
        place: number for place, number in versions.items() if number != sottovoce.__version__
    } == {}
