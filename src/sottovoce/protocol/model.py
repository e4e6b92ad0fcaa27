"""The model file: V as float32 in the safetensors format, one tensor named `item_matrix`.

Written and read here, in a few lines, so that a device needs no library for one tensor:
eight bytes (little endian) of header length, a JSON header, the numbers row by row.
"""

import json
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.bounds import LEAST_ENTRY, MOST_ENTRY, within_bounds
from sottovoce.errors import ProtocolError
from sottovoce.protocol import strict

NAME = "item_matrix"
_LONGEST_HEADER = 4096
_ALIGNED = 8
"""The numbers begin at a multiple of this: the header is padded with spaces."""


def encode_items(V: NDArray[np.float32]) -> bytes:
    """The file of a matrix; the same matrix always gives the same bytes."""
    size = 4 * V.size
    tensor = {"dtype": "F32", "shape": list(V.shape), "data_offsets": [0, size]}
    header = json.dumps({NAME: tensor}, separators=(",", ":")).encode()
    header += b" " * (-len(header) % _ALIGNED)
    return len(header).to_bytes(8, "little") + header + V.astype("<f4").tobytes()


def model_size(n_items: int, factors: int) -> int:
    """No file of such a matrix is longer: what a reader may stop at."""
    return 8 + _LONGEST_HEADER + 4 * n_items * factors


def decode_items(data: bytes, n_items: int, factors: int) -> NDArray[np.float32]:
    """The matrix, of this shape and within the public bounds, or a `ProtocolError`."""
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > _LONGEST_HEADER or len(data) < 8 + length:
        raise ProtocolError("model file: its header is missing or too long")
    header = strict.read_object(data[8 : 8 + length], most=_LONGEST_HEADER, what="model file")
    header.pop("__metadata__", None)
    size = 4 * n_items * factors
    wanted = {NAME: {"dtype": "F32", "shape": [n_items, factors], "data_offsets": [0, size]}}
    body = data[8 + length :]
    if header != wanted or _written(header) != _written(wanted) or len(body) != size:
        raise ProtocolError(
            f"model file: not one float32 tensor {NAME!r} of {n_items} x {factors} in {size} bytes"
        )
    V = np.frombuffer(body, dtype="<f4").reshape(n_items, factors).astype(np.float32)
    if not within_bounds(V):
        raise ProtocolError(
            f"model file: an entry is neither 0 nor of a size in {LEAST_ENTRY:g}..{MOST_ENTRY:g}"
        )
    return V


def _written(header: object) -> str:
    """Tells 1, 1.0 and true apart, which are equal in Python."""
    return json.dumps(header, sort_keys=True)


VERSION = 1
MAX_PANEL = 16 * 1024 * 1024
MAX_ROW = 2**31 - 1


@dataclass(frozen=True)
class Panellist:
    seen: tuple[int, ...]
    """What they touched, except one."""
    left: int
    """That one: a good model ranks it high."""
    others: tuple[int, ...]
    """What it competes with: they touched none of these."""


@dataclass(frozen=True)
class Panel:
    """Public test people, on whom anybody can measure a published model.

    Only people who were invented, or who said yes to that, belong on one; nobody on it takes part
    in the training. Numbers are rows of the catalogue that it names by its hash.
    """

    catalogue: bytes
    people: tuple[Panellist, ...]
    touched: tuple[int, ...] = ()
    """How many others touched each row, to compare models with popularity; empty: not known."""

    @classmethod
    def decode(cls, raw: bytes) -> Self:
        """Any bytes give a panel or a `ProtocolError`."""
        given = strict.read_object(raw, most=MAX_PANEL, what="panel")
        touched = given.pop("touched", [])
        strict.exact_keys(given, {"version", "catalogue", "people"}, "panel")
        strict.whole(given["version"], least=VERSION, most=VERSION, what="version of the panel")
        catalogue = strict.hexadecimal(given["catalogue"], what="catalogue of the panel")
        if not isinstance(given["people"], list) or not given["people"]:
            raise ProtocolError("panel: people must be a list of at least one")
        people = tuple(_panellist(each) for each in given["people"])
        return cls(catalogue, people, _touched(touched))

    def encode(self) -> bytes:
        people = [
            {"seen": list(each.seen), "left": each.left, "others": list(each.others)}
            for each in self.people
        ]
        content = {"version": VERSION, "catalogue": self.catalogue.hex(), "people": people}
        if self.touched:
            content["touched"] = list(self.touched)
        return json.dumps(content, separators=(",", ":")).encode()


def _touched(given: Any) -> tuple[int, ...]:
    if not isinstance(given, list):
        raise ProtocolError(f"panel: touched must be a list, not {strict.shown(given)}")
    return tuple(
        strict.whole(each, least=0, most=MAX_ROW, what="touched of the panel") for each in given
    )


def _panellist(given: Any) -> Panellist:
    if not isinstance(given, dict):
        raise ProtocolError(f"panel: a person is an object, not {strict.shown(given)}")
    strict.exact_keys(given, {"seen", "left", "others"}, "person of the panel")
    if not (isinstance(given["seen"], list) and isinstance(given["others"], list)):
        raise ProtocolError("panel: seen and others must be lists")
    rows = [*given["seen"], given["left"], *given["others"]]
    for row in rows:
        strict.whole(row, least=0, most=MAX_ROW, what="row of the panel")
    if len(set(rows)) != len(rows) or not given["others"]:
        raise ProtocolError("panel: rows of one person must differ, and one at least must compete")
    return Panellist(tuple(given["seen"]), given["left"], tuple(given["others"]))
