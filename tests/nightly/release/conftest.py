"""One build for all tests of a file."""

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.nightly.release.building import Built, get_built_python
from tests.nightly.release.fresh import Venv


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return get_built_python(tmp_path_factory.mktemp("built"))


@pytest.fixture
def make_venv(tmp_path: Path) -> Iterator[Callable[..., Venv]]:
    """Return a function that makes an environment and deletes it afterwards: they are large."""
    names = []

    def make(name: str, interpreter: str = sys.executable) -> Venv:
        names.append(name)
        return Venv(tmp_path / name, interpreter)

    yield make
    for name in names:
        shutil.rmtree(tmp_path / name)
