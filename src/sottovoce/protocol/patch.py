"""Patches: how to make a published file from one of its earlier versions.

A patch lists earlier versions (*bases*) by their hashes. For each of them it has slices of the base
and of the patch's own bytes, the *literals*, which together are the new file (docs/protocol.md).
One patch serves several bases, so that fetching it does not reveal which of them a device has.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import ProtocolError

PATCH_MAGIC = b"SVP2"
# The largest patch that a reader fetches.
MAX_PATCH_BYTES = 2**22
# Bytes of: magic and number of bases; a base and the number of its slices; a slice.
_HEAD_BYTES = 8
_BASE_BYTES = 36
_SLICE_BYTES = 8

# The largest number of bases in a patch that a server makes.
MAX_PATCH_BASES = 16
# A file larger than this gets no patch, because finding what is equal would take seconds.
MAX_PATCHED_BYTES = 2**23
# A patch has at most this part of the new file: otherwise it would save little.
MAX_PATCH_PART = 0.25
# Further bases may make a patch larger by this number of bytes, which all readers fetch.
MAX_FURTHER_BYTES = 8192
# Equal pieces of two files are found if they have a block of this size in common.
_BLOCK_BYTES = 32

# A slice of the base followed by the literals: offset and length.
Slice = tuple[int, int]


@dataclass(frozen=True)
class Patch:
    """A decoded patch."""

    slices: dict[bytes, NDArray[np.int64]]
    """The slices that make the new file, n x 2, by SHA-256 of the base."""
    literals: bytes

    @classmethod
    def decode(cls, raw: bytes) -> Self:
        """Parse a patch; raise a `ProtocolError` if it is malformed."""
        n_bases = int.from_bytes(raw[4:_HEAD_BYTES], "little")
        if raw[:4] != PATCH_MAGIC or len(raw) > MAX_PATCH_BYTES:
            raise ProtocolError("patch: it has another magic, or is too large")
        slices, at = {}, _HEAD_BYTES
        for _ in range(n_bases):
            begin = at + _BASE_BYTES
            end = begin + _SLICE_BYTES * int.from_bytes(raw[begin - 4 : begin], "little")
            if end > len(raw):
                raise ProtocolError("patch: it was cut short")
            numbers = np.frombuffer(raw[begin:end], "<u4").astype(np.int64)
            slices[raw[at : at + 32]] = numbers.reshape(-1, 2)
            at = end
        return cls(slices, raw[at:])

    def apply(self, base: bytes, max_bytes: int) -> bytes:
        """Return the new file; the caller checks its hash.

        Args:
            base: The earlier version.
            max_bytes: The largest size of the new file. It is checked before anything is copied.

        Raises:
            ProtocolError: There are no slices for this base, one is beyond the end, or the new file
                would be too large.
        """
        slices = self.slices.get(hashlib.sha256(base).digest())
        source = base + self.literals
        if (
            slices is None
            or (slices.sum(axis=1) > len(source)).any()
            or slices[:, 1].sum() > max_bytes
        ):
            raise ProtocolError("patch: its slices do not fit this file")
        return b"".join(source[at : at + length] for at, length in slices.tolist())


def make_patch(target: bytes, bases: Iterable[bytes]) -> bytes | None:
    """Return a patch to a file, or None if it would be too large to be worth fetching.

    Args:
        target: The new file.
        bases: Its earlier versions, the latest first. Earlier ones are left out if the patch would
            become too large.
    """
    if len(target) > MAX_PATCHED_BYTES:
        return None
    literals, entries, size, max_size = b"", b"", 0, int(MAX_PATCH_PART * len(target))
    n_bases = 0
    for base in bases:
        pieces = _find_pieces(base, target, max_size)
        if pieces is None or n_bases == MAX_PATCH_BASES:
            break
        more = literals
        slices: list[Slice] = []
        for piece in pieces:
            if isinstance(piece, tuple):
                slices.append(piece)
                continue
            # What further bases lack is often the same.
            if piece not in more:
                more += piece
            slices.append((len(base) + more.index(piece), len(piece)))
        entry = hashlib.sha256(base).digest() + len(slices).to_bytes(4, "little")
        entry += np.array(slices, "<u4").tobytes()
        size = _HEAD_BYTES + len(entries) + len(entry) + len(more)
        if size > max_size:
            break
        if not n_bases:
            max_size = min(max_size, size + MAX_FURTHER_BYTES)
        literals, entries, n_bases = more, entries + entry, n_bases + 1
    if not n_bases:
        return None
    return PATCH_MAGIC + n_bases.to_bytes(4, "little") + entries + literals


def _find_pieces(base: bytes, target: bytes, max_literals: int) -> list[Slice | bytes] | None:
    """Return the pieces of a file: slices of the base, and bytes that it lacks.

    None if the base lacks more than `max_literals` bytes.
    """
    starts = range(len(base) - _BLOCK_BYTES, -1, -_BLOCK_BYTES)
    places = {base[at : at + _BLOCK_BYTES]: at for at in starts}
    old, new = np.frombuffer(base, np.uint8), np.frombuffer(target, np.uint8)
    pieces: list[Slice | bytes] = []
    n_literals = at = begin = shift = 0
    while at < len(target):
        block = target[at : at + _BLOCK_BYTES]
        # What follows a changed piece of the same length is where it was.
        place = at - shift
        if place < 0 or base[place : place + _BLOCK_BYTES] != block:
            block_place = places.get(block)
            if block_place is None:
                at += 1
                if n_literals + at - begin > max_literals:
                    return None
                continue
            place = block_place
        before = _count_equal(old[:place][::-1], new[begin:at][::-1])
        length = before + _count_equal(old[place:], new[at:])
        place, at = place - before, at - before
        if at > begin:
            pieces.append(target[begin:at])
            n_literals += at - begin
        pieces.append((place, length))
        shift = at - place
        begin = at = at + length
    if at > begin:
        pieces.append(target[begin:at])
    return pieces


def _count_equal(one: NDArray[np.uint8], other: NDArray[np.uint8]) -> int:
    """Return how many bytes at the beginning of two arrays are equal."""
    n, at, size = min(len(one), len(other)), 0, 64
    # Most comparisons end soon, so they begin with few bytes.
    while at < n:
        end = min(at + size, n)
        differences = np.flatnonzero(one[at:end] != other[at:end])
        if len(differences):
            return at + int(differences[0])
        at, size = end, 4 * size
    return n
