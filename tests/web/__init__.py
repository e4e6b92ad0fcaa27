"""The page in a real browser, against a real server and a real proxy."""

import pytest

pytest.register_assert_rewrite("tests.web.visitor", "tests.web.system")
