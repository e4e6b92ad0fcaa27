"""Real processes that are killed: nothing acknowledged is lost.

A kill at every single commit is tried in `tests/proxy/test_proxy.py`, `tests/server/test_store.py`
and the lists of operations.
"""

import os
import time
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest

from tests.lacking import leave_out
from tests.nightly.live.processes import Sender, Site, open_sender, run_launcher
from tests.server import postgres

# `make nightly` kills more.
N_KILLS = int(os.environ.get("SOTTOVOCE_KILLS", "14"))


def check(site: Site, people: Sender, epochs: int) -> None:
    assert site.check(people.sent_batches) >= epochs
    assert people.sent_batches.count_acknowledged() > 10
    assert "Traceback" not in site.read_logs()


@pytest.mark.slow
@pytest.mark.parametrize(("many", "dummies"), [(False, 0), (False, 3), (True, 0)])
def test_killed_at_any_moment(folder: Path, many: bool, dummies: int) -> None:
    """Run one of each on SQLite, then three proxies with a worker each on PostgreSQL.

    After half of the kills, a training of names follows that of taste.
    """
    proxies = ("east", "middle", "west") if many else ("proxy",)
    workers = ("server-1", "server-2", "server-3") if many else ("server",)
    rng = Random(1)
    with ExitStack() as opened:
        database = None
        if many:
            try:
                database = opened.enter_context(postgres.run_postgres())
            except OSError as error:
                leave_out(f"many workers on PostgreSQL ({error})")
        site = Site(folder, proxies=proxies, workers=workers, database=database, dummies=dummies)
        launcher = opened.enter_context(run_launcher(site))
        people = opened.enter_context(open_sender(site))
        for part in (*workers, *proxies):
            launcher.start(part)
        people.wait_for_epochs(1)
        for number in range(N_KILLS):
            if number == N_KILLS // 2:
                people.wait_for_epochs(1)
                site.learn_names(workers)
            moment = time.monotonic() + rng.uniform(0.0, 0.8)
            people.send_until(lambda moment=moment: time.monotonic() > moment, "nothing")  # type: ignore[misc]
            part = rng.choice((*workers, *proxies))
            launcher.kill(part)
            launcher.start(part)
        people.wait_for_epochs(3)
        check(site, people, epochs=3)
        signed = people.fetch_manifest(proxies[0])
        assert signed is not None
        assert signed.manifest.terms.asks_for_names
