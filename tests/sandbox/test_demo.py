"""The demo: its processes, its panel, its curve, and what its model learns from its people."""

import itertools
from dataclasses import dataclass, replace

import numpy as np
import pytest

from sottovoce.client.recommending import build_wide_model, list_recommendations
from sottovoce.data import load, synthetic_people
from sottovoce.data.synthetic import SYNTHETIC, generate_people
from sottovoce.errors import UnavailableError
from sottovoce.protocol import Catalogue, Release, SignedManifest, Terms
from sottovoce.protocol.panel import Panel, Panellist
from sottovoce.sandbox.demo import DemoPlan, Reporters, follow_curve
from sottovoce.sandbox.people import PublicReader
from sottovoce.sandbox.processes import Child
from sottovoce.sandbox.setup import (
    PANEL_FILE,
    PANEL_PEOPLE,
    get_server_config,
    make_invented_panel,
)
from sottovoce.server.settings import ServerSettings
from sottovoce.server.setup import list_catalogue_items
from sottovoce.simulation import build_engine
from sottovoce.simulation.evaluation.panel import measure_on_panel, measure_popularity_on_panel
from sottovoce.simulation.start import read_start
from sottovoce.simulation.training import TrainingState, start_training, train
from tests.client.world import ITEMS, REPORTS
from tests.processes import free_port
from tests.protocol.examples import signing_key
from tests.protocol.test_vectors import signed
from tests.sandbox.test_people import FIRST_OPENS, Scene, times

# Titles that two lists of ten may share.
MAX_SHARED_TITLES = 2
# Epochs whose reports are behind a model: that of the second epoch has those of one.
LEARNT_EPOCHS = (0, 1, 5)


def test_notices_that_a_process_of_the_reporters_failed() -> None:
    with Reporters("not an address", bytes(32), DemoPlan()) as reporters:
        for process in reporters._processes:
            process.join(60)
        with pytest.raises(UnavailableError, match=r"\b1\b"):
            reporters.check()
    assert not any(process.is_alive() for process in reporters._processes)


@pytest.mark.parametrize("quiet", [True, False])
def test_prints_the_last_lines_of_a_child_that_ended(
    capfd: pytest.CaptureFixture[str], quiet: bool
) -> None:
    child = Child("proxy", ["proxy", "run", "--config", "nowhere.toml"], quiet=quiet)
    child.process.wait(60)
    with pytest.raises(UnavailableError, match=r"\b2\b"):
        child.check()
    assert capfd.readouterr().err.count("proxy | sottovoce: nowhere.toml") == 1


def test_people_without_end_are_the_synthetic_ones_in_parts() -> None:
    histories = synthetic_people(4 * 256, 60, 7).histories
    expected = [histories[person].tolist() for person in range(4 * 256)]
    parts = [generate_people(60, 7, part, 2) for part in (0, 1)]
    first, second = (list(itertools.islice(part, 2 * 256)) for part in parts)
    assert first[:256] + second[:256] + first[256:] + second[256:] == expected


def test_panel_has_other_people_than_those_who_report() -> None:
    source = "synthetic:N=400,M=60,seed=7"
    catalogue = Catalogue.from_items(list_catalogue_items(load(source)))
    people = synthetic_people(400, 60, 7)
    panel = make_invented_panel(source, catalogue, people)
    assert panel is not None
    assert (panel.catalogue, len(panel.people)) == (catalogue.hash, PANEL_PEOPLE)
    assert list(panel.touched) == people.histories.popularity().tolist()
    reporting = {tuple(people.histories[user].tolist()) for user in range(400)}
    tested = {tuple(sorted((*person.seen, person.left))) for person in panel.people}
    assert len(tested - reporting) > 0.9 * len(tested)
    assert make_invented_panel(source, catalogue, people) == panel
    assert make_invented_panel("synthetic:N=400,M=60,seed=8", catalogue, people) != panel
    assert make_invented_panel("ml-latest-small", catalogue, people) is None, "real people"
    assert len(panel.encode()) < 100_000


def test_curve_has_the_panels_numbers_for_each_epoch() -> None:
    panel = Panel(
        bytes(32),
        tuple(Panellist((n,), n + 1, tuple(range(20, 40))) for n in range(9)),
        touched=(1, 2, 1, *[0] * (ITEMS - 3)),
    )
    scene = Scene()
    world, time, proxy = scene.world, scene.time, scene.proxy
    # Every fifth request is refused, and tried again.
    busy = itertools.cycle([True, False, False, False, False])

    def refuse(_: str) -> None:
        if next(busy):
            raise UnavailableError("503")

    proxy.before = refuse
    scene.publish_at(FIRST_OPENS + 5, 2, model=world.manifest(1, **times(1)).model)
    scene.finish_at(FIRST_OPENS + 9, 3)
    checks: list[int] = []
    first, discarded, last = follow_curve(
        PublicReader(proxy, world.verification_key),
        panel,
        [lambda: checks.append(1)],
        lambda: time.now > FIRST_OPENS + 20,
        sleep=time.sleep,
    )
    assert [point.epoch for point in (first, discarded, last)] == [1, 2, 3]
    people = proxy.signed.manifest.reports_behind // REPORTS
    assert (discarded.people, last.people) == (0, people)
    release = Release(proxy.signed, world.items(3), world.catalogue)
    assert last.quality == measure_on_panel(build_wide_model(release), panel)
    untrained = replace(release, V=np.zeros_like(release.V))
    assert last.tags_only == measure_on_panel(build_wide_model(untrained), panel) != last.quality
    assert last.popularity == measure_popularity_on_panel(panel, world.catalogue.tags)
    assert len(checks) > 20


@dataclass(frozen=True, eq=False)
class Demo:
    """Models as the demo publishes them, trained in this process."""

    server: ServerSettings
    catalogue: Catalogue
    models: dict[int, TrainingState]
    panel: Panel

    def release(self, learnt: int) -> Release:
        V, example = self.models[learnt].V, signed()
        manifest = replace(
            example.manifest,
            alpha=self.server.training.alpha,
            regularization=self.server.training.compute_user_ridge(V),
            reports_behind=self.models[learnt].n_reports,
            start=DemoPlan().start.provenance,
        )
        return Release(SignedManifest.make(manifest, signing_key()), V, self.catalogue)

    def choose_films(self, genre: str, films: int) -> list[str]:
        """Return the most seen films of a genre."""
        rows = np.argsort(-np.array(self.panel.touched), kind="stable").tolist()
        by_popularity = [self.catalogue.items[row] for row in rows]
        return [film.id for film in by_popularity if has_genre(film.tags, genre)][:films]

    def count_genre(self, films: list[str], genre: str) -> int:
        numbers, items = self.catalogue.numbers, self.catalogue.items
        return sum(has_genre(items[numbers[film]].tags, genre) for film in films)


def has_genre(tags: object, genre: str) -> bool:
    assert isinstance(tags, dict)
    return genre in tags.get("genre", ())


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """Train with the settings that `sottovoce demo` writes for its server, and with its people."""
    folder, plan = tmp_path_factory.mktemp("demo"), DemoPlan()
    plan.set_up(folder, free_port())
    server, epochs = ServerSettings.read(get_server_config(folder)), max(LEARNT_EPOCHS)
    assert server.training == plan.training
    # The people of five epochs, each of whom takes part in one of five.
    settings = replace(server.training, epochs=epochs)
    people = synthetic_people(epochs * plan.people, plan.films, plan.seed).histories
    catalogue = Catalogue.decode(server.catalogue.read_bytes())
    assert server.start is not None
    V = read_start(server.start).select_items(catalogue.numbers)
    start = start_training(settings, plan.films, V)
    with build_engine("cpu", people, settings) as engine:
        states = [start, *train(settings, engine, start, row_limit=server.row_limit)]
    models = {state.epochs_done: state for state in states}
    panel = Panel.decode((folder / "proxy" / PANEL_FILE).read_bytes())
    return Demo(server, catalogue, models, panel)


def test_protects_everybody_who_takes_part(demo: Demo) -> None:
    server = demo.server
    terms = Terms.from_settings(bytes(16), server.training, server.terms, DemoPlan().films)
    promise = terms.promise()
    assert (terms.reports, terms.epochs, terms.share, terms.min_clients) == (1, 2, 1.0, 1)
    assert promise.local <= 10
    assert promise.dummies_only <= 1
    assert terms.hold == 0, "nobody is charged for an epoch that ended early"
    assert server.training.half_life > 0


@pytest.mark.parametrize("learnt", LEARNT_EPOCHS)
def test_lists_are_better_than_genres_and_popularity_before_and_after_reports(
    demo: Demo, learnt: int
) -> None:
    release = demo.release(learnt)
    quality = measure_on_panel(build_wide_model(release), demo.panel)
    assert quality > measure_on_panel(build_wide_model(release, tags_only=True), demo.panel) + 0.1
    assert quality > (measure_popularity_on_panel(demo.panel, release.catalogue.tags) or 1.0)


def test_reports_make_the_lists_of_the_start_better(
    demo: Demo, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The panel of the page is too small for this difference.
    monkeypatch.setattr("sottovoce.sandbox.setup.PANEL_PEOPLE", 2_000)
    plan = DemoPlan()
    panel = make_invented_panel(f"{SYNTHETIC}:M={plan.films}", demo.catalogue, plan.sample)
    assert panel is not None
    first, last = (measure_on_panel(build_wide_model(demo.release(n)), panel) for n in (0, 5))
    assert last > first + 0.01


@pytest.mark.parametrize("films", [3, 8])
@pytest.mark.parametrize("learnt", LEARNT_EPOCHS)
def test_lists_of_a_horror_fan_and_of_a_childrens_fan_differ(
    demo: Demo, learnt: int, films: int
) -> None:
    release, lists = demo.release(learnt), {}
    for genre in ("Horror", "Children"):
        chosen = demo.choose_films(genre, films)
        touched = dict.fromkeys(chosen, 1)  # the page keeps no order
        lists[genre] = [item.id for item in list_recommendations(release, touched, 10)]
        assert len(lists[genre]) == 10
        assert demo.count_genre(lists[genre], genre) >= 4
    assert len({*lists["Horror"]} & {*lists["Children"]}) <= MAX_SHARED_TITLES
