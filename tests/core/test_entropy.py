from __future__ import annotations

import os

import numpy as np
import pytest

from sottovoce.core import os_words


def test_words_have_the_shape_that_mechanisms_take_and_never_repeat() -> None:
    """A repeat among 2 x 8,484 words of 64 bits has a chance of 1e-11."""
    first, second = os_words(3, 706), os_words(3, 706)
    assert first.shape == (3, 707, 4)
    assert first.dtype == np.uint64
    both = np.concatenate([first.ravel(), second.ravel()])
    assert len(np.unique(both)) == both.size


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_does_not_repeat_its_parent() -> None:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, os_words(1, 10).tobytes())
        os._exit(0)
    own = os_words(1, 10).tobytes()
    os.waitpid(child, 0)
    theirs = os.read(reader, len(own))
    os.close(reader)
    os.close(writer)
    assert len(theirs) == len(own)
    assert theirs != own
