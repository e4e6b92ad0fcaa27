"""What is published, built as for a release: an sdist and a wheel, twice, and npm's tarballs."""

import os
import shutil
import tarfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.lacking import leave_out
from tests.nightly.release.fresh import Fresh, run

ROOT = Path(__file__).parents[3]
BUILT = "SOTTOVOCE_BUILT"
"""The folder of what `make release` has built: its tests take that."""

LONG_AGO = 1_580_601_600
"""The backend's own date, for sources that git does not know."""


@dataclass(frozen=True)
class Built:
    """The files of a release that are tried; the laboratory's sdist is only compared."""

    sdist: Path
    wheel: Path
    lab: Path
    tarballs: tuple[Path, ...] = ()

    @classmethod
    def found(cls, folder: Path) -> Self:
        (sdist,) = folder.glob("sottovoce-*.tar.gz")
        (wheel,) = folder.glob("sottovoce-*.whl")
        (lab,) = folder.glob("sottovoce_lab-*.whl")
        return cls(sdist, wheel, lab, tuple(sorted(folder.glob("*.tgz"))))


def build_python(source: Path, folder: Path, builder: Fresh, when: str) -> None:
    """Build the sdist and the wheel of the package and of the laboratory, by the backend only."""
    about = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]
    if "hatchling" not in builder.installed():
        builder.pip("install", "--quiet", *about["requires"])
    for project in (source, source / "lab"):
        run(
            *(str(builder.python), "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel"),
            *("-d", str(folder)),
            cwd=project,
            env={**builder.surroundings, "SOURCE_DATE_EPOCH": when},
        )


def built_python(folder: Path) -> Built:
    """Return what `make release` has built, or build it here."""
    if BUILT in os.environ:
        return Built.found(Path(os.environ[BUILT]))
    build_python(ROOT, folder / "dist", Fresh(folder / "builder"), last_change())
    return Built.found(folder / "dist")


def pack_npm(web: Path, folder: Path) -> tuple[Path, ...]:
    """npm's tarballs, from a `web/` in which everything is installed: the client, the widget."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("client", "widget"):
        run("npm", "pack", "--workspace", name, "--pack-destination", str(folder), cwd=web)
    return tuple(sorted(folder.glob("*.tgz")))


def packed_npm(folder: Path) -> tuple[Path, ...]:
    """Pack for npm a copy of `web/`: other tests build in the original."""
    if shutil.which("npm") is None or not (ROOT / "web" / "node_modules").exists():
        leave_out("the npm packages, installed elsewhere (needs Node)")
    if BUILT in os.environ:
        return Built.found(Path(os.environ[BUILT])).tarballs
    web = folder / "web"
    left = shutil.ignore_patterns("node_modules", "dist", "build")
    shutil.copytree(ROOT / "web", web, ignore=left)
    (web / "node_modules").symlink_to(ROOT / "web" / "node_modules")
    return pack_npm(web, folder)


def repository() -> str:
    """Return where the sources are published, as pyproject.toml states it, or ""."""
    written = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return str(written["tool"]["hatch"]["metadata"]["hooks"]["custom"]["repository"])


def last_change() -> str:
    """Return the time of the newest commit in seconds: files in a release have this date."""
    if not (ROOT / ".git").exists():
        return str(LONG_AGO)
    return run("git", "log", "-1", "--format=%ct", cwd=ROOT).strip()


def unpack(archive: Path, folder: Path) -> Path:
    """Unpack an sdist and return its only folder."""
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    (inside,) = folder.iterdir()
    return inside
