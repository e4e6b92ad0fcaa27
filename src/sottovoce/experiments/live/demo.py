"""Who reports in `sottovoce demo`, what is learnt from it, and why it is set up so."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from sottovoce.data import Interactions, synthetic_people
from sottovoce.data.synthetic import SYNTHETIC
from sottovoce.experiments.live.system import Sandbox
from sottovoce.model import Histories
from sottovoce.protocol import Catalogue
from sottovoce.server.setup import items_of
from sottovoce.training import Settings, planned

PEOPLE, FILMS = 2000, 1000
EPSILON = 8.0
"""Of a report: for a given budget, few loud reports teach most (`sottovoce.training.planning`)."""
REPORTS = 8
"""Of a person in an epoch."""
FACTORS, RIDGE = 8, 0.5
"""Fewer factors and more ridge than the plan for such loud reports: a visitor chooses three films
and asks in the first epochs. With a ridge of 0.1, five of the ten films for three horror films are
horror after five epochs, with this one 8.6; HR@10 falls from 0.482 to 0.473, and popularity has
0.407 (means of seeds 1000 and 1001)."""
EPOCHS = 20
EPOCH_SECONDS = 12
"""At least: a page looks for news every five seconds, and sends five seconds after it has decided
to, so a visitor has a chance in each."""
BEAT_SECONDS = 0.1
"""An epoch ends in a few of them."""
NOTICE = (
    "This is a demo. Everybody else who reports is invented, and so are the people that the model "
    "is tested on; the films are real. The budget is far larger than real people should be asked "
    "for: so small a crowd learns little from less."
)
TAG = "genre"
"""The kind of tags that films keep. Which years people like is left to be learnt."""


@dataclass(frozen=True, eq=False)
class DemoPlan:
    """Who reports in the demo, and what is learnt from it."""

    invented: Interactions
    epochs: int = EPOCHS
    epoch_seconds: int = EPOCH_SECONDS
    seed: int = 0

    @classmethod
    def of(cls, people: int, films: int, seed: int, **changes: int) -> "DemoPlan":
        return cls(synthetic_people(people, films, seed), seed=seed, **changes)

    @property
    def histories(self) -> Histories:
        return self.invented.histories

    @property
    def people(self) -> int:
        return self.histories.n_users

    @property
    def rows(self) -> list[list[int]]:
        return [self.histories[person].tolist() for person in range(self.people)]

    @cached_property
    def training(self) -> Settings:
        """Everybody takes part in every epoch, so that an epoch knows whom it waits for."""
        return planned(
            self.people,
            self.histories.n_items,
            history=self.histories.typical_length(),
            epsilon=EPSILON,
            reports=REPORTS,
            epochs=self.epochs,
            factors=FACTORS,
            ridge=RIDGE,
        )

    @property
    def cost(self) -> float:
        """What a person who takes part in all epochs spends."""
        return self.training.event(self.histories.n_items).pure

    def make(self, folder: Path, port: int) -> None:
        """Server and proxy, not running yet. An epoch ends when everybody has reported."""
        items = (
            replace(item, tags={kind: tag for kind, tag in item.tags.items() if kind == TAG})
            for item in items_of(self.invented)
        )
        Sandbox(
            Catalogue.of(items),
            self.training,
            self.people,
            self.epoch_seconds,
            port,
            data=f"{SYNTHETIC}:N={self.people},M={self.histories.n_items},seed={self.seed}",
            people=self.invented,
            known_people=self.people,
            beat=BEAT_SECONDS,
            proxy={("", "keep_models"): self.epochs + 1, ("page", "notice"): NOTICE},
        ).make(folder)
