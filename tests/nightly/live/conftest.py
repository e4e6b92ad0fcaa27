"""The folders of `tests/live`."""

from tests.live.conftest import folder

__all__ = ["folder"]
