"""CPU time and memory of a process, from /proc."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from sottovoce.errors import SettingsError


@dataclass(frozen=True)
class ResidentMemory:
    """Resident bytes of a process."""

    start: int
    """When it was ready."""
    most: int
    """At its largest, ever since it began."""


def cpu_seconds(pid: int) -> float:
    """User and system time of all its threads so far."""
    # The second field is the program's name, which may hold anything, a bracket too.
    fields = _read(pid, "stat").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(pid: int) -> int:
    """Resident bytes now."""
    return _status(pid, "VmRSS")


def most_resident(pid: int) -> int:
    """Resident bytes at the most."""
    return _status(pid, "VmHWM")


def _status(pid: int, name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB$", _read(pid, "status"), re.MULTILINE)
    assert found is not None, "every process has these lines"
    return 1024 * int(found[1])


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text(encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"this needs /proc, as on Linux: {error}") from error
