"""Tests of the bytes that one client sends and receives."""

import numpy as np

from sottovoce.data import synthetic_people
from sottovoce.protocol import SEALED_BYTES, Catalogue, Item, batch_size, encode_items
from sottovoce_lab.paper.communication import measure_message_bytes


def test_sizes_are_those_of_the_encodings() -> None:
    people = synthetic_people(n_users=20, n_items=30, seed=0)
    sizes = measure_message_bytes(people, reports=7, factors=5)
    assert sizes["batch_sealed"] == batch_size(7) == 56 + 7 * SEALED_BYTES
    assert sizes["reports_unsealed"] == 28
    assert sizes["model"] == len(encode_items(np.ones((30, 5), np.float32)))
    assert sizes["model"] > 2 * 30 * 5
    items = [Item(*fields) for fields in people.list_items()]
    assert any(item.tags for item in items)
    assert sizes["catalogue_once"] == len(Catalogue.from_items(items).raw)
    assert 64 < sizes["manifest"] < 2000
