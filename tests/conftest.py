"""One hypothesis profile for all: no deadlines on shared machines, repeatable in CI."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("sottovoce", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("sottovoce")
