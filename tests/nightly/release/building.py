"""Builds the files of a release: sdists and wheels of both distributions, and npm's tarballs."""

import os
import shutil
import tarfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.lacking import leave_out
from tests.nightly.release.fresh import Venv, run

ROOT = Path(__file__).parents[3]
# Names the folder of what `make release` has built, for its tests.
BUILT_VARIABLE = "SOTTOVOCE_BUILT"
# The build backend's own date, for sources outside git.
DEFAULT_BUILD_TIME = 1_580_601_600


@dataclass(frozen=True)
class Built:
    """The files of a release that are tested; the laboratory's sdist is only compared."""

    sdist: Path
    wheel: Path
    lab: Path
    tarballs: tuple[Path, ...] = ()

    @classmethod
    def from_folder(cls, folder: Path) -> Self:
        (sdist,) = folder.glob("sottovoce-*.tar.gz")
        (wheel,) = folder.glob("sottovoce-*.whl")
        (lab,) = folder.glob("sottovoce_lab-*.whl")
        return cls(sdist, wheel, lab, tuple(sorted(folder.glob("*.tgz"))))


def build_python(source: Path, folder: Path, builder: Venv, when: str) -> None:
    """Build the sdist and the wheel of the package and of the laboratory, by the backend only."""
    about = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]
    if "hatchling" not in builder.list_installed():
        builder.pip("install", "--quiet", *about["requires"])
    for project in (source, source / "lab"):
        run(
            *(str(builder.python), "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel"),
            *("-d", str(folder)),
            cwd=project,
            env={**builder.variables, "SOURCE_DATE_EPOCH": when},
        )


def get_built_python(folder: Path) -> Built:
    """Return what `make release` has built, or build it here."""
    if BUILT_VARIABLE in os.environ:
        return Built.from_folder(Path(os.environ[BUILT_VARIABLE]))
    build_python(ROOT, folder / "dist", Venv(folder / "builder"), get_commit_time())
    return Built.from_folder(folder / "dist")


def pack_npm(web: Path, folder: Path) -> tuple[Path, ...]:
    """Pack client and widget for npm, from a `web/` in which everything is installed."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("client", "widget"):
        run("npm", "pack", "--workspace", name, "--pack-destination", str(folder), cwd=web)
    return tuple(sorted(folder.glob("*.tgz")))


def get_packed_npm(folder: Path) -> tuple[Path, ...]:
    """Pack a copy of `web/` for npm, because other tests build in the original."""
    if shutil.which("npm") is None or not (ROOT / "web" / "node_modules").exists():
        leave_out("the npm packages, installed elsewhere (needs Node)")
    if BUILT_VARIABLE in os.environ:
        return Built.from_folder(Path(os.environ[BUILT_VARIABLE])).tarballs
    web = folder / "web"
    ignored = shutil.ignore_patterns("node_modules", "dist", "build")
    shutil.copytree(ROOT / "web", web, ignore=ignored)
    (web / "node_modules").symlink_to(ROOT / "web" / "node_modules")
    return pack_npm(web, folder)


def read_repository() -> str:
    """Return where the sources are published, as pyproject.toml states it, or ""."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return str(project["tool"]["hatch"]["metadata"]["hooks"]["custom"]["repository"])


def get_commit_time() -> str:
    """Return the time of the newest commit in seconds: files in a release have this date."""
    if not (ROOT / ".git").exists():
        return str(DEFAULT_BUILD_TIME)
    return run("git", "log", "-1", "--format=%ct", cwd=ROOT).strip()


def unpack(archive: Path, folder: Path) -> Path:
    """Unpack an sdist and return its only folder."""
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    (inside,) = folder.iterdir()
    return inside
