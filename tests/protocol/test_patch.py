"""Patches; `malformed.py` lists those that give no file."""

from hypothesis import given
from hypothesis import strategies as st

from sottovoce.protocol import make_patch
from sottovoce.protocol.patch import MAX_FURTHER_BYTES, MAX_PATCH_BASES, MAX_PATCH_PART, Patch
from tests.protocol.examples import damaged, refuses

BASE = b"".join(b"%d is the number of this line;" % n for n in range(2_000))
SMALL_PATCH = make_patch(BASE, [BASE[:-9]]) or b""


def changed(*lines: int) -> bytes:
    """Return the base with other lines in some places."""
    pieces = BASE.split(b";")
    for line in lines:
        pieces[line] = b"another %d" % line
    return b";".join(pieces)


@given(
    st.lists(st.binary(max_size=60) | st.tuples(st.integers(0, 60_000), st.integers(0, 60_000))),
    st.binary(max_size=40),
)
def test_patch_makes_the_file(pieces: list[bytes | tuple[int, int]], end: bytes) -> None:
    target = b"".join(p if isinstance(p, bytes) else BASE[p[0] : p[1]] for p in pieces) + end
    patch = make_patch(target, [BASE])
    if patch is None:
        assert len(target) < 70 + 60 * len(pieces) * 8 + 40 * 8, "most of it is in the base"
    else:
        assert len(patch) <= MAX_PATCH_PART * len(target)
        assert Patch.decode(patch).apply(BASE, len(target)) == target


def test_patch_has_as_many_bases_as_fit() -> None:
    versions = [changed(*range(10, 10 + n)) for n in range(30)]
    patch = make_patch(versions[-1], reversed(versions[:-1]))
    assert patch is not None
    decoded = Patch.decode(patch)
    assert len(decoded.slices) == MAX_PATCH_BASES
    for base in versions[-1 - MAX_PATCH_BASES : -1]:
        assert decoded.apply(base, len(BASE) + 1_000) == versions[-1]


def test_further_bases_cost_little() -> None:
    one = changed(7)
    first = make_patch(BASE, [one])
    both = make_patch(BASE, [one, changed(7, *range(100, 500, 2))])
    assert first is not None
    assert both is not None
    assert len(both) <= len(first) + MAX_FURTHER_BYTES
    assert both == first, "the second base would have cost more"


def test_files_without_much_in_common_have_no_patch() -> None:
    assert make_patch(BASE, []) is None
    assert make_patch(BASE, [BASE[:30_000]]) is None
    assert make_patch(bytes(range(256)) * 9, [BASE]) is None


@given(st.binary(max_size=200) | damaged(SMALL_PATCH))
def test_any_bytes_are_a_patch_or_refused(data: bytes) -> None:
    refuses(lambda raw: Patch.decode(raw).apply(BASE[:-9], 10**6), data)
