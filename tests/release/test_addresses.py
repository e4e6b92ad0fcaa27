"""README as a package index shows it: without the files around it."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager

import sottovoce
from hatch_build import absolute
from tests.release.building import ROOT, repository

ADDRESS = "https://example.org/somebody/sottovoce"
LINK = re.compile(r"""(?<=\]\()[^)\s]+|(?<=src=")[^"]+|(?<=srcset=")[^"]+""")


def described(folder: Path, repository: str) -> ProjectMetadata[PluginManager]:
    """What the backend makes of our files, if the sources are there."""
    for name in ("README.md", "LICENSE", "hatch_build.py"):
        shutil.copy(ROOT / name, folder)
    about = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    changed = re.sub(r'(?m)^repository = ".*"$', f'repository = "{repository}"', about)
    (folder / "pyproject.toml").write_text(changed, encoding="utf-8")
    return ProjectMetadata(str(folder), PluginManager())


def test_with_an_address_every_link_leads_to_a_file_of_this_version(tmp_path: Path) -> None:
    about = described(tmp_path, f"{ADDRESS}/")
    links, beginning = LINK.findall(about.core.readme), f"{ADDRESS}/"
    ours = [link.removeprefix(beginning) for link in links if link.startswith(beginning)]
    assert len(ours) > 20
    assert all(link.startswith(("https://", "#")) for link in links)
    for kind, version, path in (link.split("#")[0].split("/", 2) for link in ours):
        assert version == f"v{sottovoce.__version__}"
        assert (ROOT / path).is_file(), path
        assert (kind == "raw") == path.endswith((".png", ".svg")), path
    assert about.core.urls["Homepage"] == ADDRESS


def test_without_an_address_readme_stays_as_it_is(tmp_path: Path) -> None:
    about = described(tmp_path, "")
    assert about.core.readme == (ROOT / "README.md").read_text(encoding="utf-8")
    assert about.core.urls == {}


def test_the_address_is_the_same_wherever_it_is_named() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    package = json.loads((ROOT / "web" / "client" / "package.json").read_bytes())
    named = [*re.findall(r"(?m)^repository-code: (.*)$", citation), package.get("repository")]
    assert {each or "" for each in named} == {repository()}


@pytest.mark.parametrize(
    ("written", "published"),
    [
        ("[a](docs/a.md#b)", f"[a]({ADDRESS}/blob/v2/docs/a.md#b)"),
        ("![a b](docs/a.png)", f"![a b]({ADDRESS}/raw/v2/docs/a.png)"),
        ("[a](https://example.com/) [b](#c) [d](mailto:e@example.com)", None),
        ('<img src="docs/a.png">', f'<img src="{ADDRESS}/raw/v2/docs/a.png">'),
        ('<img src="https://example.com/a.png">', None),
        ("`[x](y z)` and f(a)[b] (c)", None),
    ],
)
def test_links_elsewhere_stay(written: str, published: str | None) -> None:
    assert absolute(written, ADDRESS, "2") == (published or written)
