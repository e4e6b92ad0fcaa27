"""`loudest` on a card."""

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import Histories
from sottovoce.core.loudest import Loudest
from sottovoce.simulation.cuda.memory import GROUP, TOGETHER, Memory, room_bytes

SOURCE = "loudest.cu"
SORTED_AT_ONCE = 1 << 26
"""Entries whose order is found at once, 8 bytes each."""
PREDICTED = 1 << 28
"""Numbers that lie on the card between two kernels: a gigabyte."""


def allocate(memory: Memory, mechanism: Loudest, histories: Histories) -> None:
    blocks = mechanism.blocks
    item_at = np.full(blocks.rows, -1, np.int32)
    item_at[blocks.places] = np.arange(histories.n_items)
    memory.numbers |= {
        "threshold": mechanism.blanket_below,
        "always_looks": 0,
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
    longest, groups = int(memory.numbers["longest"]), -(-blocks.rows // GROUP)
    for name in ("entries", "segments"):
        memory.make(name, memory.blocks * longest, np.uint64)
    rest = blocks.rows + -(-blocks.rows // 4) + groups + 1
    fixed = room_bytes(mechanism.shape.factors)
    on_card = fixed + 4 * rest > memory.card.shared_bytes
    at_once = max(PREDICTED // blocks.rows, 1)
    memory.numbers |= {
        "rows_on_card": on_card,
        "room": fixed + (0 if on_card else 4 * rest),
        "line_blocks": -(-blocks.rows // memory.card.threads),
        "at_once": at_once,
    }
    memory.make("predicted", at_once * blocks.rows, np.float32)
    if on_card:
        memory.make("rows", memory.blocks * rest, np.float32)


def _order_by_block(memory: Memory, histories: Histories) -> None:
    """Everybody's entries in the order of blocks, and within one of items."""
    memory.make("by_block", histories.n_interactions, np.int32)
    begin, indptr = 0, histories.indptr
    while begin < histories.n_users:
        most = np.searchsorted(indptr, indptr[begin] + SORTED_AT_ONCE, "right") - 1
        end = max(int(most), begin + 1)
        memory.numbers |= {"begin": begin, "end": end}
        memory.make("keys", int(indptr[end] - indptr[begin]), np.int64)
        memory.run("fill_keys")
        memory.sort("keys")
        memory.run("fill_by_block")
        begin = end
    memory.drop("keys")


def prepare(memory: Memory, mechanism: Loudest, V: NDArray[np.float32]) -> None:  # noqa: ARG001
    memory.run("fill_item_rows", **_by_factor(mechanism))


def report(memory: Memory) -> None:
    memory.run("report_quiet")
    numbers, looking = memory.numbers, memory.count("LOOKING")
    for start in range(0, looking, int(numbers["at_once"])):
        end = min(start + int(numbers["at_once"]), looking)
        numbers |= {"from": start, "to": end}
        memory.restart("NEXT_REPORTED")
        people = -(-(end - start) // TOGETHER)
        memory.run(
            "predict",
            blocks=people * int(numbers["line_blocks"]),
            shared=4 * TOGETHER * int(numbers["factors"]),
        )
        memory.run("report_loudest", shared=int(numbers["room"]))


def sums_by_item(memory: Memory, mechanism: Loudest, n_reports: int) -> float:
    memory.run("sums_by_item", **_by_factor(mechanism))
    return mechanism.blocks.length / (n_reports * mechanism.gain)


def _by_factor(mechanism: Loudest) -> dict[str, int]:
    """A block of threads for each block of items and each factor."""
    return {"blocks": mechanism.n_directions // mechanism.block, "shared": 8 * mechanism.block}
