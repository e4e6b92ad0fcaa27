"""The commands of the laboratory."""

from typing import Annotated

from sottovoce.cli.options import optional
from sottovoce.core import MECHANISMS

Mechanisms = Annotated[
    list[str] | None,
    optional(f"Mechanism to run: {', '.join(MECHANISMS)}. May be repeated.", "all", "--mechanism"),
]
