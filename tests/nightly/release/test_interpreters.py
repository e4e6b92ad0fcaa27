"""The wheel with all extras on every Python of this machine: minutes each, for `make release`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.nightly.release.building import BUILT_VARIABLE, ROOT, Built

if TYPE_CHECKING:
    from tests.nightly.release.fresh import Venv

PYTHON_MINORS = (11, 12, 13, 14)
QUICK_TESTS = ("tests/core", "tests/privacy", "tests/training")
SIMULATE_COMMAND = ("sottovoce", "simulate", "--sample-users", "100", "--sample-items", "100")

if BUILT_VARIABLE not in os.environ:
    pytest.skip("other interpreters: `make release` tries them", allow_module_level=True)


def find_interpreter(minor: int) -> str | None:
    """Return an interpreter of pyenv or the path; pyenv's shims start nothing themselves."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    paths = sorted((pyenv / "versions").glob(f"3.{minor}.*/bin/python"))
    outside = [place for place in os.get_exec_path() if not Path(place).is_relative_to(pyenv)]
    return str(paths[-1]) if paths else shutil.which(f"python3.{minor}", path=":".join(outside))


@pytest.mark.parametrize("minor", PYTHON_MINORS)
def test_it_runs_on(minor: int, built: Built, make_venv: Callable[..., Venv]) -> None:
    program = find_interpreter(minor)
    if program is None:
        pytest.skip(f"there is no Python 3.{minor} here")
    fresh = make_venv(f"3.{minor}", program)
    wanted = (f"{built.wheel}[all]", "pytest", "hypothesis")
    fresh.pip("install", "--quiet", "--only-binary=:all:", *wanted)
    fresh.pip("check")
    where = "import sottovoce, sys; print(sys.version_info.minor, sottovoce.__file__)"
    assert fresh.run_python(where) == f"{minor} {fresh.packages / 'sottovoce' / '__init__.py'}\n"
    assert "HR@10" in fresh.run(*SIMULATE_COMMAND, "--min-interactions", "0", "--epochs", "1")
    chosen = [str(ROOT / folder) for folder in QUICK_TESTS]
    tests = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(ROOT))
    assert " passed" in fresh.run("python", *tests, *chosen)


@pytest.mark.parametrize("extra", ["cuda", "ray"])
def test_pip_finds_what_a_large_extra_needs(
    extra: str, built: Built, make_venv: Callable[[str], Venv]
) -> None:
    make_venv(extra).pip("install", "--quiet", "--dry-run", f"{built.wheel}[{extra}]")
