"""What lies on a card by its name, and kernels that are told where."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sottovoce.core.bounds import LEAST_ENTRY, MOST_USER_ENTRY
from sottovoce.simulation.cuda.card import Buffer, Card
from sottovoce.simulation.people import (
    DROPPED,
    MULTIPLIERS,
    PIECES,
    REPORTS,
    RESAMPLED,
    ROUNDS,
    TURNS,
    WEYL,
)

# What a kernel is told: one struct of numbers and addresses, and the constants of its source.
#
# Stated here once, for numpy and for C alike: every field has eight bytes, so both lay them out the
# same way.


SOURCES = ("common.cuh", "people.cu", "solve.cu", "items.cu", "ranking.cu")
"""What every mechanism needs; its own comes after them."""
COUNTS = ("LOOKING", "QUIET", "CROWD", "NEXT_SOLVED", "NEXT_REPORTED", "DIVERGED")
"""The counters of an epoch: people by what they do, and the next ones in line."""
ROWS, ADDED, MOST_THREADS = 32, 128, 512
"""Rows of V that are read at once, for one person and for everybody; threads of a block."""
GROUP, BINS, NEAR, CLOSE, TIED, FINE, TOGETHER = 16, 4096, 1024, 64, 64, 256, 32
"""Of `loudest`: rows that are counted together, bins of magnitudes, directions near the border that
are kept, those next to it, those that tie, parts of the border, people whose rows are predicted
together."""
FIELDS = {
    "seed": "Word",
    "epoch": "Int",
    "epochs": "Int",
    "turns": "Int",
    "reports": "Int",
    "alpha": "double",
    "regularization": "double",
    "n_items": "Int",
    "n_directions": "Word",
    "n_signed": "Word",
    "threshold": "Word",
    "always_looks": "Int",
    # People
    "n_rows": "Int",
    "first": "Int",
    "made": "Int",
    "begin": "Int",
    "end": "Int",
    "longest": "Int",
    "chosen": "Int *",
    "indptr": "Int *",
    "indices": "int *",
    # The model
    "V": "float *",
    "G": "double *",
    "X": "float *",
    # The directions of `loudest`
    "loud": "Int",
    "block": "Int",
    "inner": "Int",
    "n_lines": "Int",
    "rows_on_card": "Int",
    "signs": "float *",
    "places": "int *",
    "item_at": "int *",
    "item_rows": "float *",
    "keys": "Int *",
    "by_block": "int *",
    "entries": "Word *",
    "segments": "Word *",
    "rows": "float *",
    "from": "Int",
    "to": "Int",
    "line_blocks": "Int",
    "predicted": "float *",
    # The next model
    "wide": "double *",
    "basis": "double *",
    "next_V": "float *",
    "most_entry": "double",
    "scale": "double",
    "rate": "double",
    "ridge": "double",
    "fade": "double",
    "steps": "Int",
    # What comes out
    "counts": "int *",
    "looking": "int *",
    "quiet": "int *",
    "sums": "int *",
    "kept": "UInt *",
    # Ranking
    "tests": "int *",
    "candidates": "int *",
    "n_candidates": "Int",
    "ranks": "int *",
}
_KINDS = {"Word": np.uint64, "Int": np.int64, "double": np.float64}
SETUP = np.dtype([(name, _KINDS.get(kind, np.uint64)) for name, kind in FIELDS.items()])


def new_setup(**values: Any) -> NDArray[np.void]:
    """One struct; what is not named is 0."""
    setup = np.zeros(1, SETUP)
    for name, value in values.items():
        setup[name] = value
    return setup


def solve_bytes(factors: int) -> int:
    """The struct `Equations` of solve.cu."""
    triangle, width = (factors + 1) * (factors + 2) // 2, factors + 2 - factors % 2
    return 16 * triangle + 8 * ROWS * width + 4 * ROWS + 8


def solve_threads(factors: int) -> int:
    """One for each two by two entries of the equations, in whole warps."""
    pairs = (factors + 2) // 2
    return min(-(-pairs * (pairs + 1) // 64) * 32, 256)


def gram_bytes(factors: int, threads: int) -> int:
    """Products of `ADDED` rows with as many factors as there are threads, at most."""
    return 8 * ADDED * min(factors, threads)


def padded(factors: int) -> int:
    """The power of two above it."""
    return 1 << factors.bit_length()


def room_bytes(factors: int) -> int:
    """The struct `Room` of loudest.cu, without the rows; rounded up."""
    by_factor = 24 * factors + 8 * padded(factors)
    return 4 * BINS + 4 * FINE + 8 * (CLOSE + TIED) + 8 * MOST_THREADS + by_factor + 192


def source(factors: int, own: str) -> str:
    """All kernels for models of so many factors, and those of a mechanism's own file."""
    constants = {
        "FACTORS": str(factors),
        "ROWS": str(ROWS),
        "ADDED": str(ADDED),
        "MOST_THREADS": str(MOST_THREADS),
        "GROUP": str(GROUP),
        "BINS": str(BINS),
        "NEAR": str(NEAR),
        "CLOSE": str(CLOSE),
        "TIED": str(TIED),
        "FINE": str(FINE),
        "TOGETHER": str(TOGETHER),
        "PADDED": str(padded(factors)),
        "ROUNDS": str(ROUNDS),
        "REPORTS": f"{REPORTS}ull",
        "TURNS": f"{TURNS}ull",
        "RESAMPLED": f"{RESAMPLED}ull",
        "DROPPED": f"{DROPPED}ull",
        "PIECES": str(PIECES),
        "MOST_USER_ENTRY": f"{MOST_USER_ENTRY!r}f",
        "LEAST_ENTRY": f"{LEAST_ENTRY!r}f",
    }
    constants |= {f"MULTIPLIER{n}": f"{value}ull" for n, value in enumerate(MULTIPLIERS)}
    constants |= {f"WEYL{n}": f"{value}ull" for n, value in enumerate(WEYL)}
    constants |= {name: str(n) for n, name in enumerate(COUNTS)}
    folder = files(__package__) / "source"
    return "\n".join(
        [
            *(f"#define {name} {value}" for name, value in constants.items()),
            "typedef unsigned long long Word;\ntypedef unsigned int UInt;\ntypedef long long Int;",
            "struct Setup {",
            *(f"    {kind} {name};" for name, kind in FIELDS.items()),
            "};",
            *((folder / name).read_text() for name in (*SOURCES, own)),
        ]
    )


WAVES = 8
"""Blocks of threads for each processor of a card: enough to hide that memory is slow."""


class Memory:
    """The fields of `Setup` as they are now: numbers, and arrays on the card."""

    def __init__(self, card: Card, **numbers: float):
        self.card = card
        self.numbers: dict[str, float] = numbers
        self._buffers: dict[str, Buffer] = {}

    def put(self, name: str, array: NDArray[Any]) -> None:
        """This array, copied."""
        self._buffers[name] = self.card.upload(np.ascontiguousarray(array))

    def make(self, name: str, size: int, kind: DTypeLike) -> None:
        """Zeros; one at least, so that there is an address."""
        self._buffers[name] = self.card.zeros(max(size, 1), kind)

    def drop(self, name: str) -> None:
        self._buffers.pop(name, None)

    def get(self, name: str) -> NDArray[Any]:
        """A copy of it, here."""
        return self.card.download(self._buffers[name])

    def sort(self, name: str) -> None:
        self.card.sort(self._buffers[name])

    def clear(self) -> None:
        self._buffers.clear()

    def count(self, name: str) -> int:
        """One of the counters."""
        return int(self.get("counts")[COUNTS.index(name)])

    def restart(self, name: str) -> None:
        """Set one of the counters to 0."""
        self._buffers["counts"][COUNTS.index(name)] = 0

    @property
    def blocks(self) -> int:
        """For kernels whose blocks take the next one in line until there is none."""
        return self.card.processors * WAVES

    def run(
        self,
        kernel: str,
        *,
        blocks: int | None = None,
        threads: int | None = None,
        shared: int = 0,
    ) -> None:
        """Launch it; nothing waits for its end but who reads what it wrote."""
        places = {name: self.card.address(buffer) for name, buffer in self._buffers.items()}
        values = {name: value for name, value in (self.numbers | places).items() if name in FIELDS}
        setup = self.card.upload(new_setup(**values).view(np.uint64))
        self.card.launch(kernel, blocks or self.blocks, threads or self.card.threads, shared, setup)
