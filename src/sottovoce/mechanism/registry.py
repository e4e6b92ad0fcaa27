"""Which mechanisms there are."""

from __future__ import annotations

MECHANISMS = ("coordinate", "hadamard", "loudest")
