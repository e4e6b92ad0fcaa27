"""The command line: progress goes to stderr, results go to stdout or to `--json FILE`."""

import sys
import warnings
from collections.abc import Callable

from sottovoce.characters import escape_control_characters
from sottovoce.errors import MissingExtraError, SottovoceError


def main() -> None:
    """Run the command line. Print a `SottovoceError` without a traceback, and exit with code 2."""
    warnings.showwarning = lambda message, *_, **__: print(f"Note: {message}", file=sys.stderr)  # noqa: T201
    try:
        _import_app()()
    except SottovoceError as error:
        text = "\n".join(map(escape_control_characters, str(error).split("\n")))
        print(f"sottovoce: {text}", file=sys.stderr)  # noqa: T201 - the edge of the program
        raise SystemExit(2) from error


def _import_app() -> Callable[[], None]:
    # An installation without extras lacks the packages that the command line imports.
    try:
        from sottovoce.cli.app import run
    except ImportError as error:
        if (error.name or "").startswith("sottovoce"):
            raise
        raise MissingExtraError(
            f"the command line needs {str(error.name).partition('.')[0]}: "
            "pip install 'sottovoce[cli]'"
        ) from error
    return run
