"""Loading data sets by name or by path."""

import zipfile
from pathlib import Path

import pytest

from sottovoce.data import DATA_SETS, load
from sottovoce.errors import DataError


def test_bundled_data_is_what_its_readme_describes() -> None:
    data = load("ml-latest-small")
    histories = data.histories
    assert (histories.n_users, histories.n_items, histories.n_interactions) == (610, 9724, 100836)
    assert data.name == "ml-latest-small"
    assert data.titles is not None
    assert "Misérables, Les (1995)" in data.titles
    bundled = DATA_SETS["ml-latest-small"].bundled
    assert bundled is not None
    assert "redistribute" in (bundled / "README.txt").read_text()


def test_name_loads_the_fetched_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOTTOVOCE_CACHE", str(tmp_path))
    with pytest.raises(DataError):
        load("ml-20m")
    with zipfile.ZipFile(tmp_path / "ml-20m.zip", "w") as out:
        out.writestr("ml-20m/ratings.csv", "userId,movieId,rating,timestamp\n1,2,3,4\n")
    data = load("ml-20m")
    assert (data.name, data.histories.n_users) == ("ml-20m", 1)


@pytest.mark.parametrize("name", ["x.xlsx", "x", "x.zip", "folder", "nothing"])
def test_unknown_format_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name == "folder":
        path.mkdir()
    elif name == "x.zip":
        with zipfile.ZipFile(path, "w") as out:
            out.writestr("hello.txt", "hello")
    elif name != "nothing":
        path.write_text("hello")
    with pytest.raises(DataError):
        load(path)
