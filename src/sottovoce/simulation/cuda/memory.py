"""The named arrays and numbers on a graphics card, and the launch of kernels that use them."""

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
    REPORTS_PURPOSE,
    RESAMPLING_PURPOSE,
    TURNS_PURPOSE,
)

# The source files for every mechanism. The mechanism's own source file comes after them.
COMMON_SOURCES = ("common.cuh", "people.cu", "solve.cu", "items.cu")
# The counters of an epoch, in this order: participants whose reports depend on their history, the
# other participants, all participants; the next person whose vector is solved, the next person who
# reports; entries of V that are out of bounds.
COUNTER_NAMES = (
    "WITH_HISTORY",
    "WITHOUT_HISTORY",
    "CROWD",
    "NEXT_SOLVED",
    "NEXT_REPORTED",
    "DIVERGED",
)
# Number of rows of V that a block of threads reads at a time: for the equations of one person, and
# for G = V^T V.
ROWS_PER_STEP = 32
ROWS_PER_GRAM_STEP = 128
# The largest number of threads in a block.
MAX_THREADS = 512
# For `loudest`: the number of rows in a group, and the number of bins for their magnitudes.
ROWS_PER_GROUP = 16
BIN_COUNT = 4096
# For `loudest`: the lengths of three lists. They have the directions in the bracket (the interval
# that contains the threshold), the agreements close to the threshold, and the directions at the
# threshold. If a list is too short for all entries, kernels compute them again.
MAX_NEAR = 1024
MAX_CLOSE = 64
MAX_TIED = 64
# For `loudest`: the number of parts into which a bracket of the threshold is divided.
BRACKET_PARTS = 256
# For `loudest`: the number of people for whom one block computes predictions.
PEOPLE_PER_PREDICTION = 32
# The fields of the C struct `Setup`, the argument of every kernel. numpy's type of the struct is
# made from the same list. Every field has eight bytes, so both have the same layout.
_FIELD_GROUPS = (
    ("Word", "seed n_directions n_signed threshold"),
    ("Int", "epoch epochs turns reports n_items always_needs_history"),
    ("double", "alpha regularization"),
    # People
    ("Int", "n_rows first resampled begin end longest"),
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
    ("double", "max_entry scale rate ridge fade"),
    ("Int", "steps"),
    # The results
    ("int *", "counts with_history without_history sums"),
    ("UInt *", "reports_out"),
)
SETUP_FIELDS = {name: kind for kind, names in _FIELD_GROUPS for name in names.split()}
# Number of blocks of threads for each processor of a card. With several blocks, some can compute
# while others wait for memory.
BLOCKS_PER_PROCESSOR = 8
_NUMPY_TYPES = {"Word": np.uint64, "Int": np.int64, "double": np.float64}
SETUP_TYPE = np.dtype(
    [(name, _NUMPY_TYPES.get(kind, np.uint64)) for name, kind in SETUP_FIELDS.items()]
)


def compute_solve_bytes(factors: int) -> int:
    """Return the size in bytes of the struct `Equations` of solve.cu."""
    triangle, width = (factors + 1) * (factors + 2) // 2, factors + 2 - factors % 2
    return 16 * triangle + 8 * ROWS_PER_STEP * width + 4 * ROWS_PER_STEP + 8


def choose_solve_threads(factors: int) -> int:
    """Return the number of threads for one person: one for each tile of the equations.

    A tile has two by two entries. The number is rounded up to whole warps, and at most 256.
    """
    pairs = (factors + 2) // 2
    return min(-(-pairs * (pairs + 1) // 64) * 32, 256)


def compute_gram_bytes(factors: int, threads: int) -> int:
    """Return the bytes of the products that `compute_gram` has in memory in one step."""
    return 8 * ROWS_PER_GRAM_STEP * min(factors, threads)


def pad_factors(factors: int) -> int:
    """Return the smallest power of two above the number of factors."""
    return 1 << factors.bit_length()


def compute_scratch_bytes(factors: int) -> int:
    """Return an upper bound of the bytes of the struct `Scratch` of loudest.cu, without rows."""
    lists = 4 * BIN_COUNT + 4 * BRACKET_PARTS + 8 * (MAX_CLOSE + MAX_TIED) + 8 * MAX_THREADS
    return lists + 24 * factors + 8 * pad_factors(factors) + 192


def render_source(factors: int, mechanism_source: str) -> str:
    """Return the source code of the common kernels and of those of a mechanism."""
    numbers = {
        "FACTORS": factors,
        "PADDED_FACTORS": pad_factors(factors),
        "ROWS_PER_STEP": ROWS_PER_STEP,
        "ROWS_PER_GRAM_STEP": ROWS_PER_GRAM_STEP,
        "MAX_THREADS": MAX_THREADS,
        "ROWS_PER_GROUP": ROWS_PER_GROUP,
        "BIN_COUNT": BIN_COUNT,
        "MAX_NEAR": MAX_NEAR,
        "MAX_CLOSE": MAX_CLOSE,
        "MAX_TIED": MAX_TIED,
        "BRACKET_PARTS": BRACKET_PARTS,
        "PEOPLE_PER_PREDICTION": PEOPLE_PER_PREDICTION,
        "ROUNDS": PHILOX_ROUNDS,
        "ITEMS_PER_DRAW": ITEMS_PER_DRAW,
        **{name: index for index, name in enumerate(COUNTER_NAMES)},
    }
    words = {
        "REPORTS": REPORTS_PURPOSE,
        "TURNS": TURNS_PURPOSE,
        "RESAMPLED": RESAMPLING_PURPOSE,
        "DROPPED_OF_65536": DROPPED_OF_65536,
    }
    words |= {f"MULTIPLIER{n}": value for n, value in enumerate(PHILOX_MULTIPLIERS)}
    words |= {f"WEYL{n}": value for n, value in enumerate(PHILOX_KEY_STEPS)}
    floats = {"MAX_USER_ENTRY": MAX_USER_ENTRY, "MIN_ITEM_ENTRY": MIN_ITEM_ENTRY}
    folder = files(__package__) / "source"
    return "\n".join(
        [
            *(f"#define {name} {value}" for name, value in numbers.items()),
            *(f"#define {name} {value}ull" for name, value in words.items()),
            *(f"#define {name} {value!r}f" for name, value in floats.items()),
            "typedef unsigned long long Word;\ntypedef unsigned int UInt;\ntypedef long long Int;",
            "struct Setup {",
            *(f"    {kind} {name};" for name, kind in SETUP_FIELDS.items()),
            "};",
            *((folder / name).read_text() for name in (*COMMON_SOURCES, mechanism_source)),
        ]
    )


class Memory:
    """The present values of the fields of `Setup`: numbers, and arrays on the card.

    There are also numbers that are not fields of `Setup`; kernels do not get them.
    """

    def __init__(self, card: CudaCard, **numbers: float):
        self.card = card
        self.numbers: dict[str, float] = numbers
        self._buffers: dict[str, Buffer] = {}

    def put(self, name: str, array: NDArray[Any]) -> None:
        self._buffers[name] = self.card.upload(np.ascontiguousarray(array))

    def make(self, name: str, size: int, kind: DTypeLike) -> None:
        """Allocate an array of zeros under this name."""
        # At least one element, so that the array has an address.
        self._buffers[name] = self.card.zeros(max(size, 1), kind)

    def drop(self, name: str) -> None:
        self._buffers.pop(name, None)

    def get(self, name: str) -> NDArray[Any]:
        return self.card.download(self._buffers[name])

    def sort(self, name: str) -> None:
        self.card.sort(self._buffers[name])

    def clear(self) -> None:
        self._buffers.clear()

    def get_count(self, name: str) -> int:
        return int(self.get("counts")[COUNTER_NAMES.index(name)])

    def reset_count(self, name: str) -> None:
        self._buffers["counts"][COUNTER_NAMES.index(name)] = 0

    @property
    def blocks(self) -> int:
        """The number of blocks of a kernel in which each block takes one person after another."""
        return self.card.processors * BLOCKS_PER_PROCESSOR

    def run(
        self,
        kernel: str,
        *,
        blocks: int | None = None,
        threads: int | None = None,
        shared: int = 0,
    ) -> None:
        """Start a kernel without waiting for its end; `get` waits for it.

        Args:
            kernel: The name of the kernel.
            blocks: The number of blocks of threads; None for `self.blocks`.
            threads: The number of threads in each block; None for `card.threads`.
            shared: Bytes of memory that the threads of a block share.
        """
        addresses = {name: self.card.address(buffer) for name, buffer in self._buffers.items()}
        setup = np.zeros(1, SETUP_TYPE)
        for name, value in (self.numbers | addresses).items():
            if name in SETUP_FIELDS:
                setup[name] = value
        payload = self.card.upload(setup.view(np.uint64))
        self.card.launch(
            kernel, blocks or self.blocks, threads or self.card.threads, shared, payload
        )
