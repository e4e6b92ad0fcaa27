"""The base class of mechanisms: rules that turn a person's history into k reports of four bytes.

Most mechanisms are gradient mechanisms. Their reports name a public direction in the space of
gradients and a sign: `index << 1 | bit`, bit 1 for plus. A report of `named` names an item. Each
report is eps-LDP by itself, whatever the history behind it.

Everything that differs between mechanisms is in their classes, one file for each: options, what the
manifest carries, directions, reports, the estimate, the privacy event, the gain and the constants
for an engine's kernel. Other code asks the class and never compares names.

Randomness is an input: `k + 1` draws of four 64-bit words. Draw `j` makes report `j` (word 0 is for
the direction, word 1 for rounding, word 2 for the coin, word 3 is unused). The last draw breaks
ties. Live code gets the words from the operating system, the simulator from a keyed generator.
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
from sottovoce.core.bounds import MAX_ALPHA, check_shape
from sottovoce.core.histories import Histories
from sottovoce.errors import SettingsError
from sottovoce.privacy import COIN_RHO, Reporting
from sottovoce.settings import Setting, check, get_settings

Float32 = NDArray[np.float32]
UInt32 = NDArray[np.uint32]
Int64 = NDArray[np.int64]

WORDS_PER_DRAW = 4
# Positions of the words within a draw, by their use.
DIRECTION_WORD = 0
ROUNDING_WORD = 1
COIN_WORD = 2
# A report, `index << 1 | bit`, must fit into four bytes.
MAX_DIRECTIONS = 1 << 31


@dataclass(frozen=True)
class Shape:
    """The parameters of a model that every mechanism needs: its size and alpha."""

    n_items: int
    factors: int
    alpha: float
    """The paper's confidence: `c = 1 + alpha` for items that a person touched, 1 for others."""

    def __post_init__(self) -> None:
        check_shape(self.n_items, self.factors)
        if not 0 <= self.alpha <= MAX_ALPHA:
            raise SettingsError(f"alpha must be from 0 to {MAX_ALPHA:g}, got {self.alpha}")


@dataclass(frozen=True)
class Mechanism(ABC):
    """A way to report. Implementations are frozen and contain no personal data.

    A field that a subclass adds is a public parameter and part of the manifest. A field made by
    `setting` is an option that the operator may set. `directions_seed` is always the training's
    seed.
    """

    shape: Shape
    epsilon: float
    """Epsilon of one report."""

    name: ClassVar[str]
    """The name on the command line and in the manifest. An engine's kernel for this mechanism is in
    the module of the same name in the engine's folder `kernels`."""
    changeable_parameters: ClassVar[tuple[str, ...]] = ("directions_seed",)
    """Public parameters that may change after people have accepted the terms, because no promise
    depends on them."""
    example: ClassVar[Mapping[str, Any]] = {}
    """Options that are valid for any catalogue. Tests use them, and so does an audit that counts
    every report."""
    preset_settings: ClassVar[Mapping[str, Any]] = {}
    """Settings of this mechanism's preset that differ from the defaults of `training.Settings`."""
    asks_for_names: ClassVar[bool] = False
    """Whether reports name items. Such reports are made from the items that a person touched last,
    and the first column of the item matrix is the share of each item among the names."""
    is_planned: ClassVar[bool] = True
    """Whether the planner chooses factors and alpha if there is no budget."""

    def __post_init__(self) -> None:
        coin.check_epsilon(self.epsilon)
        check(self)
        check_directions(self.n_directions)

    @classmethod
    def options(cls) -> dict[str, Setting]:
        """Return the options by name. An operator may set them besides a training's settings."""
        return get_settings(cls)

    @classmethod
    def public_names(cls) -> tuple[str, ...]:
        """Return the names of the parameters that the manifest carries."""
        return tuple(field.name for field in fields(cls) if field.name not in ("shape", "epsilon"))

    @classmethod
    def build(cls, shape: Shape, epsilon: float, seed: int, options: Mapping[str, Any]) -> Self:
        """Build the mechanism from a training's settings."""
        # Not every mechanism has directions that depend on a seed.
        seeded = {"directions_seed": seed} if "directions_seed" in cls.public_names() else {}
        return cls(shape, epsilon, **seeded, **options)

    @classmethod
    def from_manifest(cls, shape: Shape, epsilon: float, public: Mapping[str, Any]) -> Self:
        """Build the mechanism from a manifest, whose parameters must be complete."""
        return cls(shape, epsilon, **public)

    def for_items(self, n_items: int) -> Self:
        """Return the mechanism for a catalogue of another size, with no larger loud fraction."""
        return replace(self, shape=replace(self.shape, n_items=n_items))

    def limit_items(self, n_items: int) -> int:
        """Return the largest catalogue, of at most `n_items` items, for which `for_items` works."""
        return n_items

    def public_parameters(self) -> dict[str, Any]:
        """Return the parameters that the manifest carries, by name."""
        return {name: getattr(self, name) for name in self.public_names()}

    @property
    @abstractmethod
    def n_directions(self) -> int:
        """The number of directions; indices are below it."""

    @property
    @abstractmethod
    def loud_fraction(self) -> float:
        """Rho, which accounting needs besides epsilon: see `sottovoce.privacy.events`.

        A mechanism must guarantee that every report is at least `gamma` and at most `gamma e^eps`
        times as likely as in a uniform draw, whatever the history. Here,
        gamma = 1 / (1 + rho (e^eps - 1)).
        """

    @final
    def event(self, reports: int, epochs: int, dummies: int = 0) -> Reporting:
        """Describe the reports of one person for the accountant.

        Args:
            reports: Reports of one person in each epoch.
            epochs: Epochs in which one person takes part.
            dummies: Uniform random reports in each epoch.
        """
        return Reporting(self.epsilon, reports, epochs, self.loud_fraction, dummies)

    @abstractmethod
    def reports(
        self, V: Float32, X: Float32, histories: Histories, random_words: NDArray[np.uint64]
    ) -> UInt32:
        """Make k reports for each of N users, N x k.

        Args:
            V: The item matrix, M x F.
            X: The user vectors, N x F.
            histories: The items that the users touched.
            random_words: N x (k + 1) x 4 random words; the module's docstring describes their use.
        """

    @property
    def n_sums(self) -> int:
        """The number of sums that the server keeps for an epoch: one for each direction."""
        return self.n_directions

    def to_sums(self, counts: Int64) -> Int64:
        """Return all that the server's estimate needs: the sum of signs of each direction.

        Args:
            counts: How often each of the `2 * n_directions` possible reports came
                (`count_reports`).
        """
        return sum_counts(counts)

    @abstractmethod
    def densities(self, V: Float32, X: Float32, histories: Histories) -> Float32:
        """Return the probability of each report, divided by its probability in a uniform draw.

        The result has a row for each user and a column for each of the `2 * n_directions` reports.
        It is for audits and simulated attacks. Ties are broken in a fixed order here, but at random
        on a device.
        """

    @property
    @abstractmethod
    def gain(self) -> float:
        """The expected agreement of one report with a unit gradient."""

    @abstractmethod
    def estimate(self, sums: NDArray[np.integer], n_reports: int) -> NDArray[np.float64]:
        """Estimate the mean gradient, M x F.

        Args:
            sums: Sum of the reported signs of each direction, dummies included.
            n_reports: Number of reports of people, without dummies.
        """

    def constants(self, V: Float32) -> NamedTuple:
        """Return the input of this mechanism's kernels for one epoch, as a named tuple."""
        raise NotImplementedError(f"{self.name} has no kernel")


@dataclass(frozen=True)
class SignMechanism(Mechanism):
    """A mechanism that reports a sign at a uniform index and flips it by a coin."""

    @property
    def loud_fraction(self) -> float:
        """Half of all reports: one of the two signs at each index."""
        return COIN_RHO

    @property
    def gain(self) -> float:
        return coin.compute_sign_gain(self.epsilon)

    @cached_property
    def flip_below(self) -> int:
        return coin.compute_flip_threshold(self.epsilon)


def check_directions(n_directions: int) -> None:
    """Raise SettingsError if a report cannot name this many directions."""
    if n_directions > MAX_DIRECTIONS:
        raise SettingsError(
            f"{n_directions} directions do not fit a four-byte report (at most {MAX_DIRECTIONS}): "
            "use fewer items or factors"
        )


def pack_reports(index: NDArray[np.integer], plus: NDArray[np.bool_]) -> UInt32:
    """Return reports `index << 1 | bit`, with bit 1 for plus."""
    return (index.astype(np.uint32) << np.uint32(1)) | plus.astype(np.uint32)


def compute_sign_densities(lean: Float32) -> Float32:
    """Return the densities of minus and plus at each index: two columns for each index.

    Args:
        lean: P[plus] - P[minus], from -1 to 1; it has a row for each user and a column for each
            index.
    """
    return np.stack([1 - lean, 1 + lean], axis=-1).reshape(len(lean), -1)


def count_reports(reports: UInt32, n_directions: int) -> Int64:
    """Return how often each report `index << 1 | bit` occurs: two numbers for each direction."""
    counts = np.bincount(reports.ravel(), minlength=2 * n_directions)
    # The result of `bincount` becomes longer if a report is too large.
    if len(counts) > 2 * n_directions:
        raise SettingsError(f"a report must name a direction up to {n_directions - 1}")
    return counts.astype(np.int64)


def sum_counts(counts: Int64) -> Int64:
    """Return the sum of signs of each direction: the reports of plus less those of minus.

    >>> sum_counts(np.array([0, 3, 2, 1]))
    array([ 3, -1])
    """
    # Odd numbers are reports of plus, even ones of minus (`pack_reports`).
    return counts[1::2] - counts[::2]


def sum_signs(reports: UInt32, n_directions: int) -> Int64:
    """Return the sum of signs of each direction over all reports."""
    return sum_counts(count_reports(reports, n_directions))


def draw_os_words(n_users: int, reports: int) -> NDArray[np.uint64]:
    """Draw the words for `Mechanism.reports` from the operating system: N x (k + 1) x 4."""
    # Nothing is buffered or seeded, so a forked process never repeats its parent's words.
    shape = (n_users, reports + 1, WORDS_PER_DRAW)
    size = n_users * (reports + 1) * WORDS_PER_DRAW
    return np.frombuffer(os.urandom(8 * size), dtype=np.uint64).reshape(shape)
