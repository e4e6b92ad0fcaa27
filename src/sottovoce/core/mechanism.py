"""What a mechanism is: the rule by which one person's gradient becomes k reports of four bytes.

A report names a public direction in the space of gradients and a sign: `index << 1 | bit`, bit 1
for plus. A mechanism is eps-LDP for each report, by itself, whatever the history behind it.

Everything that differs by mechanism hangs on its class, in one file: its options, what the manifest
carries, the directions, the reports, the estimate, the privacy event, the gain and the constants
that an engine's kernel needs. All other code asks the class and never its name.

Randomness is an input. A client hands in `k + 1` draws of four 64-bit words: draw `j` makes report
`j` (word 0 the direction, word 1 the rounding, word 2 the coin, word 3 unused), the last draw
breaks ties. Live code takes them from the operating system, the simulator from a keyed generator;
the arithmetic is the same.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self, final

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import coin
from sottovoce.core.bounds import MOST_ALPHA, check_shape
from sottovoce.core.model import Histories
from sottovoce.errors import SettingsError
from sottovoce.privacy import SIGN, Reporting
from sottovoce.settings import Setting, check, stated

Float32 = NDArray[np.float32]
UInt32 = NDArray[np.uint32]

WORDS_PER_DRAW = 4
DIRECTION, ROUNDING, COIN = 0, 1, 2
"""Which word of a draw does what."""
MAX_DIRECTIONS = 1 << 31
"""An index and its bit must fit four bytes."""


@dataclass(frozen=True)
class Shape:
    """What every mechanism must know of the model."""

    n_items: int
    factors: int
    alpha: float
    """The paper's confidence: `c = 1 + alpha` on what the person touched, 1 elsewhere."""

    def __post_init__(self) -> None:
        check_shape(self.n_items, self.factors)
        if not 0 <= self.alpha <= MOST_ALPHA:
            raise SettingsError(f"alpha must be from 0 to {MOST_ALPHA:g}, got {self.alpha}")


@dataclass(frozen=True)
class Mechanism(ABC):
    """One way to report. Implementations are frozen and hold no data of anybody's.

    A field that a subclass adds is a public parameter: it stands in the manifest. One made by
    `setting` is an option, which the operator may set; `directions_seed` is always the training's
    seed.
    """

    shape: Shape
    epsilon: float
    """The budget of one report."""

    name: ClassVar[str]
    """As on the command line and in the manifest. An engine's kernel for it is the module of this
    name in the engine's folder `kernels`."""
    unpinned: ClassVar[tuple[str, ...]] = ("directions_seed",)
    """Public parameters that may change under agreed terms, because no promise depends on them."""
    example: ClassVar[Mapping[str, Any]] = {}
    """Options that fit any catalogue: for tests, and for an audit that counts every report."""
    usual: ClassVar[Mapping[str, Any]] = {}
    """Where the preset of this name differs from the defaults of `sottovoce.training.Settings`."""
    is_planned: ClassVar[bool] = True
    """Whether the planner sets factors and alpha where nobody names a budget."""

    def __post_init__(self) -> None:
        coin.checked_epsilon(self.epsilon)
        check(self)
        check_directions(self.n_directions)

    @classmethod
    def options(cls) -> dict[str, Setting]:
        """What the operator may set, besides the settings that every training has."""
        return stated(cls)

    @classmethod
    def public_names(cls) -> tuple[str, ...]:
        """The parameters that the manifest carries."""
        return tuple(each.name for each in fields(cls) if each.name not in ("shape", "epsilon"))

    @classmethod
    def build(cls, shape: Shape, epsilon: float, seed: int, options: Mapping[str, Any]) -> Self:
        """From a training's settings."""
        seeded = {"directions_seed": seed} if "directions_seed" in cls.public_names() else {}
        return cls(shape, epsilon, **seeded, **options)

    @classmethod
    def from_manifest(cls, shape: Shape, epsilon: float, public: Mapping[str, Any]) -> Self:
        """From the parameters in a manifest, which leaves nothing for a device to choose."""
        return cls(shape, epsilon, **public)

    def for_items(self, n_items: int) -> Self:
        """The same over a catalogue that has grown or shrunk; never louder."""
        return replace(self, shape=replace(self.shape, n_items=n_items))

    def published(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.public_names()}

    @classmethod
    def crowd_epsilon(cls, n_items: int) -> float:  # noqa: ARG003 - others depend on it
        """The epsilon of a report that serves best where the crowd's budget is what counts."""
        return 2.5

    @classmethod
    def crowd_fraction(cls, epsilon: float, n_items: int, history: float) -> float:  # noqa: ARG003
        """The loud fraction, at most, under `planned_options` for a crowd."""
        return SIGN

    @classmethod
    def planned_options(
        cls,
        shape: Shape,  # noqa: ARG003
        epsilon: float,  # noqa: ARG003
        history: float,  # noqa: ARG003
        given: Mapping[str, Any],  # noqa: ARG003
        *,
        louder: float,  # noqa: ARG003
    ) -> dict[str, Any]:
        """The options that serve best where a typical person touched so many items.

        What is given stays as it is. `louder` is how many times the usual directions may be loud.
        """
        return {}

    @property
    @abstractmethod
    def n_directions(self) -> int:
        """Indices lie below this."""

    @property
    @abstractmethod
    def loud_fraction(self) -> float:
        """rho, all that an accountant must know besides epsilon: see `sottovoce.privacy.events`.

        What it must mean: whatever the history, every report is at least `gamma` and at most
        `gamma e^eps` times as likely as under a uniform draw, gamma = 1 / (1 + rho (e^eps - 1)).
        """

    @property
    @abstractmethod
    def gain(self) -> float:
        """How much of a unit gradient one report carries."""

    @final
    def event(self, reports: int, epochs: int, dummies: int = 0) -> Reporting:
        """What so many reports in each of so many epochs do to a person, for the accountant."""
        return Reporting(self.epsilon, reports, epochs, self.loud_fraction, dummies)

    @abstractmethod
    def reports(
        self, V: Float32, X: Float32, histories: Histories, random_words: NDArray[np.uint64]
    ) -> UInt32:
        """N x k reports of N users with vectors X, from N x (k + 1) x 4 random words."""

    @abstractmethod
    def estimate(self, sums: NDArray[np.integer], n_reports: int) -> NDArray[np.float64]:
        """The server's M x F estimate of the mean gradient, from the sums of signs by index."""

    @abstractmethod
    def densities(self, V: Float32, X: Float32, histories: Histories) -> Float32:
        """How likely each report is under each history, relative to a uniform one: N x 2D.

        For audits and attacks. Ties are broken in a fixed order here, where a device draws one.
        """

    def constants(self, V: Float32) -> NamedTuple:
        """What its kernel needs of an epoch, computed once; the type names the kernel's input."""
        raise NotImplementedError(f"{self.name} has no kernel")


@dataclass(frozen=True)
class SignMechanism(Mechanism):
    """One whose report is the sign of something at a uniform index, through the coin."""

    @property
    def loud_fraction(self) -> float:
        """One of the two signs at each index."""
        return SIGN

    @property
    def gain(self) -> float:
        return coin.sign_gain(self.epsilon)

    @cached_property
    def flip_below(self) -> int:
        return coin.flip_threshold(self.epsilon)


def check_directions(n_directions: int) -> None:
    """Refuse a model whose directions do not fit a report."""
    if n_directions > MAX_DIRECTIONS:
        raise SettingsError(
            f"{n_directions} directions do not fit a four-byte report (at most {MAX_DIRECTIONS}): "
            "use fewer items or factors"
        )


def pack(index: NDArray[np.integer], plus: NDArray[np.bool_]) -> UInt32:
    """`index << 1 | bit`."""
    return (index.astype(np.uint32) << np.uint32(1)) | plus.astype(np.uint32)


def sign_densities(lean: Float32) -> Float32:
    """Of minus and plus at each index, N x 2D, where a sign leans by so much (N x D, -1 to 1)."""
    return np.stack([1 - lean, 1 + lean], axis=-1).reshape(len(lean), -1)


def count_reports(reports: UInt32, n_directions: int) -> NDArray[np.int64]:
    """How often each report came: number `index << 1 | bit`, so two numbers a direction."""
    found = np.bincount(reports.ravel(), minlength=2 * n_directions)
    if len(found) > 2 * n_directions:
        raise SettingsError(f"a report must name a direction up to {n_directions - 1}")
    return found.astype(np.int64)


def sums_of(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sums of signs by direction: all that a server keeps of its reports.

    >>> sums_of(np.array([0, 3, 2, 1]))
    array([ 3, -1])
    """
    return counts[1::2] - counts[::2]


def sum_signs(reports: UInt32, n_directions: int) -> NDArray[np.int64]:
    return sums_of(count_reports(reports, n_directions))


def os_words(n_users: int, reports: int) -> NDArray[np.uint64]:
    """What `Mechanism.reports` takes: N x (k + 1) x 4 words, asked for anew every time.

    From the operating system, and nowhere else. Nothing is buffered or seeded, so a forked process
    never repeats its parent's words.
    """
    shape = (n_users, reports + 1, WORDS_PER_DRAW)
    size = n_users * (reports + 1) * WORDS_PER_DRAW
    return np.frombuffer(os.urandom(8 * size), dtype=np.uint64).reshape(shape)
