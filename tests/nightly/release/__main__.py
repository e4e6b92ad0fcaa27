"""`make release`: builds everything twice, compares and tests it, and uploads nothing."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.nightly.release.building import (
    BUILT_VARIABLE,
    ROOT,
    build_python,
    get_commit_time,
    pack_npm,
    read_repository,
    unpack,
)
from tests.nightly.release.fresh import Venv, run

DIST_FOLDER = ROOT / "dist"


def main() -> None:
    shutil.rmtree(DIST_FOLDER, ignore_errors=True)
    DIST_FOLDER.mkdir()
    with tempfile.TemporaryDirectory() as name:
        elsewhere = Path(name)
        builder = Venv(elsewhere / "builder")
        build_all(ROOT, DIST_FOLDER, builder)
        (sdist,) = DIST_FOLDER.glob("sottovoce-*.tar.gz")
        source = unpack(sdist, elsewhere / "source")
        run("npm", "--prefix", "web", "ci", "--no-audit", "--no-fund", cwd=source)
        build_all(source, elsewhere / "again", builder)
        check_reproducible(DIST_FOLDER, elsewhere / "again")
    run_tests()
    print_files()


def build_all(source: Path, folder: Path, builder: Venv) -> None:
    report(f"building from {source}")
    build_python(source, folder, builder, get_commit_time())
    pack_npm(source / "web", folder)


def check_reproducible(first: Path, second: Path) -> None:
    """Check that the sdist, in another folder, gives the same bytes as this folder."""
    digests = [
        {path.name: hash_file(path) for path in folder.iterdir()} for folder in (first, second)
    ]
    if len(digests[0]) != 6 or digests[0] != digests[1]:
        raise SystemExit(f"not reproducible: {digests[0]} and then {digests[1]}")
    report("built again from the sdist, elsewhere: the same bytes")


def hash_file(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def run_tests() -> None:
    """Run the other tests of this folder on these very files."""
    report("installing them in fresh environments, on every Python that is here: minutes")
    tests = (sys.executable, "-m", "pytest", "-q", "-rs", str(Path(__file__).parent))
    done = subprocess.run(tests, env={**os.environ, BUILT_VARIABLE: str(DIST_FOLDER)}, check=False)
    if done.returncode:
        raise SystemExit(done.returncode)


def print_files() -> None:
    report("\nNothing was uploaded. These are the files:\n")
    for path in sorted(DIST_FOLDER.iterdir()):
        report(f"  {hash_file(path)}  {path.stat().st_size:>9,} bytes  dist/{path.name}")
    report(f"\nAnybody gets the same from the sdist with SOURCE_DATE_EPOCH={get_commit_time()}.")
    report("To publish:\n")
    report("  python3 -m pip install twine && python3 -m twine upload dist/*.whl dist/*.tar.gz")
    report("  npm publish dist/*.tgz")
    if not read_repository():
        report(
            "\nFirst name the `repository` in pyproject.toml: without it the links of the README "
            "that package indexes show lead nowhere."
        )
    if run("git", "status", "--porcelain", cwd=ROOT):
        raise SystemExit("\nNot this time: there are changes that are not committed.")


def report(words: str) -> None:
    print(words, flush=True)


if __name__ == "__main__":
    main()
