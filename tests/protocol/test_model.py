"""Item matrices, and the panel that judges them. The list of what is refused: `malformed.py`."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors import deserialize
from safetensors.numpy import save

from sottovoce.core.bounds import MAX_ITEM_ENTRY, MIN_ITEM_ENTRY, is_within_bounds, round_items
from sottovoce.protocol import decode_items, encode_items, model_size
from sottovoce.protocol.panel import MAX_ROW, Panel, Panellist
from tests.protocol.examples import damaged, refuses

V = np.array([[0.5, -1.25], [3.0, 2.0**-60], [0.0, -0.0]], np.float32)
MODEL_FILE = encode_items(V)

matrices = hnp.arrays(
    np.float32,
    hnp.array_shapes(min_dims=2, max_dims=2, max_side=9),
    elements=st.floats(-MAX_ITEM_ENTRY, MAX_ITEM_ENTRY, width=32),
).map(round_items)


def decode(data: bytes) -> np.ndarray:
    return decode_items(data, 3, 2)


@given(matrices)
def test_matrix_round_trip_is_exact(matrix: np.ndarray) -> None:
    data = encode_items(matrix)
    assert len(data) <= model_size(*matrix.shape)
    read = decode_items(data, *matrix.shape)
    assert read.dtype == np.float32
    assert read.tobytes() == matrix.tobytes()
    assert is_within_bounds(read)
    assert read.flags.writeable  # a copy of its own, not a view into the file


@given(matrices)
def test_safetensors_reads_ours_and_we_read_theirs(matrix: np.ndarray) -> None:
    ((name, theirs),) = deserialize(encode_items(matrix))  # type: ignore[no-untyped-call]
    assert (name, theirs["dtype"]) == ("item_matrix", "BF16")
    assert theirs["shape"] == [*matrix.T.shape]
    # A bfloat16 is the upper half of a float32.
    halves = np.frombuffer(theirs["data"], "<u2").reshape(theirs["shape"])
    read = (halves.T.astype(np.uint32) << np.uint32(16)).view(np.float32)
    assert read.tobytes() == matrix.tobytes()
    for metadata in (None, {"made": "elsewhere"}):
        # numpy has no bfloat16.
        data = save({name: halves}, metadata)
        body = 8 + int.from_bytes(data[:8], "little")
        header = data[8:body].replace(b'"U16"', b'"BF16"')
        data = len(header).to_bytes(8, "little") + header + data[body:]
        assert decode_items(data, *matrix.shape).tobytes() == matrix.tobytes()


@given(st.floats(-MAX_ITEM_ENTRY, MAX_ITEM_ENTRY, width=32))
def test_only_rounded_entries_are_published(entry: float) -> None:
    exact = np.array([[entry]], np.float32)
    rounded = round_items(exact)
    is_small = abs(entry) < MIN_ITEM_ENTRY
    # Half a unit of eight bits.
    assert abs(rounded - exact) <= (abs(entry) if is_small else abs(entry) * 2**-8)
    assert is_within_bounds(rounded)
    assert decode_items(encode_items(rounded), 1, 1) == rounded
    assert refuses(lambda _: encode_items(exact), b"") == (rounded != exact)


def test_ties_are_rounded_to_even() -> None:
    one, unit = 1.0, 2.0**-7
    ties = np.array([one + unit / 2, one + 3 * unit / 2, -one - unit / 2], np.float32)
    assert round_items(ties).tolist() == [one, one + 2 * unit, -one]


@given(st.binary(max_size=200) | damaged(MODEL_FILE))
def test_any_bytes_are_the_matrix_or_refused(data: bytes) -> None:
    refuses(decode, data)


# The panel's file: read strictly, written back the same.


SMALL_PANEL = Panel(bytes(range(32)), (Panellist((0, 4), 2, (1, 3)), Panellist((), MAX_ROW, (0,))))


def test_panel_round_trip() -> None:
    assert Panel.decode(SMALL_PANEL.encode()) == SMALL_PANEL
    counted = replace(SMALL_PANEL, touched=(0, 7, 0))
    assert Panel.decode(counted.encode()) == counted


PERSON_FIELDS: dict[str, object] = {"seen": [], "left": 1, "others": [2]}


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"catalogue": "00"},
        {"people": {}},
        {"people": []},
        {"people": [7]},
        {"people": [PERSON_FIELDS | {"others": 2}]},
        {"people": [PERSON_FIELDS | {"others": []}]},
        {"people": [PERSON_FIELDS | {"seen": [1]}]},
        {"people": [PERSON_FIELDS | {"others": [MAX_ROW + 1]}]},
        {"people": [PERSON_FIELDS | {"left": True}]},
        {"people": [PERSON_FIELDS | {"name": "she"}]},
        *({"touched": touched} for touched in (1, [-1], [0.5])),
        {"more": 1},
    ],
)
def test_invalid_panels_are_refused(change: dict[str, object]) -> None:
    content = {**json.loads(SMALL_PANEL.encode()), **change}
    assert refuses(Panel.decode, json.dumps(content).encode())
