"""Virtual environments with only what a test installs, outside the clone."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from functools import cache
from pathlib import Path

PYTHON_VARIABLES = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE")
COMMAND_SECONDS = 900


class Venv:
    """A virtual environment, and a folder in which its commands run."""

    def __init__(self, folder: Path, interpreter: str = sys.executable):
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        self._folder = folder / "environment"
        run(interpreter, "-m", "venv", "--without-pip", str(self._folder))
        self.python = self._folder / "bin" / "python"
        self.variables = {
            **{name: value for name, value in os.environ.items() if name not in PYTHON_VARIABLES},
            "COLUMNS": "200",
            "HOME": str(self.home),
            "PATH": f"{self._folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
        }

    @property
    def packages(self) -> Path:
        (path,) = (self._folder / "lib").glob("python*/site-packages")
        return path

    def pip(self, *words: str) -> str:
        """Run the pip of the tests: an environment need not have one."""
        return run(sys.executable, "-m", "pip", "--python", str(self.python), *words)

    def list_installed(self) -> set[str]:
        return {
            package["name"].lower() for package in json.loads(self.pip("list", "--format", "json"))
        }

    def run(self, *command: str, code: int = 0) -> str:
        """Run a command of this environment; return its output on both channels."""
        return run(*command, code=code, cwd=self.home, env=self.variables)

    def run_python(self, program: str) -> str:
        return self.run("python", "-c", program)


def run(
    *command: str, code: int = 0, cwd: Path | None = None, env: dict[str, str] | None = None
) -> str:
    """Run a command that must end with this code; return its output on both channels."""
    program = shutil.which(command[0], path=(env or os.environ)["PATH"])
    assert program is not None, command[0]
    done = subprocess.run(
        [program, *command[1:]],
        cwd=cwd,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=COMMAND_SECONDS,
        check=False,
    )
    assert done.returncode == code, f"{' '.join(command)}\n{done.stdout[-8000:]}"
    return done.stdout


class WheelHouse:
    """Wheels that are downloaded and unpacked once; environments have links to what they need.

    So the bytecode of a package is made once too, at its first import.
    """

    def __init__(self, folder: Path, wheel: Path, extras: str):
        self._wheel, self._folder = wheel, folder / "wheels"
        self.unpack = cache(self._unpack)
        run(
            *(sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:"),
            *("--dest", str(self._folder), f"{wheel}[{extras}]"),
        )

    def install(self, fresh: Venv, extras: str) -> None:
        """Install the wheel and what pip chooses for it."""
        wanted = f"{self._wheel}[{extras}]" if extras else str(self._wheel)
        offline_options = ("--quiet", "--no-index", "--find-links", str(self._folder))
        report = self._folder / "report.json"
        fresh.pip("install", *offline_options, "--dry-run", "--report", str(report), wanted)
        for package in json.loads(report.read_text())["install"]:
            name = Path(package["download_info"]["url"]).name
            if name != self._wheel.name:
                for part in self.unpack(name).iterdir():
                    (fresh.packages / part.name).symlink_to(part)
        fresh.pip("install", *offline_options, "--no-deps", str(self._wheel))
        fresh.pip("check")

    def _unpack(self, name: str) -> Path:
        place = self._folder / "unpacked" / name
        with zipfile.ZipFile(self._folder / name) as wheel:
            wheel.extractall(place)
        return place
