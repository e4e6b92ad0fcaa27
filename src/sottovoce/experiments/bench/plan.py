"""What every benchmark of an epoch is told: which mechanisms, with which settings, how often."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sottovoce.errors import SettingsError
from sottovoce.mechanism import MECHANISMS
from sottovoce.settings import check, setting
from sottovoce.training import Settings

if TYPE_CHECKING:
    from sottovoce.data import Interactions


@dataclass(frozen=True)
class EpochPlan:
    mechanisms: tuple[str, ...] = tuple(MECHANISMS)
    factors: int = 5
    epsilon: float = 2.5
    reports: int = 100
    repeats: int = setting(5, "rounds", least=1)
    seed: int = 0

    def __post_init__(self) -> None:
        check(self)
        unknown = set(self.mechanisms) - set(MECHANISMS)
        if unknown or not self.mechanisms:
            raise SettingsError(
                f"mechanisms must be some of {', '.join(MECHANISMS)}; got {list(self.mechanisms)}"
            )

    def settings(self) -> list[Settings]:
        """One for each mechanism, in order and without repeats."""
        return [
            Settings.preset(
                name,
                factors=self.factors,
                epsilon=self.epsilon,
                reports=self.reports,
                seed=self.seed,
            )
            for name in dict.fromkeys(self.mechanisms)
        ]


def about(data: Interactions) -> dict[str, Any]:
    """What a result says of the data that it was measured on."""
    return {key: data.summary()[key] for key in ("name", "users", "items", "interactions")}
