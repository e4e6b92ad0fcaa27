"""The browser and the system of `tests/web`."""

from tests.web.conftest import (
    browser,
    folder,
    playwright,
    system,
    trap,
    visit,
    visitor,
    whole_system,
)

__all__ = [
    "browser",
    "folder",
    "playwright",
    "system",
    "trap",
    "visit",
    "visitor",
    "whole_system",
]
