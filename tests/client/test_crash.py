"""Crashes at any step: an epoch has one batch, charged once and sent again byte for byte."""

import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from sottovoce.errors import ClosedError, SottovoceError, UnavailableError
from sottovoce.protocol import Batch
from sottovoce.protocol.tokens import Attestation
from tests.client.world import COST, DAY, REPORTS, FakeProxy, World, charges, item, sha
from tests.crash import UNLIMITED_STEPS, Life, MortalDatabase, PowerCut, make_mortal
from tests.sampling import choose


@pytest.fixture(autouse=True, scope="module")
def _mortal_databases() -> object:
    with pytest.MonkeyPatch.context() as patch:
        make_mortal(patch)
        yield


@contextmanager
def lasting(life: Life) -> Iterator[None]:
    """Databases live as long as this, and others come after."""
    MortalDatabase.life = life
    try:
        with suppress(PowerCut):
            yield
    finally:
        MortalDatabase.life = Life()


def sync_for(world: World, proxy: FakeProxy, folder: Path, steps: int) -> str | None:
    """Run the program until it ends or dies; return the outcome if it had one."""
    life = Life(steps)
    proxy.before = proxy.after = life.step
    outcome = None
    with lasting(life), world.open(folder) as client:
        outcome = client.sync(proxy, sleep=life.step, jitter=60, fetch_attestation=attest).outcome
    proxy.before = proxy.after = lambda call: None
    return outcome


def attest() -> bytes:
    return Attestation(bytes(32), 0, bytes(64)).encode()


def make(folder: Path) -> tuple[World, FakeProxy]:
    world = World()
    with world.create(folder) as client:
        client.record([item(1), item(2)])
    return world, FakeProxy(world)


def check(proxy: FakeProxy, folder: Path) -> None:
    """Check that what left was charged, with one batch and one charge an epoch."""
    distinct = set(proxy.received)
    purposes = [charge.purpose for charge in charges(folder)]
    assert {sha(batch) for batch in distinct} <= set(purposes)
    by_epoch = Counter(Batch.decode(batch, REPORTS).epoch for batch in distinct)
    assert all(count == 1 for count in by_epoch.values())
    assert all(n == 1 for n in Counter(charge.epoch for charge in charges(folder)).values())


def test_a_crash_after_every_step_of_a_sync(tmp_path: Path) -> None:
    died_sent = 0
    for steps in count():
        folder = tmp_path / str(steps)
        world, proxy = make(folder)
        outcome = sync_for(world, proxy, folder, steps)
        check(proxy, folder)
        died_sent += outcome is None and len(proxy.received) == 1
        second = sync_for(world, proxy, folder, UNLIMITED_STEPS)
        assert second in ("sent", "already sent")
        assert len(set(proxy.received)) == 1
        assert [charge.purpose for charge in charges(folder)] == [sha(proxy.received[0])]
        check(proxy, folder)
        if outcome is not None:
            assert (outcome, second) == ("sent", "already sent")
            break
    assert steps >= 15
    assert died_sent > 1  # after the batch arrived, before that was noted


def test_a_crash_after_every_step_of_fetching_a_token(tmp_path: Path) -> None:
    # A token that is lost costs nothing; one is lost only while its answer is on the way.
    lost = []
    for steps in count():
        world, folder = World(accounts=True), tmp_path / str(steps)
        world.create(folder).close()
        proxy = FakeProxy(world)
        outcome = sync_for(world, proxy, folder, steps)
        had_asked = "token" in proxy.calls
        assert sync_for(world, proxy, folder, UNLIMITED_STEPS) == "no token"
        world.now += DAY
        proxy.publish(world.signed(2))
        second = sync_for(world, proxy, folder, UNLIMITED_STEPS)
        assert second in ("sent", "no token")
        assert len(charges(folder)) == len(proxy.received) == (second == "sent")
        if second != "sent":
            assert had_asked
            lost.append(steps)
        if outcome is not None:
            break
    assert steps >= 12
    assert lost == list(range(lost[0], lost[0] + len(lost)))
    assert len(lost) <= 3, "the request has arrived, its answer is not stored"


def test_a_crash_after_every_step_of_creating(tmp_path: Path) -> None:
    for steps in count():
        folder, world, life = tmp_path / str(steps), World(), Life(steps)
        with lasting(life):
            world.create(folder, limit=50, accept=False).close()
        if life.left >= 0:
            break
        with suppress(SottovoceError):  # it may be there already
            world.create(folder, limit=50, accept=False).close()
        with world.open(folder) as client:
            status = client.get_status()
            assert (status.limit, status.spent, status.problem) == (50.0, 0.0, None)
    assert steps == 4  # one transaction for the history, which is empty, and one for all else


class Lifetime(RuleBasedStateMachine):
    """Epochs, crashes, silence, refusals, pauses, limits, forgetting, in any order."""

    @initialize()
    def begin(self) -> None:
        self.place = tempfile.TemporaryDirectory()
        self.folder = Path(self.place.name) / "client"
        self.world, self.proxy = make(self.folder)
        self.epoch = 1

    @rule(steps=st.integers(0, 17))
    def crash(self, steps: int) -> None:
        sync_for(self.world, self.proxy, self.folder, steps)

    @rule()
    def sync(self) -> None:
        sync_for(self.world, self.proxy, self.folder, UNLIMITED_STEPS)

    @rule(kind=st.sampled_from([UnavailableError, ClosedError]), arrived=st.booleans())
    def fail(self, kind: type[SottovoceError], arrived: bool) -> None:
        def refuse(call: str) -> None:
            if call == "send":
                raise kind("no")

        if arrived and kind is UnavailableError:
            self.proxy.after = refuse
        else:
            self.proxy.before = refuse
        with self.world.open(self.folder) as client, suppress(UnavailableError):
            client.sync(self.proxy)
        self.proxy.before = self.proxy.after = lambda call: None

    @rule(hours=st.sampled_from([12, 24, 48]))
    def time_passes(self, hours: int) -> None:
        self.world.now += hours * 3600
        self.epoch = min(int(self.world.now // DAY), 8)
        self.proxy.publish(self.world.signed(self.epoch))

    @rule(on=st.booleans())
    def pause(self, on: bool) -> None:
        with self.world.open(self.folder) as client:
            client.pause(on=on)

    @rule()
    def forget(self) -> None:
        with self.world.open(self.folder) as client:
            client.forget()

    @rule(limit=st.sampled_from([0.0, COST, 2 * COST, 100.0]))
    def set_limit(self, limit: float) -> None:
        with self.world.open(self.folder) as client:
            client.set_limit(limit)

    @invariant()
    def one_batch_an_epoch_and_paid_for(self) -> None:
        check(self.proxy, self.folder)

    def teardown(self) -> None:
        self.place.cleanup()


TestLifetime = Lifetime.TestCase
TestLifetime.settings = settings(
    max_examples=choose(by_day=12, at_night=250), stateful_step_count=20
)
