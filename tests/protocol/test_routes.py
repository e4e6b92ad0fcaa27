"""Paths are written once: in `routes`, and in the documentation."""

from __future__ import annotations

import re
from pathlib import Path

import sottovoce
from sottovoce.protocol import routes

ROOT = Path(__file__).parents[2]
TEMPLATES = {
    value
    for name, value in vars(routes).items()
    if name.isupper() and value.startswith(routes.ROOT) and value != routes.ROOT
}


def test_no_other_source_writes_a_path() -> None:
    package = Path(sottovoce.__file__).parent
    sources = set(package.rglob("*.py")) - {Path(routes.__file__)}
    assert len(sources) > 100
    assert [path for path in sources if "/v2/" in path.read_text()] == []


def test_the_documentation_has_every_path_and_no_other() -> None:
    text = (ROOT / "docs" / "protocol.md").read_text()
    written = [path.replace("{hash}", "{sha256}") for path in re.findall(r"/v2/[\w{}/]+", text)]
    assert sorted(written) == sorted(TEMPLATES), "each once"
