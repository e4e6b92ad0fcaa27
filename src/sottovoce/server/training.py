"""One training of a service: what devices agreed to, for any size that the catalogue may have."""

import json
import os
from dataclasses import dataclass, replace
from typing import Self

from sottovoce.core import MECHANISMS, Mechanism, Shape
from sottovoce.protocol import Terms
from sottovoce.protocol.terms import TRAINING_ID_BYTES
from sottovoce.training import Participation, Settings


@dataclass(frozen=True)
class Training:
    number: int
    """Counts from 1 at a service: the newest is the one that goes on."""
    settings: Settings
    terms: Terms
    """Its id, and all that owners agree to, as at a catalogue of `items`."""
    items: int
    """When it began. What was best for so many stays: devices have agreed to it."""
    random_start: bool
    """Whether its first model is random, and not that of the training before."""

    @classmethod
    def create(
        cls, number: int, settings: Settings, asked: Participation, items: int, *, anew: bool
    ) -> Self:
        terms = Terms.from_settings(os.urandom(TRAINING_ID_BYTES), settings, asked, items)
        return cls(number, settings, terms, items, anew)

    def update(self, settings: Settings, asked: Participation) -> Self:
        """The same training under what its operator asks for now.

        Only what the settings say themselves changes, never what was worked out from them once: a
        later version of this program may have other rules for that.
        """
        asks = Terms.from_settings(self.terms.training, settings, asked, self.items)
        if settings.options == self.settings.options:
            parameters, loud = self.terms.parameters, self.terms.loud_fraction
            asks = replace(asks, parameters=parameters, loud_fraction=loud)
        return replace(self, settings=settings, terms=asks)

    def build_mechanism(self, items: int) -> Mechanism:
        shape = Shape(self.items, self.settings.factors, self.settings.alpha)
        kind = MECHANISMS[self.terms.mechanism]
        begun = kind.from_manifest(shape, self.terms.epsilon, self.terms.parameters)
        return begun.for_items(items)

    def make_terms(self, items: int) -> Terms:
        """What a manifest says of it; no worse than `terms`, however many items there are."""
        return replace(self.terms, parameters=self.build_mechanism(items).public_parameters())

    def as_row(self) -> dict[str, object]:
        return {
            "number": self.number,
            "settings": json.dumps(self.settings.as_dict(), sort_keys=True),
            "terms": json.dumps(self.terms.as_dict(), sort_keys=True),
            "items": self.items,
            "anew": int(self.random_start),
        }

    @classmethod
    def from_row(cls, number: int, settings: str, terms: str, items: int, anew: int) -> Self:
        known = Settings.from_dict(json.loads(settings))
        return cls(number, known, Terms.from_json(json.loads(terms)), items, bool(anew))
