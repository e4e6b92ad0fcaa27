"""The same environment as for the tests of what is shipped."""

import tests.conftest  # noqa: F401
