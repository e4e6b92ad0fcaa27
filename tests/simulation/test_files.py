"""Model files: what is damaged, forged or of another format is refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from sottovoce import FederatedMF
from sottovoce.core import Histories
from sottovoce.errors import CheckpointError
from sottovoce.simulation.files import (
    MODEL_FORMAT,
    ModelFile,
    compute_fingerprint,
    read_model,
    write_model,
)
from sottovoce.training import Settings
from sottovoce.training.start import ITEM_MATRIX_NAME

FURTHER_ARRAYS: list[list[list[int]]] = [[[]], [[1]], [[1, 2]], [[1], [2]], [[2], [1]]]


@pytest.mark.parametrize(
    "V",
    [
        np.zeros((2, 3), np.float32),
        np.zeros((2, 5)),
        np.full((2, 5), np.nan, np.float32),
        np.full((2, 5), 3e38, np.float32),
        np.full((2, 5), 1e-30, np.float32),
    ],
    ids=["other factors", "float64", "not finite", "too large", "too small"],
)
def test_impossible_item_matrix_is_refused(tmp_path: Path, V: np.ndarray) -> None:
    write_model(tmp_path / "m", ModelFile(V, Settings(), 1))
    with pytest.raises(CheckpointError):
        read_model(tmp_path / "m")


def test_fingerprint_differs_for_other_data() -> None:
    one = Histories.from_lists([[0, 1], [2]], 3)
    assert compute_fingerprint(one) == compute_fingerprint(Histories.from_lists([[1, 0], [2]], 3))
    assert compute_fingerprint(one) != compute_fingerprint(Histories.from_lists([[0], [1, 2]], 3))
    assert compute_fingerprint(one) != compute_fingerprint(Histories.from_lists([[0, 1], [2]], 4))
    more = [
        compute_fingerprint(one, *(np.array(values) for values in arrays))
        for arrays in FURTHER_ARRAYS
    ]
    assert len({compute_fingerprint(one), *more}) == 1 + len(FURTHER_ARRAYS)


@pytest.mark.parametrize(
    "forged",
    [
        {"epochs_done": "x"}, {"epochs_done": float("inf")}, {"epochs_done": -1},
        {"epochs_done": 1.5}, {"extra": "abc"}, {"extra": [["a", 1]]},
        {"extra": {"parameters": {"gamma": 1}}}, {"extra": {"tags": [["genre", "Horror"]]}},
        {"settings": []}, {"settings": {"epsilon": 1}}, "[" * 100_000,
    ],
    ids=lambda forged: str(forged)[:40],
)  # fmt: skip
def test_forged_header_is_refused_with_its_path(tmp_path: Path, forged: Any) -> None:
    about = {"settings": Settings().as_dict(), "epochs_done": 1, "extra": {}}
    wrong = forged if isinstance(forged, str) else json.dumps({**about, **forged})
    for name, content in (("honest", json.dumps(about)), ("forged", wrong)):
        header = {"format": MODEL_FORMAT, "sottovoce": content}
        data = save({ITEM_MATRIX_NAME: np.ones((2, 5), np.float32)}, metadata=header)
        (tmp_path / name).write_bytes(data)
    FederatedMF.load(tmp_path / "honest")
    with pytest.raises(CheckpointError, match="forged"):
        FederatedMF.load(tmp_path / "forged")


def test_damaged_foreign_and_missing_files_are_refused(tmp_path: Path) -> None:
    file, V = tmp_path / "m", np.ones((2, 5), np.float32)
    write_model(file, ModelFile(V, Settings(), 1))
    whole = file.read_bytes()
    for content in (*(whole[:cut] for cut in (0, 7, 60, -1)), save({ITEM_MATRIX_NAME: V})):
        file.write_bytes(content)
        with pytest.raises(CheckpointError, match=str(file)):
            FederatedMF.load(file)
    with pytest.raises(CheckpointError):
        FederatedMF.load(tmp_path / "nothing")
