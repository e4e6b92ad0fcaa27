"""The Walsh-Hadamard transform and public signs."""

import numpy as np
import pytest
from scipy.linalg import hadamard

from sottovoce.core import walsh


@pytest.mark.parametrize("n", [1, 2, 8, 64])
def test_transform_multiplies_by_the_hadamard_matrix(n: int) -> None:
    H = hadamard(n)
    values = np.random.default_rng(0).standard_normal((n, 3))
    assert walsh.transform(values, 0) == pytest.approx(H @ values)
    assert walsh.transform(values.T, 1) == pytest.approx((H @ values).T)
    rows, columns = np.indices((n, n))
    assert np.array_equal(walsh.compute_hadamard_signs(rows, columns), H)


def test_public_signs_are_pinned() -> None:
    # Every client must compute the same signs: SHA-256 in counter mode, low bit first.
    signs = walsh.compute_public_signs(1, 600)
    assert "".join("-" if s < 0 else "+" for s in signs[:24]) == FIRST_SIGNS
    assert np.array_equal(signs[:100], walsh.compute_public_signs(1, 100))
    assert not np.array_equal(signs, walsh.compute_public_signs(2, 600))
    assert abs(signs.sum()) < 5 * np.sqrt(600)


FIRST_SIGNS = "---++----+-+-++---+-+--+"
