"""The command line: progress on stderr, results on stdout, `--json FILE` for machines."""

import sys
import warnings
from collections.abc import Callable

from sottovoce.characters import escape_control_characters
from sottovoce.errors import MissingExtraError, SottovoceError


def main() -> None:
    """Run the command line; what is wrong becomes a line or two, and exit code 2."""
    warnings.showwarning = lambda message, *_, **__: print(f"Note: {message}", file=sys.stderr)  # noqa: T201
    try:
        _app()()
    except SottovoceError as error:
        said = "\n".join(map(escape_control_characters, str(error).split("\n")))
        print(f"sottovoce: {said}", file=sys.stderr)  # noqa: T201 - the edge of the program
        raise SystemExit(2) from error


def _app() -> Callable[[], None]:
    """The command line; a bare install lacks its packages and gets a message, not a traceback."""
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
