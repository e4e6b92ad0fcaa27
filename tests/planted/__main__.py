"""Plants each bug, runs the tests that should see it, and takes it out again.

python -m tests.planted                 all of them: three minutes on two idle cores
python -m tests.planted coin ledger     those whose names have one of these words
python -m tests.planted --list
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple, Self

ROOT = Path(__file__).parents[2]
LONGEST = 900
FAILED = 1
"""pytest's and npm's code for tests that ran and failed; a bug that breaks the run is none."""


class Bug(NamedTuple):
    """A paragraph of `bugs.txt`."""

    name: str
    file: str
    tests: tuple[str, ...]
    """Paths for pytest, or files of tests in a workspace of `web/`."""
    right: str
    """As the file has it, once: a part of a line, or some lines."""
    wrong: str

    @classmethod
    def read(cls, paragraph: str) -> Self:
        name, where, *change = paragraph.splitlines()
        file, _, tests = where.partition(" | ")
        right, wrong = (
            "\n".join(line[2:] for line in change if line.startswith(sign)) for sign in "-+"
        )
        return cls(name, file, tuple(tests.split()), right, wrong)


def listed() -> list[Bug]:
    paragraphs = (Path(__file__).parent / "bugs.txt").read_text(encoding="utf-8").strip()
    return [Bug.read(each) for each in paragraphs.split("\n\n")]


class Copy:
    """The sources in another folder, with nothing planted."""

    def __init__(self, folder: Path):
        self._folder = folder
        listed = ("git", "ls-files", "--cached", "--others", "--exclude-standard")
        names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True)
        for name in names.stdout.splitlines():
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, folder / name)
        if (modules := ROOT / "web" / "node_modules").exists():
            shutil.copytree(modules, folder / "web" / "node_modules", symlinks=True)

    def check(self, bugs: list[Bug]) -> None:
        """A test that fails without any bug would see all of them."""
        if failed := self._run(tuple({test for bug in bugs for test in bug.tests})):
            raise SystemExit(f"nothing is planted, and yet: {failed}")

    def catches(self, bug: Bug) -> str:
        """What the tests said of it; empty if they saw nothing."""
        path = self._folder / bug.file
        before = path.read_text(encoding="utf-8")
        assert before.count(bug.right) == 1, f"{bug.name}: {bug.file} has {bug.right!r} not once"
        path.write_text(before.replace(bug.right, bug.wrong), encoding="utf-8")
        try:
            return self._run(bug.tests)
        finally:
            path.write_text(before, encoding="utf-8")

    def _run(self, tests: tuple[str, ...]) -> str:
        for command in _commands(tests):
            done = subprocess.run(
                command,
                cwd=self._folder,
                env={**os.environ, "CI": "1", "PYTHONPATH": os.pathsep.join(self._sources())},
                capture_output=True,
                text=True,
                timeout=LONGEST,
                check=False,
            )
            if done.returncode == FAILED:
                return _first_failure(done.stdout)
            assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
        return ""

    def _sources(self) -> list[str]:
        return [str(self._folder / name) for name in ("src", "lab/src")]


def _commands(tests: tuple[str, ...]) -> list[tuple[str, ...]]:
    web = [
        ("npm", "--prefix", folder, "test", file)
        for folder, _, file in (each.partition("/test/") for each in tests)
        if folder.startswith("web/")
    ]
    ours = [each for each in tests if not each.startswith("web/")]
    options = ("-x", "-q", "-p", "no:cacheprovider", "-n", "0")
    return [*([(sys.executable, "-m", "pytest", *options, *ours)] if ours else []), *web]


def _first_failure(said: str) -> str:
    for line in said.splitlines():
        if line.startswith("not ok "):
            return line[:110]
        if line.startswith(("FAILED ", "ERROR tests")):
            return line.split(" - ")[0][:110]
    return "failed"


def main() -> None:
    arguments = argparse.ArgumentParser(prog="python -m tests.planted", description=__doc__)
    arguments.add_argument("words", nargs="*")
    arguments.add_argument("--list", action="store_true")
    arguments.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = arguments.parse_args()
    chosen = [
        bug for bug in listed() if not given.words or any(word in bug.name for word in given.words)
    ]
    if given.list:
        print("\n".join(f"{bug.name}  ({bug.file})" for bug in chosen))
        return
    with tempfile.TemporaryDirectory() as name:
        copies: SimpleQueue[Copy] = SimpleQueue()
        for number in range(given.jobs):
            copies.put(Copy(Path(name) / str(number)))
        copy = copies.get()
        copy.check(chosen)
        copies.put(copy)

        def tried(bug: Bug) -> bool:
            copy, begun = copies.get(), time.monotonic()
            try:
                seen = copy.catches(bug)
            finally:
                copies.put(copy)
            took = time.monotonic() - begun
            print(f"{seen or 'NOT SEEN'}  <- {bug.name} ({took:.0f} s)", flush=True)
            return bool(seen)

        with ThreadPoolExecutor(given.jobs) as pool:
            seen = list(pool.map(tried, chosen))
    missed = [bug.name for bug, was_seen in zip(chosen, seen, strict=True) if not was_seen]
    print(f"{len(chosen) - len(missed)} of {len(chosen)} bugs were seen")
    if missed:
        raise SystemExit("not seen: " + "; ".join(missed))


if __name__ == "__main__":
    main()
