"""`make release`: everything up to the upload. Built twice, compared, installed and tried."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.nightly.release.building import (
    BUILT,
    ROOT,
    build_python,
    last_change,
    pack_npm,
    repository,
    unpack,
)
from tests.nightly.release.fresh import Fresh, run

DIST = ROOT / "dist"


def main() -> None:
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    with tempfile.TemporaryDirectory() as name:
        elsewhere = Path(name)
        builder = Fresh(elsewhere / "builder")
        build_all(ROOT, DIST, builder)
        (sdist,) = DIST.glob("sottovoce-*.tar.gz")
        source = unpack(sdist, elsewhere / "source")
        run("npm", "--prefix", "web", "ci", "--no-audit", "--no-fund", cwd=source)
        build_all(source, elsewhere / "again", builder)
        compare(DIST, elsewhere / "again")
    try_out()
    tell()


def build_all(source: Path, folder: Path, builder: Fresh) -> None:
    say(f"building from {source}")
    build_python(source, folder, builder, last_change())
    pack_npm(source / "web", folder)


def compare(first: Path, second: Path) -> None:
    """Require the same bytes from this folder and from the sdist in another folder."""
    digests = [{path.name: digest(path) for path in folder.iterdir()} for folder in (first, second)]
    if len(digests[0]) != 6 or digests[0] != digests[1]:
        raise SystemExit(f"not reproducible: {digests[0]} and then {digests[1]}")
    say("built again from the sdist, elsewhere: the same bytes")


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def try_out() -> None:
    """Run the other tests of this folder on these very files."""
    say("installing them in fresh environments, on every Python that is here: minutes")
    tests = (sys.executable, "-m", "pytest", "-q", "-rs", str(Path(__file__).parent))
    done = subprocess.run(tests, env={**os.environ, BUILT: str(DIST)}, check=False)
    if done.returncode:
        raise SystemExit(done.returncode)


def tell() -> None:
    say("\nNothing was uploaded. These are the files:\n")
    for path in sorted(DIST.iterdir()):
        say(f"  {digest(path)}  {path.stat().st_size:>9,} bytes  dist/{path.name}")
    say(f"\nAnybody gets the same from the sdist with SOURCE_DATE_EPOCH={last_change()}.")
    say("To publish:\n")
    say("  python3 -m pip install twine && python3 -m twine upload dist/*.whl dist/*.tar.gz")
    say("  npm publish dist/*.tgz")
    if not repository():
        say(
            "\nFirst name the `repository` in pyproject.toml: without it the links of the README "
            "that package indexes show lead nowhere."
        )
    if run("git", "status", "--porcelain", cwd=ROOT):
        raise SystemExit("\nNot this time: there are changes that are not committed.")


def say(words: str) -> None:
    print(words, flush=True)


if __name__ == "__main__":
    main()
