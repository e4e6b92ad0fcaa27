"""File descriptors: every connection needs one."""

from __future__ import annotations

import sys

USUAL = 512
"""Where the system does not say (Windows)."""


def raise_limit(wanted: int) -> int:
    """As many as the system lets this process have; `wanted` if it sets no limit."""
    if sys.platform == "win32":
        return USUAL
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        hard = max(soft, wanted)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard
