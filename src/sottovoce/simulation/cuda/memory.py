"""What lies on a card by its name, and kernels that are told where."""

from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sottovoce.core.bounds import MAX_USER_ENTRY, MIN_ITEM_ENTRY
from sottovoce.simulation.cuda.card import Buffer, CudaCard
from sottovoce.simulation.population import DROPPED_OF_65536, ITEMS_PER_DRAW
from sottovoce.simulation.random_words import (
    PHILOX_KEY_STEPS,
    PHILOX_MULTIPLIERS,
    PHILOX_ROUNDS,
    REPORTS_KEY,
    RESAMPLING_KEY,
    TURNS_KEY,
)

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
_STATED = (
    ("Word", "seed n_directions n_signed threshold"),
    ("Int", "epoch epochs turns reports n_items always_looks"),
    ("double", "alpha regularization"),
    # People
    ("Int", "n_rows first made begin end longest"),
    ("Int *", "chosen indptr"),
    ("int *", "indices"),
    # The model
    ("float *", "V X"),
    ("double *", "G"),
    # The directions of `loudest`
    ("Int", "loud block inner n_lines rows_on_card from to line_blocks"),
    ("float *", "signs item_rows rows predicted"),
    ("int *", "places item_at by_block"),
    ("Int *", "keys"),
    ("Word *", "entries segments"),
    # The next model
    ("double *", "wide basis"),
    ("float *", "next_V"),
    ("double", "most_entry scale rate ridge fade"),
    ("Int", "steps"),
    # What comes out
    ("int *", "counts looking quiet sums"),
    ("UInt *", "kept"),
    # Ranking
    ("int *", "tests candidates ranks"),
    ("Int", "n_candidates"),
)
"""What a kernel is told: one struct, stated once for numpy and for C. Every field has eight bytes,
so both lay them out the same way."""
FIELDS = {name: kind for kind, names in _STATED for name in names.split()}
_KINDS = {"Word": np.uint64, "Int": np.int64, "double": np.float64}
SETUP = np.dtype([(name, _KINDS.get(kind, np.uint64)) for name, kind in FIELDS.items()])


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
    whole = {"FACTORS": factors, "ROWS": ROWS, "ADDED": ADDED, "MOST_THREADS": MOST_THREADS}
    whole |= {"GROUP": GROUP, "BINS": BINS, "NEAR": NEAR, "CLOSE": CLOSE, "TIED": TIED}
    whole |= {
        "FINE": FINE,
        "TOGETHER": TOGETHER,
        "PADDED": padded(factors),
        "PHILOX_ROUNDS": PHILOX_ROUNDS,
    }
    whole |= {"ITEMS_PER_DRAW": ITEMS_PER_DRAW, **{name: n for n, name in enumerate(COUNTS)}}
    wide = {
        "REPORTS_KEY": REPORTS_KEY,
        "TURNS_KEY": TURNS_KEY,
        "RESAMPLING_KEY": RESAMPLING_KEY,
        "DROPPED_OF_65536": DROPPED_OF_65536,
    }
    wide |= {f"PHILOX_MULTIPLIER{n}": value for n, value in enumerate(PHILOX_MULTIPLIERS)}
    wide |= {f"PHILOX_KEY_STEP{n}": value for n, value in enumerate(PHILOX_KEY_STEPS)}
    single = {"MOST_USER_ENTRY": MAX_USER_ENTRY, "LEAST_ENTRY": MIN_ITEM_ENTRY}
    folder = files(__package__) / "source"
    return "\n".join(
        [
            *(f"#define {name} {value}" for name, value in whole.items()),
            *(f"#define {name} {value}ull" for name, value in wide.items()),
            *(f"#define {name} {value!r}f" for name, value in single.items()),
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

    def __init__(self, card: CudaCard, **numbers: float):
        self.card = card
        self.numbers: dict[str, float] = numbers
        self._buffers: dict[str, Buffer] = {}

    def put(self, name: str, array: NDArray[Any]) -> None:
        self._buffers[name] = self.card.upload(np.ascontiguousarray(array))

    def make(self, name: str, size: int, kind: DTypeLike) -> None:
        """Zeros; one at least, so that there is an address."""
        self._buffers[name] = self.card.zeros(max(size, 1), kind)

    def drop(self, name: str) -> None:
        self._buffers.pop(name, None)

    def get(self, name: str) -> NDArray[Any]:
        return self.card.download(self._buffers[name])

    def sort(self, name: str) -> None:
        self.card.sort(self._buffers[name])

    def clear(self) -> None:
        self._buffers.clear()

    def count(self, name: str) -> int:
        return int(self.get("counts")[COUNTS.index(name)])

    def restart(self, name: str) -> None:
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
        setup = np.zeros(1, SETUP)
        for name, value in (self.numbers | places).items():
            if name in FIELDS:
                setup[name] = value
        told = self.card.upload(setup.view(np.uint64))
        self.card.launch(kernel, blocks or self.blocks, threads or self.card.threads, shared, told)
