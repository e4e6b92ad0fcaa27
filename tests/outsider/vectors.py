"""The shared vectors, and what the tests here need of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.outsider.wire import Manifest

if TYPE_CHECKING:
    pass

FOLDER = Path(__file__).parents[1] / "vectors"


def read(name: str) -> Any:
    return json.loads((FOLDER / f"{name}.json").read_text())


PROTOCOL = read("protocol")
KEY = bytes.fromhex(PROTOCOL["verification_key"])
SIGNED = bytes.fromhex(PROTOCOL["manifest"]["signed"])
FIELDS: dict[str, Any] = PROTOCOL["manifest"]["fields"]
MANIFEST = Manifest(
    PROTOCOL["manifest"]["hash"],
    bytes.fromhex(PROTOCOL["manifest"]["next_key"]),
    FIELDS,
    FIELDS["terms"],
)
"""As the file states it; whether the client reads it so is for a test to say."""
MODEL = bytes.fromhex(PROTOCOL["model"]["bytes"])
CATALOGUE = bytes.fromhex(PROTOCOL["catalogue"]["bytes"])


def cases(verdict: str, kind: str) -> list[Any]:
    """Return bytes that every reader takes (`accepted`), or that none may take (`refused`)."""
    rows = PROTOCOL[verdict][kind]
    assert rows
    return [pytest.param(bytes.fromhex(case["bytes"]), id=case["label"]) for case in rows]
