"""The device's own interface: files that are read, what is promised, status and catalogue."""

from pathlib import Path

import pytest

from sottovoce.client import Client
from sottovoce.client.csv_import import read_history_csv
from sottovoce.errors import DataError, StoreError
from tests.client.world import COST, DAY, FakeProxy, World, charges, item


@pytest.mark.parametrize(
    ("content", "column"),
    [
        (b"item\na\nb\n", "item"),
        (b"\xef\xbb\xbfitem\r\na\r\nb\r\n", "item"),
        (b"when,movieId\n1,a\n\n2,b", "movieId"),
        (b'item,note\n"a","x, ""y""\nz"\nb,\n', "item"),
    ],
)
def test_column_of_a_csv_file_is_read(
    client: Client, tmp_path: Path, content: bytes, column: str
) -> None:
    path = tmp_path / "watched.csv"
    path.write_bytes(content)
    assert client.record_csv(path, column) == 2
    assert {"a", "b"} <= set(client.get_status().unknown_items)


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"", 0),
        (b"movie,when\na,1\n", 1),
        (b"item,item,when\na,b,1\n", 1),
        (b"item\na\n", 1),
        (b"item,when\na,1\nb\n", 3),
        (b"item,when\na,1\n,2\n", 3),
        (b"item,when\na,1\n" + b"x" * 513 + b",2\n", 3),
        (b'item,when\na,1\n"b\n', 3),
        (b'item,when\na,1\n"b"c,1\n', 3),
        *(
            (b"item,when\na,1\nb,2021-01-01\nc," + bad + b"\nd,1\n", 4)
            for bad in (b"soon", b"", b"nan", b"-Infinity", b"2021-13-01", b"0x10", b"12:30")
        ),
    ],
)
def test_error_in_a_file_names_its_line(
    client: Client, tmp_path: Path, content: bytes, line: int
) -> None:
    path = tmp_path / "watched.csv"
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        client.record_csv(path, time="when")
    assert (caught.value.path, caught.value.line) == (path, line)
    path.write_bytes(b"item,when\n\xff,1\n")
    for wrong in (tmp_path / "nowhere", tmp_path, path):
        with pytest.raises(DataError, match=wrong.name):
            client.record_csv(wrong)
    assert client.get_status().interactions == 3


# With a column that says when.
def watched(folder: Path, *lines: str) -> Path:
    path = folder / "watched.csv"
    path.write_text("\n".join(["when,item", *lines]) + "\n")
    return path


@pytest.mark.parametrize(
    ("lines", "moments"),
    [
        (["30,c", "1,a", "-2.5,z", "30,b"], [["z"], ["a"], ["c", "b"]]),
        (["1e9,b", "999999999.5,a", "1000000000,c"], [["a"], ["b", "c"]]),
        (["2021-03-04,b", "1999-12-31,a", "2021-03-04 00:00:00,c"], [["a"], ["b", "c"]]),
        (["2021-03-04T10:00:01,b", "2021-03-04 10:00,a"], [["a"], ["b"]]),
        (["2021-03-04T12:00:00+02:00,a", "2021-03-04T10:00:00Z,b"], [["a", "b"]]),
        (["1970-01-02T00:00:00Z,b", "86399,a", "86401,c"], [["a"], ["b"], ["c"]]),
        (["5,a", "", "6,b"], [["a"], ["b"]]),
        ([], []),
    ],
    ids=["numbers", "fractions", "dates", "times", "zones", "mixed", "an empty line", "nothing"],
)
def test_items_come_in_the_order_of_their_times(
    tmp_path: Path, lines: list[str], moments: list[list[str]]
) -> None:
    assert read_history_csv(watched(tmp_path, *lines), "item", "when") == moments


def test_recorded_file_keeps_the_order_of_times_only(client: Client, tmp_path: Path) -> None:
    """Place a file after everything that was recorded before, however old its times are."""
    client.record(["x"])
    path = watched(tmp_path, "2021-01-01,c", "2020-01-01,a", "2021-01-01,b", "2022-01-01,a")
    assert read_history_csv(path, "item") == [["c", "a", "b", "a"]]
    assert client.record_csv(path, time="when") == 3
    moments = client._store.history.get_moments()
    assert {name: moments[name] for name in "xabc"} == {"x": 2, "b": 4, "c": 4, "a": 5}
    files = b"".join(file.read_bytes() for file in (tmp_path / "client").iterdir())
    assert item(3).encode() in files
    assert b"2021-01-01" not in files


# The promise after other trainings: for everything spent so far and all that may follow.


EPOCHS = 2


class Lived:
    """A device that takes part in one training after the other, two epochs each."""

    def __init__(self, world: World, client: Client):
        self.world, self.client, self.epoch = world, client, 0
        self.proxy = FakeProxy(world)

    def training(self, number: int) -> None:
        """Ask for another training, from the next epoch on."""
        self.asked = {"training": bytes([number]) * 16, "epochs": EPOCHS}
        self._publish()

    def accept(self) -> None:
        self.client.accept(self.client.fetch_manifest(self.proxy).terms, 100 * COST)

    def report(self) -> str:
        self._publish()
        self.epoch += 1
        return self.client.sync(self.proxy).outcome

    def _publish(self) -> None:
        """Publish the next epoch."""
        self.world.now = (self.epoch + 1.5) * DAY
        self.proxy.publish(self.world.signed(self.epoch + 1, **self.asked))


@pytest.fixture
def lived(world: World, client: Client) -> Lived:
    return Lived(world, client)


def test_promise_holds_after_one_two_and_three_trainings(lived: Lived) -> None:
    client = lived.client
    client.set_limit(3 * COST)
    centrals = []
    for number, within in [(1, 2), (2, 1), (3, 0)]:
        lived.training(number)
        terms = client.fetch_manifest(lived.proxy).terms
        outlook = client.compute_outlook(terms)
        assert outlook.promise.local == number * EPOCHS * COST
        assert (outlook.turns_left, outlook.turns_within_limit) == (EPOCHS, within)
        centrals.append(outlook.promise.central)
        client.set_limit(100 * COST)
        lived.accept()
        for left in (1, 0):
            assert lived.report() == "sent"
            now = client.compute_outlook(terms)
            assert now.promise == outlook.promise
            assert (now.turns_left, now.turns_within_limit) == (left, left)
        spent = client.get_status().spent
        assert spent == outlook.promise.local
        client.set_limit(3 * COST)
    assert centrals == sorted(set(centrals))


def test_charge_records_rho_and_crowd_of_its_epoch(
    client: Client, proxy: FakeProxy, world: World, folder: Path
) -> None:
    terms = world.terms()
    client.sync(proxy)
    world.now += DAY
    proxy.publish(world.signed(2, min_clients=500))
    client.sync(proxy)
    assert [charge.clients for charge in charges(folder)] == [terms.min_clients, 500]
    assert {charge.loud_fraction for charge in charges(folder)} == {terms.loud_fraction}


# Status and catalogue.


def test_status_and_catalogue_before_and_after_a_sync(
    client: Client, proxy: FakeProxy, world: World
) -> None:
    client.record(["unheard of", item(3)])
    before = client.get_status()
    assert (before.epoch, before.epochs, before.in_catalogue) == (None, 0, 0)
    assert (before.spent, before.remaining, before.limit) == (0.0, 100.0, 100.0)
    for attempt in (client.list_catalogue, client.recommend):
        with pytest.raises(StoreError):
            attempt()
    client.sync(proxy)
    after = client.get_status()
    assert (after.interactions, after.in_catalogue, after.unknown_items) == (4, 3, ("unheard of",))
    assert (after.epoch, after.epochs, after.terms) == (1, 1, world.terms())
    assert (after.spent, after.problem, after.proxy_url) == (COST, None, "https://proxy.example")
    proxy.calls.clear()
    assert client.list_catalogue() == world.catalogue.items
    assert proxy.calls == []
