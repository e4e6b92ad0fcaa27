"""One build for all tests of a file."""

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.nightly.release.building import Built, built_python
from tests.nightly.release.fresh import Fresh


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return built_python(tmp_path_factory.mktemp("built"))


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Callable[..., Fresh]]:
    """Return a function that makes an environment and deletes it afterwards: they are large."""
    names = []

    def make(name: str, interpreter: str = sys.executable) -> Fresh:
        names.append(name)
        return Fresh(tmp_path / name, interpreter)

    yield make
    for name in names:
        shutil.rmtree(tmp_path / name)
