"""A throw-away PostgreSQL server: real, on a socket in a folder of its own, gone afterwards."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote


def programs() -> Iterator[Path]:
    """Folders with `initdb` and `pg_ctl`: the wheel's, the system's."""
    wheel = find_spec("pgserver")  # not imported: only its programs are wanted
    if wheel is not None and wheel.origin is not None:
        yield Path(wheel.origin).parent / "pginstall" / "bin"
    yield from sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    found = shutil.which("pg_ctl")
    if found:
        yield Path(found).resolve().parent


def _account() -> tuple[int, int] | None:
    """PostgreSQL refuses to run as root: borrow an account that has no rights."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            continue
        return found.pw_uid, found.pw_gid
    raise OSError("there is neither an account 'postgres' nor 'nobody'")


def _run(*command: str | Path, folder: Path) -> None:
    account = _account()
    who = {} if account is None else {"user": account[0], "group": account[1], "extra_groups": []}
    done = subprocess.run(
        list(command),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        **who,  # type: ignore[call-overload]
    )
    if done.returncode:
        raise OSError(f"{command[0]}: {done.stderr}")


@contextmanager
def running() -> Iterator[str]:
    """The URL of a server that lives as long as the block; `OSError` if none can be started."""
    with tempfile.TemporaryDirectory(prefix="sottovoce-pg-") as name:
        folder = Path(name)
        account = _account()
        if account is not None:
            os.chown(folder, *account)
        bin_folder = _started(folder)
        try:
            yield f"postgresql+psycopg://postgres@/postgres?host={quote(name)}"
        finally:
            stop = ("-D", folder / "data", "-m", "immediate", "stop")
            _run(bin_folder / "pg_ctl", *stop, folder=folder)


def _started(folder: Path) -> Path:
    failures = []
    for found in programs():
        data = folder / "data"
        options = f"-k {folder} -c listen_addresses= -c fsync=off -c max_connections=100"
        try:
            make = ("-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")
            _run(found / "initdb", *make, folder=folder)
            start = ("-D", data, "-w", "-o", options, "-l", folder / "log", "start")
            _run(found / "pg_ctl", *start, folder=folder)
        except (OSError, subprocess.SubprocessError) as error:
            failures.append(f"{found}: {error}")
            shutil.rmtree(data, ignore_errors=True)
            continue
        return found
    raise OSError("; ".join(failures) or "no PostgreSQL is installed")
