"""One hypothesis profile for all: no deadlines on shared machines, repeatable in CI.

And no terminal: a console that finds a width when it is made keeps it, whatever a test says later.
"""

from __future__ import annotations

import os

from hypothesis import settings

os.environ.pop("COLUMNS", None)
settings.register_profile("sottovoce", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("sottovoce")
