"""A real PostgreSQL server, on a socket in a temporary folder."""

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


def find_programs() -> Iterator[Path]:
    """Yield folders with `initdb` and `pg_ctl`: the wheel's, then the system's."""
    wheel = find_spec("pgserver")
    if wheel is not None and wheel.origin is not None:
        yield Path(wheel.origin).parent / "pginstall" / "bin"
    yield from sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    command = shutil.which("pg_ctl")
    if command:
        yield Path(command).resolve().parent


def _find_account() -> tuple[int, int] | None:
    """Return an account without rights, because PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            account = pwd.getpwnam(name)
        except KeyError:
            continue
        return account.pw_uid, account.pw_gid
    raise OSError("there is neither an account 'postgres' nor 'nobody'")


def _run(*command: str | Path, folder: Path) -> None:
    account = _find_account()
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
def run_postgres() -> Iterator[str]:
    """Run a server in the block; raise an `OSError` if none can be started."""
    with tempfile.TemporaryDirectory(prefix="sottovoce-pg-") as name:
        folder = Path(name)
        account = _find_account()
        if account is not None:
            os.chown(folder, *account)
        bin_folder = _start(folder)
        try:
            yield f"postgresql+psycopg://postgres@/postgres?host={quote(name)}"
        finally:
            stop = ("-D", folder / "data", "-m", "immediate", "stop")
            _run(bin_folder / "pg_ctl", *stop, folder=folder)


def _start(folder: Path) -> Path:
    failures = []
    for bin_folder in find_programs():
        data = folder / "data"
        options = f"-k {folder} -c listen_addresses= -c fsync=off -c max_connections=100"
        try:
            make = ("-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")
            _run(bin_folder / "initdb", *make, folder=folder)
            start = ("-D", data, "-w", "-o", options, "-l", folder / "log", "start")
            _run(bin_folder / "pg_ctl", *start, folder=folder)
        except (OSError, subprocess.SubprocessError) as error:
            failures.append(f"{bin_folder}: {error}")
            shutil.rmtree(data, ignore_errors=True)
            continue
        return bin_folder
    raise OSError("; ".join(failures) or "no PostgreSQL is installed")
