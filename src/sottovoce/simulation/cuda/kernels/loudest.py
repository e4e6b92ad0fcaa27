"""The reports of `loudest`, computed on a graphics card."""

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import Histories
from sottovoce.core.loudest import Loudest
from sottovoce.simulation.cuda.memory import (
    PEOPLE_PER_PREDICTION,
    ROWS_PER_GROUP,
    Memory,
    compute_scratch_bytes,
)

SOURCE = "loudest.cu"
# The largest number of keys that are sorted at a time, 8 bytes each.
MAX_SORTED_ENTRIES = 1 << 26
# The largest number of predictions that are on the card at the same time: a gigabyte.
MAX_PREDICTED_NUMBERS = 1 << 28


def allocate(memory: Memory, mechanism: Loudest, histories: Histories) -> None:
    blocks = mechanism.blocks
    item_at = np.full(blocks.rows, -1, np.int32)
    item_at[blocks.places] = np.arange(histories.n_items)
    memory.numbers |= {
        "threshold": mechanism.blanket_below,
        "always_needs_history": 0,
        "loud": mechanism.loud,
        "block": mechanism.block,
        "inner": len(blocks.inner_signs),
        "n_lines": blocks.rows,
    }
    memory.put("signs", blocks.signs)
    memory.put("places", blocks.places.astype(np.int32))
    memory.put("item_at", item_at)
    memory.make("item_rows", mechanism.n_directions, np.float32)
    _order_by_block(memory, histories)
    longest, groups = int(memory.numbers["longest"]), -(-blocks.rows // ROWS_PER_GROUP)
    for name in ("entries", "segments"):
        memory.make(name, memory.blocks * longest, np.uint64)
    row_numbers = blocks.rows + -(-blocks.rows // 4) + groups + 1
    scratch_bytes = compute_scratch_bytes(mechanism.shape.factors)
    on_card = scratch_bytes + 4 * row_numbers > memory.card.shared_bytes
    people_per_launch = max(MAX_PREDICTED_NUMBERS // blocks.rows, 1)
    memory.numbers |= {
        "rows_on_card": on_card,
        "shared_bytes": scratch_bytes + (0 if on_card else 4 * row_numbers),
        "line_blocks": -(-blocks.rows // memory.card.threads),
        "people_per_launch": people_per_launch,
    }
    memory.make("predicted", people_per_launch * blocks.rows, np.float32)
    if on_card:
        memory.make("rows", memory.blocks * row_numbers, np.float32)


def _order_by_block(memory: Memory, histories: Histories) -> None:
    """Sort the entries of each history by block, and by item within a block."""
    memory.make("by_block", histories.n_interactions, np.int32)
    begin, indptr = 0, histories.indptr
    while begin < histories.n_users:
        last = np.searchsorted(indptr, indptr[begin] + MAX_SORTED_ENTRIES, "right") - 1
        end = max(int(last), begin + 1)
        memory.numbers |= {"begin": begin, "end": end}
        memory.make("keys", int(indptr[end] - indptr[begin]), np.int64)
        memory.run("fill_keys")
        memory.sort("keys")
        memory.run("fill_by_block")
        begin = end
    memory.drop("keys")


def prepare(memory: Memory, mechanism: Loudest, V: NDArray[np.float32]) -> None:  # noqa: ARG001
    memory.run("fill_item_rows", **_get_block_launch(mechanism))


def report(memory: Memory) -> None:
    memory.run("report_without_history")
    numbers, n_people = memory.numbers, memory.get_count("WITH_HISTORY")
    for start in range(0, n_people, int(numbers["people_per_launch"])):
        end = min(start + int(numbers["people_per_launch"]), n_people)
        numbers |= {"from": start, "to": end}
        memory.reset_count("NEXT_REPORTED")
        people = -(-(end - start) // PEOPLE_PER_PREDICTION)
        memory.run(
            "predict_rows",
            blocks=people * int(numbers["line_blocks"]),
            shared=4 * PEOPLE_PER_PREDICTION * int(numbers["factors"]),
        )
        memory.run("report_loudest", shared=int(numbers["shared_bytes"]))


def sum_by_item(memory: Memory, mechanism: Loudest, n_reports: int) -> float:
    memory.run("sum_by_item", **_get_block_launch(mechanism))
    return mechanism.blocks.length / (n_reports * mechanism.gain)


def _get_block_launch(mechanism: Loudest) -> dict[str, int]:
    """Return launch arguments with one block of threads for each item block and factor."""
    return {"blocks": mechanism.n_directions // mechanism.block, "shared": 8 * mechanism.block}
