"""The demo: invented people who report, what it learns from them, and how its curve is followed."""

import itertools
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from sottovoce.client import TermsError
from sottovoce.client.recommending import recommendations, wide_model
from sottovoce.client.reporting import make_batch
from sottovoce.core import draw_os_words
from sottovoce.data import load, synthetic_people
from sottovoce.data.synthetic import generate_people
from sottovoce.errors import UnavailableError
from sottovoce.protocol import Batch, Catalogue, Release, SignedManifest, Terms, open_reports
from sottovoce.protocol.panel import Panel, Panellist
from sottovoce.sandbox.demo import AT_ONCE, SENDING, DemoPlan, Reporters, follow, take_part
from sottovoce.sandbox.devices import PublicReader
from sottovoce.sandbox.system import PANEL, Child, invented_panel, server_toml
from sottovoce.sandbox.system import PEOPLE as ON_PANEL
from sottovoce.server.settings import ServerSettings
from sottovoce.server.setup import list_catalogue_items
from sottovoce.simulation import build_engine
from sottovoce.simulation.evaluation.panel import panel_popularity, panel_quality
from sottovoce.simulation.training import Trained, begin, train
from sottovoce.training import Settings
from tests.client.world import ITEMS, REPORTS, FakeProxy, World
from tests.processes import free_port
from tests.protocol.examples import signing_key
from tests.protocol.test_vectors import signed

OPENS, LENGTH = 1000, 100
"""Seconds: epoch e opens e - 1 lengths after the first."""


def times(epoch: int) -> dict[str, int]:
    opens = OPENS + (epoch - 1) * LENGTH
    return {"opens": opens, "closes": opens + LENGTH}


def proxy_of(world: World) -> FakeProxy:
    return FakeProxy(world, **times(1))


class Time:
    """Passes when somebody sleeps; at given moments something happens."""

    def __init__(self, now: float = OPENS) -> None:
        self.now = now
        self.slept: list[float] = []
        self.events: list[tuple[float, object]] = []

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0
        self.slept.append(seconds)
        self.now += seconds + 1e-6
        while self.events and self.events[0][0] <= self.now:
            _, event = self.events.pop(0)
            assert callable(event)
            event()


def played(
    world: World, people: Iterator[list[int]], count: int, time: Time, proxy: FakeProxy
) -> list[Batch]:
    """What a group sent until the training was finished."""
    key = world.verification_key
    take_part(proxy, key, lambda _: people, count, clock=time.clock, sleep=time.sleep)
    return [Batch.decode(data, REPORTS) for data in proxy.received]


def finish_at(proxy: FakeProxy, moment: float, epoch: int) -> tuple[float, object]:
    return moment, lambda: proxy.publish(proxy.world.signed(epoch, public_key=None, **times(epoch)))


def anybody() -> Iterator[list[int]]:
    return ([number % ITEMS] for number in itertools.count())


def test_new_people_report_in_every_epoch_spread_over_it() -> None:
    world, time = World(), Time()
    proxy = proxy_of(world)
    moments: list[float] = []
    proxy.after = lambda call: moments.append(time.now) if call == "send" else None
    time.events = [
        (OPENS + LENGTH, lambda: proxy.publish(world.signed(2, **times(2)))),
        finish_at(proxy, OPENS + 2 * LENGTH, 3),
    ]
    people = 2 * AT_ONCE + 3
    left = anybody()
    sent = played(world, left, people, time, proxy)
    assert next(left) == [2 * people % ITEMS], "nobody came twice"
    assert Counter(batch.epoch for batch in sent) == {1: people, 2: people}
    assert len({batch.id for batch in sent}) == 2 * people
    spread = SENDING * LENGTH * np.arange(people) / people
    assert moments[:people] == pytest.approx((OPENS + spread).tolist(), abs=0.1)
    counts = Counter(proxy.calls)
    assert (counts["model"], counts["catalogue"], counts["send"]) == (2, 1, 2 * people)


def test_a_busy_proxy_is_asked_again_with_the_same_bytes() -> None:
    world, time = World(), Time()
    proxy = proxy_of(world)
    refusals = itertools.chain([True, True], itertools.repeat(False))
    seen: list[str] = []

    def refuse(call: str) -> None:
        seen.append(call)
        if call == "send" and next(refusals):
            raise UnavailableError("429")

    proxy.before = refuse
    time.events = [finish_at(proxy, OPENS + LENGTH, 2)]
    assert len(played(world, anybody(), 2, time, proxy)) == 2
    assert seen.count("send") == 4


def test_worse_terms_are_not_reported_under() -> None:
    """What the first manifest asked for is what they agreed to."""
    world, time = World(), Time()
    proxy = proxy_of(world)
    time.events = [
        (OPENS + LENGTH, lambda: proxy.publish(world.signed(2, epsilon=3.0, **times(2))))
    ]
    with pytest.raises(TermsError):
        played(world, anybody(), 2, time, proxy)
    assert len(proxy.received) == 2


@pytest.mark.parametrize("how", ["by the proxy", "by the clock"])
def test_an_epoch_that_is_over_is_left(how: str) -> None:
    world, time = World(), Time()
    proxy = proxy_of(world)
    proxy.closed = how == "by the proxy"
    if not proxy.closed:
        time.now = OPENS + LENGTH + 1.0
    time.events = [finish_at(proxy, OPENS + LENGTH + 2.0, 2)]
    assert played(world, anybody(), 3, time, proxy) == []
    assert proxy.calls.count("send") == (1 if proxy.closed else 0)


def test_processes_that_fail_are_noticed() -> None:
    """A key that signed nothing: their first look at the proxy is an error."""
    with Reporters("not an address", bytes(32), DemoPlan()) as reporters:
        for process in reporters._processes:
            process.join(60)
        with pytest.raises(UnavailableError, match=r"\b1\b"):
            reporters.check()
    assert not any(process.is_alive() for process in reporters._processes)


def test_what_they_report_is_what_their_devices_would(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same coins: made together, as everybody's own."""
    world, time = World(), Time()
    proxy = proxy_of(world)
    time.events = [finish_at(proxy, OPENS + LENGTH, 2)]
    rows, signed = [[1, 2], [3], []], proxy.signed
    words = draw_os_words(len(rows), REPORTS)
    monkeypatch.setattr("sottovoce.sandbox.demo.draw_os_words", lambda *_: words)
    sent = played(world, iter(rows), len(rows), time, proxy)
    release = Release(signed, world.items(1), world.catalogue)
    for number, (batch, own) in enumerate(zip(sent, rows, strict=True)):
        made = make_batch(release, own, 0, lambda *_, n=number: words[[n]], os.urandom)
        alone = Batch.decode(made.batch, REPORTS)
        assert opened(batch, world, signed) == opened(alone, world, signed)


def opened(batch: Batch, world: World, signed: SignedManifest) -> list[int]:
    directions = signed.manifest.build().n_directions
    reports = open_reports(batch.sealed, world.epoch_keys[1], signed.hash, directions).reports
    found: list[int] = reports.tolist()
    return found


def test_people_without_end_are_the_synthetic_ones_each_in_one_part() -> None:
    histories = synthetic_people(4 * 256, 60, 7).histories
    known = [histories[person].tolist() for person in range(4 * 256)]
    parts = [generate_people(60, 7, part, 2) for part in (0, 1)]
    first, second = (list(itertools.islice(part, 2 * 256)) for part in parts)
    assert first[:256] + second[:256] + first[256:] + second[256:] == known


def catalogue_of(source: str) -> Catalogue:
    return Catalogue.from_items(list_catalogue_items(load(source)))


def test_the_panel_is_of_other_people_than_those_who_report() -> None:
    source = "synthetic:N=400,M=60,seed=7"
    catalogue = catalogue_of(source)
    people = synthetic_people(400, 60, 7)
    panel = invented_panel(source, catalogue, people)
    assert panel is not None
    assert (panel.catalogue, len(panel.people)) == (catalogue.hash, ON_PANEL)
    reporting = people.histories
    assert list(panel.touched) == reporting.popularity().tolist()
    known = {tuple(reporting[user].tolist()) for user in range(400)}
    tested = {tuple(sorted((*each.seen, each.left))) for each in panel.people}
    assert len(tested - known) > 0.9 * len(tested)
    assert invented_panel(source, catalogue, people) == panel
    other = invented_panel("synthetic:N=400,M=60,seed=8", catalogue, people)
    assert other != panel
    assert invented_panel("ml-latest-small", catalogue, people) is None, "real people are on none"
    assert len(panel.encode()) < 100_000


TESTED = Panel(
    bytes(32),
    tuple(Panellist((n,), n + 1, tuple(range(20, 40))) for n in range(9)),
    touched=(1, 2, 1, *[0] * (ITEMS - 3)),
)


def test_the_curve_is_what_the_panel_says_of_each_epoch() -> None:
    """A discarded epoch teaches nothing, and a proxy that is busy is asked again."""
    world, time = World(), Time()
    proxy = proxy_of(world)
    same = world.manifest(1, **times(1)).model
    busy = itertools.cycle([True, False, False, False, False])

    def refuse(_: str) -> None:
        if next(busy):
            raise UnavailableError("503")

    proxy.before = refuse
    time.events = [
        (OPENS + 5, lambda: proxy.publish(world.signed(2, model=same, **times(2)))),
        finish_at(proxy, OPENS + 9, 3),
    ]
    checked: list[int] = []
    found = follow(
        PublicReader(proxy, world.verification_key),
        TESTED,
        [lambda: checked.append(1)],
        lambda: time.now > OPENS + 20,
        sleep=time.sleep,
    )
    first, discarded, last = found
    assert [each.epoch for each in (first, discarded, last)] == [1, 2, 3]
    behind = proxy.signed.manifest.reports_behind // REPORTS
    assert (discarded.people, last.people) == (0, behind)
    published = Release(proxy.signed, world.items(3), world.catalogue)
    assert last.quality == panel_quality(wide_model(published), TESTED)
    unlearnt = replace(published, V=np.zeros_like(published.V))
    assert last.tags_alone == panel_quality(wide_model(unlearnt), TESTED) != last.quality
    assert last.popularity == panel_popularity(TESTED, world.catalogue.tags)
    assert len(checked) > 20


@pytest.mark.parametrize("quiet", [True, False])
def test_what_a_child_said_last_is_shown_when_it_ends(
    capfd: pytest.CaptureFixture[str], quiet: bool
) -> None:
    child = Child("proxy", ["proxy", "run", "--config", "nowhere.toml"], quiet=quiet)
    child.process.wait(60)
    with pytest.raises(UnavailableError, match=r"\b2\b"):
        child.check()
    assert capfd.readouterr().err.count("proxy | sottovoce: nowhere.toml") == 1


LEARNT = (0, 1, 5)
"""Epochs whose reports are behind a model: that of the second epoch has those of one."""
MOST_SHARED = 2
"""Of ten titles."""


@dataclass(frozen=True, eq=False)
class Demo:
    """Models as the demo publishes them, trained in this process."""

    settings: Settings
    catalogue: Catalogue
    models: dict[int, Trained]
    panel: Panel

    def release(self, learnt: int) -> Release:
        V, one = self.models[learnt].V, signed()
        manifest = replace(
            one.manifest,
            alpha=self.settings.alpha,
            regularization=self.settings.compute_user_ridge(V),
            reports_behind=self.models[learnt].n_reports,
        )
        return Release(SignedManifest.make(manifest, signing_key()), V, self.catalogue)

    def fan(self, genre: str, films: int) -> list[str]:
        """So many films of a genre that many have seen."""
        rows = np.argsort(-np.array(self.panel.touched), kind="stable").tolist()
        known = [self.catalogue.items[row] for row in rows]
        return [film.id for film in known if has(film.tags, genre)][:films]

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
    folder, plan = tmp_path_factory.mktemp("demo"), DemoPlan()
    plan.make(folder, free_port())
    server, epochs = ServerSettings.read(server_toml(folder)), max(LEARNT)
    settings = server.training
    assert settings == plan.training
    # Each of five times as many people in one epoch of five.
    some = replace(settings, epochs=epochs)
    people = synthetic_people(epochs * plan.people, plan.films, plan.seed).histories
    start = begin(some, plan.films)
    with build_engine("cpu", people, some) as engine:
        states = [start, *train(some, engine, start, row_limit=server.row_limit)]
    catalogue = Catalogue.decode(server.catalogue.read_bytes())
    models = {state.epochs_done: state for state in states}
    panel = Panel.decode((folder / "proxy" / PANEL).read_bytes())
    return Demo(settings, catalogue, models, panel)


def test_the_demo_protects_whoever_takes_part(tmp_path: Path) -> None:
    """In what a device promises its owner, and in every epoch, however many report."""
    plan = DemoPlan()
    plan.make(tmp_path / "demo", free_port())
    server = ServerSettings.read(server_toml(tmp_path / "demo"))
    terms = Terms.from_settings(bytes(16), server.training, server.terms, plan.films)
    promise = terms.promise()
    assert (terms.reports, terms.epochs, terms.share, terms.least_clients) == (1, 1, 1.0, 1)
    assert promise.local <= 10
    assert promise.alone <= 1
    assert terms.hold == 0, "nobody is charged for an epoch that ended early"
    assert server.training.half_life > 0


def test_whispers_are_better_than_genres_alone_by_the_fifth_epoch(demo: Demo) -> None:
    release = demo.release(5)
    alone = panel_quality(wide_model(release, tags_alone=True), demo.panel)
    assert panel_quality(wide_model(release), demo.panel) > alone + 0.05


def listed(release: Release, films: list[str], *, ordered: bool) -> list[str]:
    touched = {film: moment if ordered else 1 for moment, film in enumerate(films)}
    return [each.id for each in recommendations(release, touched, 10)]


@pytest.mark.parametrize(("films", "ordered"), [(3, True), (8, False)])
@pytest.mark.parametrize("learnt", LEARNT)
def test_a_horror_fan_and_a_childrens_fan_see_different_films(
    demo: Demo, learnt: int, films: int, ordered: bool
) -> None:
    release, lists = demo.release(learnt), {}
    for genre in ("Horror", "Children"):
        lists[genre] = listed(release, demo.fan(genre, films), ordered=ordered)
        assert len(lists[genre]) == 10
        assert demo.share(lists[genre], genre) >= (4 if learnt else 7)
    assert len({*lists["Horror"]} & {*lists["Children"]}) <= MOST_SHARED
