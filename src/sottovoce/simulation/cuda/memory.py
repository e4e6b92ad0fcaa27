"""The memory of a card, by name, and the kernels that work on it."""

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

# Sources for every mechanism; its own source follows them.
COMMON_SOURCES = ("common.cuh", "people.cu", "solve.cu", "items.cu")
# Counters of an epoch: people whose reports depend on their history, the others, all who take part;
# the next person to solve and to report for; entries of V out of bounds.
COUNTER_NAMES = (
    "WITH_HISTORY",
    "WITHOUT_HISTORY",
    "CROWD",
    "NEXT_SOLVED",
    "NEXT_REPORTED",
    "DIVERGED",
)
# Rows of V that a block reads at once, for one person and for G.
ROWS_PER_STEP = 32
ROWS_PER_GRAM_STEP = 128
# Threads of a block, at most.
MAX_THREADS = 512
# For `loudest`: rows that are counted together, and bins of their magnitudes.
ROWS_PER_GROUP = 16
BIN_COUNT = 4096
# Lengths of the lists of directions in the bracket, next to the threshold and at it. If a list is
# too short, kernels compute its entries again.
MAX_NEAR = 1024
MAX_CLOSE = 64
MAX_TIED = 64
# Parts into which a bracket is divided.
BRACKET_PARTS = 256
# People whose rows are predicted together.
PEOPLE_PER_PREDICTION = 32
# The struct that a kernel gets, stated once for numpy and for C. Every field has eight bytes, so
# both have the same layout.
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
# Blocks of threads for each processor of a card: enough to hide that memory is slow.
BLOCKS_PER_PROCESSOR = 8
_NUMPY_TYPES = {"Word": np.uint64, "Int": np.int64, "double": np.float64}
SETUP_TYPE = np.dtype(
    [(name, _NUMPY_TYPES.get(kind, np.uint64)) for name, kind in SETUP_FIELDS.items()]
)


def compute_solve_bytes(factors: int) -> int:
    """Compute the size of the struct `Equations` of solve.cu."""
    triangle, width = (factors + 1) * (factors + 2) // 2, factors + 2 - factors % 2
    return 16 * triangle + 8 * ROWS_PER_STEP * width + 4 * ROWS_PER_STEP + 8


def choose_solve_threads(factors: int) -> int:
    """Return a thread for each two by two entries of the equations, in whole warps."""
    pairs = (factors + 2) // 2
    return min(-(-pairs * (pairs + 1) // 64) * 32, 256)


def compute_gram_bytes(factors: int, threads: int) -> int:
    """Compute the size of the products of one step, for at most one factor a thread."""
    return 8 * ROWS_PER_GRAM_STEP * min(factors, threads)


def pad_factors(factors: int) -> int:
    """Return the next power of two above."""
    return 1 << factors.bit_length()


def compute_scratch_bytes(factors: int) -> int:
    """Compute a bound of the size of the struct `Scratch` of loudest.cu, without its rows."""
    lists = 4 * BIN_COUNT + 4 * BRACKET_PARTS + 8 * (MAX_CLOSE + MAX_TIED) + 8 * MAX_THREADS
    return lists + 24 * factors + 8 * pad_factors(factors) + 192


def render_source(factors: int, mechanism_source: str) -> str:
    """Return the source of the common kernels and of those in the file of a mechanism."""
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
    """The present fields of `Setup`: numbers, and arrays on the card."""

    def __init__(self, card: CudaCard, **numbers: float):
        self.card = card
        self.numbers: dict[str, float] = numbers
        self._buffers: dict[str, Buffer] = {}

    def put(self, name: str, array: NDArray[Any]) -> None:
        self._buffers[name] = self.card.upload(np.ascontiguousarray(array))

    def make(self, name: str, size: int, kind: DTypeLike) -> None:
        """Allocate zeros."""
        # One at least, so that there is an address.
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
        """The number of blocks for kernels whose blocks take one person after the other."""
        return self.card.processors * BLOCKS_PER_PROCESSOR

    def run(
        self,
        kernel: str,
        *,
        blocks: int | None = None,
        threads: int | None = None,
        shared: int = 0,
    ) -> None:
        """Start a kernel. Only reading what it writes waits for its end."""
        addresses = {name: self.card.address(buffer) for name, buffer in self._buffers.items()}
        setup = np.zeros(1, SETUP_TYPE)
        for name, value in (self.numbers | addresses).items():
            if name in SETUP_FIELDS:
                setup[name] = value
        payload = self.card.upload(setup.view(np.uint64))
        self.card.launch(
            kernel, blocks or self.blocks, threads or self.card.threads, shared, payload
        )
