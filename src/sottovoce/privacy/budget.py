"""What a training costs each person, by pure composition: the number that holds whatever happens.

This is the local view: somebody can see every report and knows whose it is. Hiding in the shuffled
crowd makes it smaller; that is not counted here.
"""

from __future__ import annotations

from dataclasses import dataclass

WEAK_ABOVE = 100.0
"""A lifetime local budget beyond this protects nobody by itself."""


@dataclass(frozen=True)
class Budget:
    """One report costs epsilon, an epoch k of them, a training T of those. Always say all three.

    >>> Budget(epsilon=2.5, reports=100, epochs=20).training
    5000.0
    """

    epsilon: float
    reports: int
    epochs: int

    @property
    def epoch(self) -> float:
        """`k * eps`."""
        return self.epsilon * self.reports

    @property
    def training(self) -> float:
        """`T * k * eps`."""
        return self.epoch * self.epochs

    @property
    def weak(self) -> bool:
        """Whether the lifetime budget is too large to stand on."""
        return self.training > WEAK_ABOVE

    def as_dict(self) -> dict[str, object]:
        """For JSON; every figure is a local, pure epsilon."""
        return {
            "view": "local",
            "per_report": self.epsilon,
            "per_epoch": self.epoch,
            "training": self.training,
            "reports_per_epoch": self.reports,
            "epochs": self.epochs,
            "weak": self.weak,
        }

    def statement(self) -> str:
        """In words that a product owner can repeat."""
        sent = _count(self.reports, "report")
        rounds = _count(self.epochs, "epoch")
        out = (
            f"Each person sends {sent} of four bytes in each of {rounds}.\n"
            f"Local differential privacy: {self.epsilon:g} for a report, {self.epoch:g} for an "
            f"epoch, {self.training:g} for the whole training.\n"
            "Promised: whatever somebody touched, no set of her reports is more than "
            f"e^{self.training:g} times likelier than it would be for any other history.\n"
            "Not promised here: anything about the shuffle, which makes this far better when the "
            "proxy is honest, and anything about what a person does elsewhere."
        )
        if self.weak:
            out += (
                f"\nA lifetime local budget of {self.training:g} is weak: by itself it protects "
                "nobody, and no central figure is given to stand on."
            )
        return out


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}" + ("" if n == 1 else "s")
