"""Plant each bug, run the tests that should see it, and take it out again.

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
MAX_SECONDS_PER_BUG = 900
# Exit status of pytest and npm after failed tests. A bug that breaks the run itself does not count.
TESTS_FAILED_STATUS = 1


class Bug(NamedTuple):
    """A paragraph of `bugs.txt`."""

    name: str
    file: str
    tests: tuple[str, ...]
    """Paths for pytest, or files of tests in a workspace of `web/`."""
    right: str
    """A part of a line, or some lines, that occur once in the file."""
    wrong: str

    @classmethod
    def parse(cls, paragraph: str) -> Self:
        name, where, *change = paragraph.splitlines()
        file, _, tests = where.partition(" | ")
        right, wrong = (
            "\n".join(line[2:] for line in change if line.startswith(sign)) for sign in "-+"
        )
        return cls(name, file, tuple(tests.split()), right, wrong)


def load_bugs() -> list[Bug]:
    text = (Path(__file__).parent / "bugs.txt").read_text(encoding="utf-8").strip()
    return [Bug.parse(paragraph) for paragraph in text.split("\n\n")]


class Copy:
    """A copy of the sources in another folder."""

    def __init__(self, folder: Path):
        self._folder = folder
        list_files = ("git", "ls-files", "--cached", "--others", "--exclude-standard")
        names = subprocess.run(list_files, cwd=ROOT, capture_output=True, text=True, check=True)
        for name in names.stdout.splitlines():
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, folder / name)
        if (modules := ROOT / "web" / "node_modules").exists():
            shutil.copytree(modules, folder / "web" / "node_modules", symlinks=True)

    def check(self, bugs: list[Bug]) -> None:
        """Check that the tests pass without a bug: a test that always fails would see all."""
        if failed := self._run(tuple({test for bug in bugs for test in bug.tests})):
            raise SystemExit(f"nothing is planted, and yet: {failed}")

    def find_failure(self, bug: Bug) -> str:
        """Plant a bug and return the first test that fails, or an empty string."""
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
            result = subprocess.run(
                command,
                cwd=self._folder,
                env={**os.environ, "CI": "1", "PYTHONPATH": os.pathsep.join(self._sources())},
                capture_output=True,
                text=True,
                timeout=MAX_SECONDS_PER_BUG,
                check=False,
            )
            if result.returncode == TESTS_FAILED_STATUS:
                return _first_failure(result.stdout)
            assert result.returncode == 0, (
                f"{command}\n{result.stdout[-3000:]}{result.stderr[-3000:]}"
            )
        return ""

    def _sources(self) -> list[str]:
        return [str(self._folder / name) for name in ("src", "lab/src")]


def _commands(tests: tuple[str, ...]) -> list[tuple[str, ...]]:
    web = [
        ("npm", "--prefix", folder, "test", file)
        for folder, _, file in (test.partition("/test/") for test in tests)
        if folder.startswith("web/")
    ]
    python_tests = [test for test in tests if not test.startswith("web/")]
    options = ("-x", "-q", "-p", "no:cacheprovider", "-n", "0")
    return [
        *([(sys.executable, "-m", "pytest", *options, *python_tests)] if python_tests else []),
        *web,
    ]


def _first_failure(output: str) -> str:
    for line in output.splitlines():
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
    options = arguments.parse_args()
    chosen = [
        bug
        for bug in load_bugs()
        if not options.words or any(word in bug.name for word in options.words)
    ]
    if options.list:
        print("\n".join(f"{bug.name}  ({bug.file})" for bug in chosen))
        return
    with tempfile.TemporaryDirectory() as name:
        copies: SimpleQueue[Copy] = SimpleQueue()
        for number in range(options.jobs):
            copies.put(Copy(Path(name) / str(number)))
        copy = copies.get()
        copy.check(chosen)
        copies.put(copy)

        def try_bug(bug: Bug) -> bool:
            copy, start = copies.get(), time.monotonic()
            try:
                failure = copy.find_failure(bug)
            finally:
                copies.put(copy)
            seconds = time.monotonic() - start
            print(f"{failure or 'NOT SEEN'}  <- {bug.name} ({seconds:.0f} s)", flush=True)
            return bool(failure)

        with ThreadPoolExecutor(options.jobs) as pool:
            seen = list(pool.map(try_bug, chosen))
    missed = [bug.name for bug, was_seen in zip(chosen, seen, strict=True) if not was_seen]
    print(f"{len(chosen) - len(missed)} of {len(chosen)} bugs were seen")
    if missed:
        raise SystemExit("not seen: " + "; ".join(missed))


if __name__ == "__main__":
    main()
