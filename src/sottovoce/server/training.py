"""A training of a service, and its terms for any number of items in the catalogue."""

import json
import os
from dataclasses import dataclass, replace
from typing import Literal, Self

from sottovoce.core import MECHANISMS, Mechanism, Shape
from sottovoce.protocol import Terms
from sottovoce.protocol.terms import TRAINING_ID_BYTES
from sottovoce.training import Participation, Settings


@dataclass(frozen=True)
class Training:
    """One training of a service."""

    number: int
    """Number of the training, counted from 1. The next epoch belongs to the latest training."""
    settings: Settings
    terms: Terms
    """The training's id and all that owners agree to, for a catalogue of `items` items."""
    items: int
    """Number of items when the training began. Options that were chosen for this number stay when
    the catalogue grows, because owners have agreed to them."""
    random_start: bool
    """Whether the first model is new: random, or that of a public start. Otherwise it comes from
    the previous training."""
    start: bytes | None = None
    """SHA-256 of the file of the public start; None if there is none."""

    @property
    def kind(self) -> Literal["names", "taste"]:
        """What the training learns: what people touch now, or what they like."""
        return "names" if self.terms.asks_for_names else "taste"

    @classmethod
    def create(
        cls,
        number: int,
        settings: Settings,
        participation: Participation,
        items: int,
        *,
        random_start: bool,
        start: bytes | None = None,
    ) -> Self:
        """Return a training with a new id."""
        # The id is random, so that no device takes the training of another service for this one.
        training_id = os.urandom(TRAINING_ID_BYTES)
        terms = Terms.from_settings(training_id, settings, participation, items)
        return cls(number, settings, terms, items, random_start, start)

    def update(self, settings: Settings, participation: Participation) -> Self:
        """Return the training with other settings and the same id."""
        terms = Terms.from_settings(self.terms.training, settings, participation, self.items)
        # Keep parameters that were derived from the same options. A later version of this program
        # may derive others, and devices would see other terms.
        if settings.options == self.settings.options:
            parameters, loud_fraction = self.terms.parameters, self.terms.loud_fraction
            terms = replace(terms, parameters=parameters, loud_fraction=loud_fraction)
        return replace(self, settings=settings, terms=terms)

    def build_mechanism(self, items: int) -> Mechanism:
        """Return the mechanism for a catalogue of `items` items."""
        shape = Shape(self.items, self.settings.factors, self.settings.alpha)
        kind = MECHANISMS[self.terms.mechanism]
        mechanism = kind.from_manifest(shape, self.terms.epsilon, self.terms.parameters)
        return mechanism.for_items(items)

    def make_terms(self, items: int) -> Terms:
        """Return the terms for a catalogue of `items` items.

        A device that has accepted `terms` never refuses them as worse.
        """
        return replace(self.terms, parameters=self.build_mechanism(items).public_parameters())

    def count_epochs_left(self, epochs_done: int) -> int:
        """Return the number of epochs left, for the manifest; 0 also if the training has no end."""
        # Without an end, a device takes part in each epoch with the probability `terms.share`.
        return 0 if self.settings.half_life else max(self.settings.epochs - epochs_done, 0)

    def has_epochs_left(self, epochs_done: int) -> bool:
        """Return whether to ask for more reports when `epochs_done` epochs have had some."""
        return bool(self.settings.half_life) or self.count_epochs_left(epochs_done) > 0

    def to_row(self) -> dict[str, object]:
        """Return the columns of the training's row."""
        return {
            "number": self.number,
            "settings": json.dumps(self.settings.as_dict(), sort_keys=True),
            "terms": json.dumps(self.terms.as_dict(), sort_keys=True),
            "items": self.items,
            "random_start": int(self.random_start),
            "start": self.start or b"",
        }

    @classmethod
    def from_row(
        cls, number: int, settings: str, terms: str, items: int, random_start: int, start: bytes
    ) -> Self:
        """Return the training of a row."""
        return cls(
            number,
            Settings.from_dict(json.loads(settings)),
            Terms.from_json(json.loads(terms)),
            items,
            bool(random_start),
            start or None,
        )
