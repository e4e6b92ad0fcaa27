"""What is in the sdist and in the wheel: what git has, and a README that stands alone."""

import re
import shutil
import tarfile
import tomllib
import zipfile
from pathlib import Path

from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager
from packaging.metadata import Metadata

import sottovoce
from hatch_build import make_links_absolute
from tests.lacking import leave_out
from tests.nightly.release.building import ROOT, Built, read_repository
from tests.nightly.release.fresh import run

UNPUBLISHED_FOLDER = ".ci/"


def list_tracked() -> set[str]:
    if not (ROOT / ".git").exists():
        leave_out("what is in the sdist and in the wheel (needs git)")
    return set(run("git", "ls-files", cwd=ROOT).splitlines())


def test_the_sdist_has_what_git_has(built: Built) -> None:
    with tarfile.open(built.sdist) as sdist:
        files = {member.name.partition("/")[2] for member in sdist if member.isfile()}
    expected = {name for name in list_tracked() if not name.startswith(UNPUBLISHED_FOLDER)}
    assert files == expected | {"PKG-INFO"}


def test_the_wheel_has_the_package_and_every_licence(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as wheel:
        files = set(wheel.namelist())
    package = {name.removeprefix("src/") for name in list_tracked() if name.startswith("src/")}
    for needed in ("py.typed", "service/assets/index.html", "proxy/proxy.toml"):
        assert f"sottovoce/{needed}" in package
    about = f"sottovoce-{sottovoce.__version__}.dist-info"
    licences = ("LICENSE", "service/assets/LICENSES.txt", "data/bundled/ml-latest-small/README.txt")
    assert {name for name in files if not name.startswith(about)} == package
    packed = [name for name in files if name.startswith(f"{about}/licenses/")]
    assert len(packed) == len(licences)
    for licence in licences:
        assert any(name.endswith(licence) for name in packed), licence


def test_package_indexes_can_read_what_it_says_of_itself(built: Built) -> None:
    """Fields and versions, as PyPI checks them; the backend has checked the classifiers."""
    with zipfile.ZipFile(built.wheel) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith("/METADATA"))
        about = Metadata.from_email(wheel.read(name), validate=True)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert str(about.version) == project["version"]
    assert set(about.provides_extra or ()) == set(project["optional-dependencies"])
    assert about.description_content_type == "text/markdown"
    readme, address = (ROOT / "README.md").read_text(encoding="utf-8"), read_repository()
    whole = make_links_absolute(readme, address, project["version"]) if address else readme
    assert about.description == whole


REPOSITORY_ADDRESS = "https://example.org/somebody/sottovoce"
LINK_PATTERN = re.compile(r"""(?<=\]\()[^)\s]+|(?<=src=")[^"]+|(?<=srcset=")[^"]+""")


def read_metadata(folder: Path, repository: str) -> ProjectMetadata[PluginManager]:
    """Return the backend's metadata for our files, if the sources are there."""
    for name in ("README.md", "LICENSE", "hatch_build.py"):
        shutil.copy(ROOT / name, folder)
    about = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    changed = re.sub(r'(?m)^repository = ".*"$', f'repository = "{repository}"', about)
    (folder / "pyproject.toml").write_text(changed, encoding="utf-8")
    return ProjectMetadata(str(folder), PluginManager())


def test_with_an_address_every_link_leads_to_a_file_of_this_version(tmp_path: Path) -> None:
    about = read_metadata(tmp_path, f"{REPOSITORY_ADDRESS}/")
    links, beginning = LINK_PATTERN.findall(about.core.readme), f"{REPOSITORY_ADDRESS}/"
    ours = [link.removeprefix(beginning) for link in links if link.startswith(beginning)]
    assert len(ours) > 20
    assert all(link.startswith(("https://", "#")) for link in links)
    for kind, version, path in (link.split("#")[0].split("/", 2) for link in ours):
        assert version == f"v{sottovoce.__version__}"
        assert (ROOT / path).is_file(), path
        assert (kind == "raw") == path.endswith((".png", ".svg")), path
    assert about.core.urls["Homepage"] == REPOSITORY_ADDRESS


def test_without_an_address_readme_stays_as_it_is(tmp_path: Path) -> None:
    about = read_metadata(tmp_path, "")
    assert about.core.readme == (ROOT / "README.md").read_text(encoding="utf-8")
    assert about.core.urls == {}
