"""What the demo learns: taste beyond popularity, and lists that differ from the first minute on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from sottovoce.client.recommending import recommendations, wide_model
from sottovoce.protocol import Catalogue, Edition
from sottovoce.protocol.model import Panel
from sottovoce.sandbox.demo import FILMS, PEOPLE, DemoPlan
from sottovoce.sandbox.system import PANEL, server_toml
from sottovoce.server.settings import ServerSettings
from sottovoce.simulation import build_engine
from sottovoce.simulation.evaluation.panel import panel_popularity, panel_quality
from sottovoce.simulation.training import Trained, begin, train
from tests.processes import free_port
from tests.protocol.test_vectors import signed

if TYPE_CHECKING:
    from sottovoce.training import Settings

LEARNT = (0, 1, 2, 3, 4, 5)
"""Epochs whose reports are behind a model: that of the second epoch has those of one."""
MOST_SHARED = 3
"""Of ten titles."""


@dataclass(frozen=True, eq=False)
class Demo:
    """Models as the demo publishes them, trained in this process."""

    settings: Settings
    catalogue: Catalogue
    popularity: np.ndarray
    models: dict[int, Trained]
    panel: Panel
    least_clients: int
    """For so many an epoch waits."""

    def edition(self, learnt: int) -> Edition:
        V, one = self.models[learnt].V, signed()
        manifest = replace(
            one.manifest,
            alpha=self.settings.alpha,
            regularization=self.settings.user_ridge(V),
            reports_behind=self.models[learnt].n_reports,
        )
        return Edition(replace(one, manifest=manifest), V, self.catalogue)

    def fan(self, genre: str, place: int, films: int = 8) -> list[str]:
        """So many films of a genre that many have seen."""
        rows = np.argsort(-self.popularity, kind="stable").tolist()
        known = [self.catalogue.items[row] for row in rows]
        return [film.id for film in known if has(film.tags, genre)][place : place + films]

    def share(self, films: list[str], genre: str) -> int:
        """How many of these films have a genre."""
        numbers, items = self.catalogue.numbers, self.catalogue.items
        return sum(has(items[numbers[film]].tags, genre) for film in films)


def has(tags: object, genre: str) -> bool:
    assert isinstance(tags, dict)
    return genre in tags.get("genre", ())


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """With the settings that `sottovoce demo` writes for its server, and with its people."""
    folder, plan = tmp_path_factory.mktemp("demo"), DemoPlan.of(PEOPLE, FILMS, seed=0)
    plan.make(folder, free_port())
    server, histories = ServerSettings.read(server_toml(folder)), plan.histories
    settings = server.training
    assert settings == plan.training
    start = begin(settings, histories.n_items)
    with build_engine("cpu", histories, settings) as engine:
        some = replace(settings, epochs=max(LEARNT))
        states = [start, *train(some, engine, start)]
    catalogue = Catalogue.decode(server.catalogue.read_bytes())
    models = {state.epochs_done: state for state in states}
    panel = Panel.decode((folder / "proxy" / PANEL).read_bytes())
    return Demo(
        settings, catalogue, histories.popularity(), models, panel, server.terms.least_clients
    )


def test_popularity_is_passed_clearly_by_the_fifth_epoch(demo: Demo) -> None:
    popularity = panel_popularity(demo.panel, demo.catalogue.tags)
    assert popularity is not None
    assert panel_quality(wide_model(demo.edition(5)), demo.panel) > popularity + 0.03


def test_an_epoch_waits_for_everybody(demo: Demo) -> None:
    assert demo.least_clients == PEOPLE
    assert demo.settings.turns == demo.settings.epochs


def listed(edition: Edition, films: list[str], *, ordered: bool) -> list[str]:
    touched = {film: moment if ordered else 1 for moment, film in enumerate(films)}
    return [each.id for each in recommendations(edition, touched, 10)]


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("place", [0, 8])
@pytest.mark.parametrize("learnt", LEARNT)
def test_a_horror_fan_and_a_childrens_fan_see_different_films(
    demo: Demo, learnt: int, place: int, ordered: bool
) -> None:
    edition, lists = demo.edition(learnt), {}
    for genre in ("Horror", "Children"):
        lists[genre] = listed(edition, demo.fan(genre, place), ordered=ordered)
        assert len(lists[genre]) == 10
        assert demo.share(lists[genre], genre) >= 7
    assert len({*lists["Horror"]} & {*lists["Children"]}) <= MOST_SHARED


@pytest.mark.parametrize("learnt", LEARNT)
def test_three_films_are_enough_for_that(demo: Demo, learnt: int) -> None:
    """As many as a visitor chooses at first; the model of one epoch is still unsure."""
    shares: dict[str, list[int]] = {"Horror": [], "Children": []}
    for place in range(0, 15, 3):
        lists = {
            genre: listed(demo.edition(learnt), demo.fan(genre, place, 3), ordered=False)
            for genre in shares
        }
        assert len({*lists["Horror"]} & {*lists["Children"]}) <= MOST_SHARED
        for genre, own in shares.items():
            own.append(demo.share(lists[genre], genre))
    assert min(map(np.mean, shares.values())) >= (4 if learnt == 1 else 7)


def test_without_tags_they_would_see_the_same_at_first(demo: Demo) -> None:
    """What the tags are for: the first model is noise, and the same for everybody."""
    edition = demo.edition(0)
    plain = replace(
        edition, catalogue=Catalogue.of(replace(film, tags={}) for film in demo.catalogue.items)
    )
    horror, children = (
        listed(plain, demo.fan(genre, 0), ordered=False) for genre in ("Horror", "Children")
    )
    assert len({*horror} & {*children}) > MOST_SHARED
