"""The ledger: exact, append-only, and never below what was acknowledged, wherever it is cut off."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Self

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sottovoce.errors import BudgetExceededError, LedgerError, SettingsError, SottovoceError
from sottovoce.privacy.ledger import (
    LONGEST,
    Charge,
    Disk,
    Entry,
    Head,
    Ledger,
    Limit,
    rounded_up,
)


def purpose(name: object) -> bytes:
    return hashlib.sha256(repr(name).encode()).digest()


def batch(name: object, epsilon: float = 2.5, reports: int = 4) -> Charge:
    return Charge(7, purpose(name), "loudest", epsilon, reports)


def head_of(path: Path) -> Path:
    return path.with_name(path.name + ".head")


class FastDisk(Disk):
    """For tests that cut no power: real files, never synced."""

    def sync(self, file: io.FileIO) -> None:
        pass

    def sync_folder(self, folder: Path) -> None:
        pass


FAST = FastDisk()


class PowerCut(BaseException):
    """No error of the program: its end."""


class MortalDisk(FastDisk):
    """Does `calls` things, and nothing ever after: not even cleaning up.

    Of the write that it dies in, the first `torn` bytes arrive.
    """

    def __init__(self, calls: int, torn: int = 0):
        self.left = calls
        self.torn = torn

    def live(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise PowerCut

    def write(self, file: io.FileIO, content: bytes) -> None:
        if self.left == 0:
            super().write(file, content[: self.torn])
        self.live()
        super().write(file, content)

    def truncate(self, file: io.FileIO, size: int) -> None:
        self.live()
        super().truncate(file, size)

    def sync(self, file: io.FileIO) -> None:
        self.live()

    def sync_folder(self, folder: Path) -> None:
        self.live()

    def replace(self, source: Path, target: Path) -> None:
        self.live()
        super().replace(source, target)

    def link(self, source: Path, target: Path) -> None:
        self.live()
        super().link(source, target)

    def remove(self, path: Path) -> None:
        self.live()
        super().remove(path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger"


@pytest.fixture
def log(path: Path) -> Path:
    """Six records, closed."""
    with Ledger.create(path, 100, disk=FAST) as ledger:
        for name in range(3):
            ledger.charge(batch(name))
        ledger.set_limit(50)
        ledger.charge(batch("last", 0.1, 3))
    return path


def files_in(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


def refused(path: Path, match: str | None = None) -> None:
    before = files_in(path.parent)
    with pytest.raises(LedgerError, match=match):
        Ledger.open(path, disk=FAST)
    assert files_in(path.parent) == before


# The account.


def test_the_bytes_are_those_of_the_docstring(path: Path) -> None:
    with Ledger.create(path, 50) as ledger:
        ledger.charge(Charge(7, bytes(range(32)), "loudest", 2.5, 4))
    first = b'{"record":1,"limit":50.0,"previous":"sottovoce-ledger-1"'
    one = hashlib.sha256(first).hexdigest()
    second = (
        b'{"record":2,"charge":{"epoch":7,"purpose":'
        b'"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",'
        b'"mechanism":"loudest","epsilon":2.5,"reports":4},"previous":"' + one.encode() + b'"'
    )
    two = hashlib.sha256(second).hexdigest()
    assert path.read_text() == (
        f'{first.decode()},"hash":"{one}"}}\n{second.decode()},"hash":"{two}"}}\n'
    )
    assert head_of(path).read_text() == f'{{"records":2,"hash":"{two}"}}\n'
    assert sorted(file.name for file in path.parent.iterdir()) == ["ledger", "ledger.head"]


def test_what_is_spent_is_there_again(log: Path) -> None:
    with Ledger.open(log) as ledger:
        assert ledger.path == log
        assert ledger.limit == 50.0
        assert ledger.spent == 30 + 3 * Fraction(0.1)
        assert ledger.remaining == 50 - ledger.spent
        assert [entry.record for entry in ledger.entries] == [1, 2, 3, 4, 5, 6]
        assert ledger.entries[0].what == Limit(100)
        assert ledger.entries[-1].what == batch("last", 0.1, 3)
        assert ledger.head == Head(6, ledger.entries[-1].hash)


def test_a_retry_costs_nothing_and_writes_nothing(log: Path) -> None:
    before = log.read_bytes(), head_of(log).read_bytes()
    with Ledger.open(log) as ledger:
        ledger.set_limit(50)
        assert ledger.charge(batch(1)) == ledger.entries[2]
        for other in (batch(1, reports=5), batch(1, 2.0), Charge(8, purpose(1), "loudest", 2.5, 4)):
            with pytest.raises(LedgerError, match="randomised anew"):
                ledger.charge(other)
    assert (log.read_bytes(), head_of(log).read_bytes()) == before


def test_the_limit_is_exact_and_a_refusal_writes_nothing(path: Path) -> None:
    with Ledger.create(path, 25) as ledger:
        ledger.charge(batch(1))
        before = path.read_bytes()
        with pytest.raises(BudgetExceededError, match="beyond the lifetime limit of 25"):
            ledger.charge(batch(2, math.nextafter(15, 16), 1))
        assert path.read_bytes() == before
        ledger.charge(batch(2, 15, 1))
        assert ledger.remaining == 0
        with pytest.raises(BudgetExceededError):
            ledger.charge(batch(3, 5e-324, 1))
        assert ledger.charge(batch(1)) == ledger.entries[1]


def test_a_limit_below_what_is_spent_stops_everything_but_retries(log: Path) -> None:
    with Ledger.open(log, disk=FAST) as ledger:
        ledger.set_limit(0)
        assert ledger.remaining == 0
        with pytest.raises(BudgetExceededError):
            ledger.charge(batch("new", 1e-300, 1))
        assert ledger.charge(batch(0)).record == 2
    with Ledger.open(log, disk=FAST) as ledger:
        assert ledger.limit == 0
        ledger.set_limit(1e9)
        ledger.charge(batch("new"))


def test_ten_tenths_are_more_than_one(path: Path) -> None:
    with Ledger.create(path, 1.0, disk=FAST) as ledger:
        for name in range(9):
            ledger.charge(batch(name, 0.1, 1))
        with pytest.raises(BudgetExceededError):
            ledger.charge(batch(9, 0.1, 1))
        ledger.set_limit(rounded_up(10 * Fraction(0.1)))
        ledger.charge(batch(9, 0.1, 1))
        assert ledger.spent == 10 * Fraction(0.1)


@given(st.fractions(min_value=0), st.integers(0, 1100))
def test_rounding_never_goes_below(amount: Fraction, shift: int) -> None:
    exact = amount / 2**shift
    up = rounded_up(exact)
    assert up >= exact
    assert up == 0 or math.nextafter(up, -math.inf) < exact


def test_more_than_a_float_is_infinite() -> None:
    assert rounded_up(Fraction(10**400)) == math.inf


@pytest.mark.parametrize(
    "make",
    [
        lambda: batch(1, 0.0),
        lambda: batch(1, -1.0),
        lambda: batch(1, math.nan),
        lambda: batch(1, math.inf),
        lambda: batch(1, 10**400),
        lambda: batch(1, 2**60 + 1),
        lambda: batch(1, reports=0),
        lambda: batch(1, reports=2**53),
        lambda: Charge(-1, purpose(1), "loudest", 1.0, 1),
        lambda: Charge(1, b"short", "loudest", 1.0, 1),
        lambda: Charge(1, purpose(1), "Loudest\n", 1.0, 1),
        lambda: Limit(math.inf),
        lambda: Limit(-1),
    ],
)
def test_what_cannot_be_a_charge_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(SettingsError):
        make()


def test_whole_numbers_and_floats_of_any_make_are_stored_as_ours() -> None:
    charge = Charge(True, bytearray(32), "loudest", 5, True)  # type: ignore[arg-type]
    entry = Entry(2, charge, "0" * 64)
    assert b'"epoch":1,' in entry.line
    assert b'"epsilon":5.0,"reports":1}' in entry.line


def test_the_longest_line_fits() -> None:
    most = 2**53 - 1
    charge = Charge(most, bytes(32), "m" * 32, 2.2250738585072014e-308, most)
    assert len(Entry(most, charge, "0" * 64).line) <= LONGEST


# One writer.


def test_one_ledger_has_one_writer(log: Path) -> None:
    code = (
        "import sys; from sottovoce.errors import LedgerError\n"
        "from sottovoce.privacy.ledger import Ledger\n"
        "try: Ledger.open(sys.argv[1])\n"
        "except LedgerError as error: print(error)\n"
    )
    command = [sys.executable, "-c", code, str(log)]
    with Ledger.open(log):
        refused(log, "one writer")
        told = subprocess.run(command, capture_output=True, text=True, check=True)
        assert "one writer" in told.stdout
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == ""


def test_threads_share_one_ledger(path: Path) -> None:
    refusals: list[object] = []

    def work(ledger: Ledger, worker: int) -> None:
        for n in range(10):
            try:
                ledger.charge(batch((worker % 4, n), 1.0, 1))
            except BudgetExceededError as error:
                refusals.append(error)

    with Ledger.create(path, 25, disk=FAST) as ledger:
        threads = [threading.Thread(target=work, args=(ledger, worker)) for worker in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert ledger.spent == 25
        assert len(refusals) == 2 * 15
    with Ledger.open(path, disk=FAST) as ledger:
        assert ledger.spent == 25


def test_a_child_of_the_process_does_not_write(log: Path) -> None:
    with Ledger.open(log, disk=FAST) as ledger:
        ledger._owner += 1
        with pytest.raises(LedgerError, match="fork"):
            ledger.charge(batch("new"))


def test_a_closed_ledger_refuses(log: Path) -> None:
    with Ledger.open(log, disk=FAST) as ledger:
        pass
    with pytest.raises(LedgerError, match="anew"):
        ledger.charge(batch(0))


def test_the_module_needs_no_fcntl_to_be_imported() -> None:
    code = "import sys; sys.modules['fcntl'] = None; import sottovoce.privacy.ledger"
    subprocess.run([sys.executable, "-c", code], check=True)


# What is missing or damaged is refused, and nothing is touched.


def test_a_missing_ledger_never_becomes_an_empty_one(log: Path) -> None:
    away = log.with_name("away")
    log.rename(away)
    refused(log, "no ledger")
    with pytest.raises(LedgerError, match="is or was here"):
        Ledger.create(log, 5)
    head_of(log).unlink()
    refused(log, "no ledger")
    away.rename(log)
    refused(log, "head is missing")
    with pytest.raises(LedgerError, match="already"):
        Ledger.create(log, 5)
    assert sorted(file.name for file in log.parent.iterdir()) == [log.name]


def test_what_is_not_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="not a file"):
        Ledger.open(tmp_path)
    with pytest.raises(LedgerError):
        Ledger.create(tmp_path / "nowhere" / "ledger", 5)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(LedgerError, match="not a file"):
        Ledger.open(tmp_path / "pipe")


def test_a_link_to_the_log_finds_the_same_head(log: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "link"
    link.symlink_to(log)
    with Ledger.open(link, disk=FAST) as ledger:
        ledger.charge(batch("new"))
    with Ledger.open(log, disk=FAST) as ledger:
        assert ledger.charge(batch("new")).record == 7


@pytest.mark.parametrize("of", [Path, head_of], ids=["log", "head"])
def test_every_flipped_bit_is_refused(log: Path, of: Callable[[Path], Path]) -> None:
    good = of(log).read_bytes()
    chance = random.Random(1)
    for place, byte in enumerate(good):
        bad = byte ^ (1 << chance.randrange(8))
        put(of(log), place, bad)
        with pytest.raises(LedgerError):
            Ledger.open(log, disk=FAST)
        assert of(log).read_bytes() == good[:place] + bytes([bad]) + good[place + 1 :]
        put(of(log), place, byte)
    Ledger.open(log, disk=FAST).close()


def put(path: Path, place: int, byte: int) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        file.write(bytes([byte]))


@pytest.mark.parametrize("of", [Path, head_of], ids=["log", "head"])
def test_every_shortened_file_is_refused(log: Path, of: Callable[[Path], Path]) -> None:
    good = of(log).read_bytes()
    for size in reversed(range(len(good))):
        os.truncate(of(log), size)
        with pytest.raises(LedgerError):
            Ledger.open(log, disk=FAST)
        assert of(log).read_bytes() == good[:size]


def test_records_swapped_repeated_left_out_or_foreign_are_refused(
    log: Path, tmp_path: Path
) -> None:
    lines = log.read_bytes().splitlines(keepends=True)
    (tmp_path / "b").mkdir()
    with Ledger.create(tmp_path / "b" / "ledger", 100, disk=FAST) as other:
        for name in range(3):
            other.charge(batch(name, 1.0))
        foreign = [entry.line for entry in other.entries]
    for n in range(len(lines)):
        for bad in (
            [*lines[:n], *lines[n + 1 :]],
            [*lines[: n + 1], *lines[n:]],
            [*lines, lines[n]],
            [*lines[:n], *lines[n : n + 2][::-1], *lines[n + 2 :]],
            [*lines[:n], *foreign[n:], *lines[4:]],
            [*lines[:n], b"\n", *lines[n:]],
        ):
            if bad != lines:
                log.write_bytes(b"".join(bad))
                refused(log)


def test_a_head_that_no_crash_leaves_is_refused(log: Path) -> None:
    with Ledger.open(log, disk=FAST) as ledger:
        entries = ledger.entries
    for count in range(1, 5):
        head_of(log).write_bytes(Head(count, entries[count - 1].hash).line)
        refused(log, "head is old")
    head_of(log).write_bytes(Head(5, entries[4].hash).line)
    with log.open("ab") as file:
        file.write(b"{")
    refused(log, "head is old")
    head_of(log).unlink()
    log.write_bytes(entries[0].line + b"{")
    refused(log, "head is missing")


@pytest.mark.parametrize(
    "records", ["true", "1.0", "0", "-1", "1e0", "null", "[" * 400, "9" * 400, '"1"']
)
def test_a_strange_head_is_refused(path: Path, records: str) -> None:
    with Ledger.create(path, 5, disk=FAST) as ledger:
        known = ledger.head.hash
    head_of(path).write_text(f'{{"records":{records},"hash":"{known}"}}\n')
    refused(path, "damaged")


def test_a_kept_head_shows_that_both_files_were_set_back(log: Path) -> None:
    old = log.read_bytes(), head_of(log).read_bytes()
    with Ledger.open(log, disk=FAST) as ledger:
        ledger.charge(batch("later", 1.0))
        kept = ledger.head
    with Ledger.open(log, at_least=kept, disk=FAST) as ledger:
        ledger.charge(batch("latest", 1.0))
    with Ledger.open(log, at_least=kept, disk=FAST):
        pass
    log.write_bytes(old[0])
    head_of(log).write_bytes(old[1])
    with pytest.raises(LedgerError, match="does not reach record 7"):
        Ledger.open(log, at_least=kept, disk=FAST)
    with pytest.raises(LedgerError, match="does not reach"):
        Ledger.open(log, at_least=Head(3, "0" * 64), disk=FAST)


@pytest.mark.parametrize("how", ["moved", "replaced", "shortened", "longer"])
def test_a_log_that_changes_while_in_use_takes_no_charge(log: Path, how: str) -> None:
    content = log.read_bytes()
    with Ledger.open(log, disk=FAST) as ledger:
        if how in ("moved", "replaced"):
            log.rename(log.with_name("away"))
        if how == "replaced":
            log.write_bytes(content)
        if how == "shortened":
            os.truncate(log, len(content) - 1)
        if how == "longer":
            os.truncate(log, len(content) + 1)
        with pytest.raises(LedgerError):
            ledger.charge(batch("new"))


def opens_or_refuses(content: bytes, head: bytes | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger"
        path.write_bytes(content)
        if head is not None:
            head_of(path).write_bytes(head)
        with suppress(LedgerError), Ledger.open(path, disk=FAST) as ledger:
            assert ledger.spent <= sum(
                (e.what.cost for e in ledger.entries if isinstance(e.what, Charge)), Fraction(0)
            )


@given(st.binary(max_size=2 * LONGEST), st.none() | st.binary(max_size=100))
def test_any_bytes_open_or_are_refused(content: bytes, head: bytes | None) -> None:
    opens_or_refuses(content, head)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=10)
    | st.sampled_from(["loudest", "00" * 32, "sottovoce-ledger-1", 1, 2.5, "1" * 200]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["epoch", "purpose", "mechanism", "epsilon", "reports", "x"]), inner
        )
    ),
    max_leaves=8,
)


def sealed(fields: dict[str, object]) -> bytes:
    """A line whose hash is right, whatever it says."""
    hashed = json.dumps(fields, separators=(",", ":")).encode()[:-1]
    return hashed + f',"hash":"{hashlib.sha256(hashed).hexdigest()}"}}\n'.encode()


@given(st.dictionaries(st.sampled_from(["record", "limit", "charge", "previous", "x"]), JSON))
def test_well_hashed_nonsense_is_refused(fields: dict[str, object]) -> None:
    opens_or_refuses(sealed(fields), None)
    first = Entry(1, Limit(50), "sottovoce-ledger-1")
    second = sealed({**fields, "record": 2, "previous": first.hash})
    opens_or_refuses(first.line + second, Head(1, first.hash).line)


@pytest.mark.parametrize(
    "what",
    [batch(0), batch("new", 1e6), Limit(5)],
    ids=["the same purpose twice", "beyond the limit", "fine"],
)
def test_a_well_hashed_record_must_obey_the_rules(log: Path, what: Charge | Limit) -> None:
    with Ledger.open(log, disk=FAST) as ledger:
        last = ledger.entries[-1]
    entry = Entry(last.record + 1, what, last.hash)
    with log.open("ab") as file:
        file.write(entry.line)
    if isinstance(what, Limit):
        Ledger.open(log, disk=FAST).close()
    else:
        refused(log, "record 7 cannot stand")


def test_a_tail_too_long_for_a_torn_record_is_refused(log: Path) -> None:
    with log.open("ab") as file:
        file.write(bytes(LONGEST + 1))
    refused(log, "record 7 is damaged")


def test_deep_nesting_is_refused_also_deep_in_a_program(path: Path) -> None:
    def deep(levels: int) -> None:
        if levels:
            deep(levels - 1)
        else:
            refused(path, "record 1 is damaged")

    path.write_bytes(b"[" * (LONGEST - 1) + b"\n")
    deep(0)
    deep(700)


def test_a_log_does_not_begin_with_a_charge(path: Path) -> None:
    path.write_bytes(Entry(1, batch(0), "sottovoce-ledger-1").line)
    refused(path, "begins with its limit")


# Crashes.

STEPS: tuple[Charge | Limit, ...] = (batch("a"), batch("b", 0.1, 7), Limit(60), batch("c", 1.5, 1))


def perform(path: Path, disk: Disk, acknowledged: list[Charge | Limit]) -> None:
    """A short life, noting what was acknowledged; leaves the lock free, as a dead process does."""
    with Ledger.create(path, 50, disk=disk) as ledger:
        acknowledged.append(Limit(50))
        for step in STEPS:
            if isinstance(step, Charge):
                ledger.charge(step)
            else:
                ledger.set_limit(step.epsilon)
            acknowledged.append(step)


def check_survivor(path: Path, acknowledged: list[Charge | Limit]) -> None:
    """It opens, has all that was acknowledged and at most one thing more, and goes on."""
    if not acknowledged and not path.exists():
        Ledger.create(path, 50, disk=FAST).close()
    with Ledger.open(path, disk=FAST) as ledger:
        there = [entry.what for entry in ledger.entries]
        assert there[: len(acknowledged)] == acknowledged
        assert len(there) <= len(acknowledged) + 1
        for step in STEPS:
            if isinstance(step, Charge):
                ledger.charge(step)
        ledger.set_limit(60)
    with Ledger.open(path, disk=FAST) as ledger:
        costs = [step.cost for step in STEPS if isinstance(step, Charge)]
        assert ledger.spent == sum(costs)
        assert len(ledger.entries) == 1 + len(STEPS)


def lives() -> Iterator[tuple[int, int]]:
    """Every call to die in, with every length of a torn line where it matters."""
    for calls in range(100):
        yield calls, 0
        yield calls, LONGEST


def test_a_crash_at_every_step_loses_nothing(tmp_path: Path) -> None:
    for life, (calls, torn) in enumerate(lives()):
        folder = tmp_path / str(life)
        folder.mkdir()
        acknowledged: list[Charge | Limit] = []
        try:
            perform(folder / "ledger", MortalDisk(calls, torn), acknowledged)
        except PowerCut:
            check_survivor(folder / "ledger", acknowledged)
        else:
            assert calls > 20
            return
    pytest.fail("never came to its end")


@pytest.mark.parametrize(
    ("calls", "line"),
    [(0, Entry(3, STEPS[1], "0" * 64).line), (2, Head(3, "0" * 64).line)],
    ids=["log", "head"],
)
def test_a_line_torn_at_every_byte_loses_nothing(tmp_path: Path, calls: int, line: bytes) -> None:
    for torn in range(len(line) + 1):
        path = tmp_path / str(torn) / "ledger"
        path.parent.mkdir()
        with Ledger.create(path, 50, disk=FAST) as ledger:
            ledger.charge(batch("a"))
            ledger._disk = MortalDisk(calls, torn)
            with pytest.raises(PowerCut):
                ledger.charge(batch("b", 0.1, 7))
            with pytest.raises(LedgerError, match="anew"):
                ledger.charge(batch("a"))
        check_survivor(path, [Limit(50), STEPS[0]])


@pytest.mark.parametrize("tail", ["torn", "whole", "nothing"])
def test_a_crash_while_recovering_loses_nothing(tmp_path: Path, tail: str) -> None:
    for calls in range(20):
        path = tmp_path / str(calls) / "ledger"
        path.parent.mkdir()
        with Ledger.create(path, 50, disk=FAST) as ledger:
            first = ledger.charge(batch("a"))
        line = Entry(3, STEPS[1], first.hash).line
        with path.open("ab") as file:
            file.write({"torn": line[:-1], "whole": line, "nothing": b""}[tail])
        try:
            Ledger.open(path, disk=MortalDisk(calls, torn=10)).close()
        except PowerCut:
            check_survivor(path, [Limit(50), STEPS[0]])
        else:
            assert calls >= 2
            return
    pytest.fail("never came to its end")


class CacheDisk(MortalDisk):
    """Knows what has reached the platter: only what was synced must be there after a power cut."""

    def __init__(self, folder: Path, calls: int):
        super().__init__(calls)
        self.folder = folder
        self.contents: dict[int, bytes] = {}
        self.names: dict[str, int] = {}
        self.held: list[int] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self.held:
            os.close(handle)

    def know_all(self) -> None:
        """All that is seen now has been synced."""
        self.contents, self.names = self.seen(), self.named()

    def write(self, file: io.FileIO, content: bytes) -> None:
        # Held so that no inode number is used twice; not a duplicate, which would share the lock.
        self.held += [os.open(known, os.O_RDONLY) for known in self.folder.iterdir()]
        super().write(file, content)

    def sync(self, file: io.FileIO) -> None:
        super().sync(file)
        inode = os.fstat(file.fileno()).st_ino
        self.contents[inode] = self.seen()[inode]

    def sync_folder(self, folder: Path) -> None:
        super().sync_folder(folder)
        self.names = self.named()

    def named(self) -> dict[str, int]:
        return {file.name: file.stat().st_ino for file in self.folder.iterdir()}

    def seen(self) -> dict[int, bytes]:
        return {file.stat().st_ino: file.read_bytes() for file in self.folder.iterdir()}

    def survivals(self) -> Iterator[dict[str, bytes]]:
        """Folders that may be found when the power is back."""
        seen = self.seen()
        changed = self.named().items() - self.names.items()
        each = [self.names | {name: inode} for name, inode in changed]
        for names in (self.names, self.named(), *each):
            for share in (0, 0.01, 0.5, 0.99, 1, None):
                yield {name: self.survival(inode, seen, share) for name, inode in names.items()}

    def survival(self, inode: int, seen: dict[int, bytes], share: float | None) -> bytes:
        synced = self.contents.get(inode, b"")
        now = seen.get(inode, synced)
        if not now.startswith(synced):
            return now if share else synced
        late = now[len(synced) :]
        if share is None:  # the length arrived, the content did not
            return synced + bytes(len(late))
        return synced + late[: math.ceil(share * len(late))]


def check_power_cut(disk: CacheDisk, acknowledged: list[Charge | Limit]) -> None:
    different = {tuple(sorted(files.items())): files for files in disk.survivals()}
    for n, files in enumerate(different.values()):
        after = disk.folder.with_name(f"{disk.folder.name}-{n}")
        after.mkdir()
        for name, content in files.items():
            (after / name).write_bytes(content)
        check_survivor(after / "ledger", acknowledged)


def test_a_power_cut_at_every_step_loses_nothing(tmp_path: Path) -> None:
    for calls in range(100):
        folder = tmp_path / str(calls)
        folder.mkdir()
        acknowledged: list[Charge | Limit] = []
        with CacheDisk(folder, calls) as disk:
            try:
                perform(folder / "ledger", disk, acknowledged)
            except PowerCut:
                check_power_cut(disk, acknowledged)
            else:
                assert calls > 20
                return
    pytest.fail("never came to its end")


@pytest.mark.parametrize("tail", ["torn", "torn and synced", "whole", "whole and synced"])
def test_a_power_cut_after_a_crash_loses_nothing(tmp_path: Path, tail: str) -> None:
    """The last record was only in the cache when its process died; then somebody builds on it."""
    for calls in range(20):
        path = tmp_path / str(calls) / "ledger"
        path.parent.mkdir()
        with Ledger.create(path, 50, disk=FAST) as ledger:
            first = ledger.charge(batch("a"))
        acknowledged = [Limit(50), STEPS[0]]
        line = Entry(3, STEPS[1], first.hash).line
        with CacheDisk(path.parent, calls) as disk:
            disk.know_all()
            with path.open("ab") as file:
                file.write(line[:-1] if "torn" in tail else line)
            if "synced" in tail:
                disk.know_all()
            try:
                with Ledger.open(path, disk=disk) as ledger:
                    for step in (STEPS[1], STEPS[3]):
                        assert isinstance(step, Charge)
                        ledger.charge(step)
                        acknowledged.append(step)
            except PowerCut:
                check_power_cut(disk, acknowledged)
            else:
                assert calls > 6
                return
    pytest.fail("never came to its end")


class ForgetfulDisk(CacheDisk):
    """A sync that failed has dropped what it was to write, and the next one says yes."""

    def __init__(self, folder: Path):
        super().__init__(folder, calls=1000)
        self.dirty: set[int] = set()
        self.fails = False

    def write(self, file: io.FileIO, content: bytes) -> None:
        super().write(file, content)
        self.dirty.add(os.fstat(file.fileno()).st_ino)

    def sync(self, file: io.FileIO) -> None:
        inode = os.fstat(file.fileno()).st_ino
        dirty = inode in self.dirty
        self.dirty.discard(inode)
        if self.fails:
            self.fails = False
            raise OSError(errno.EIO, "Input/output error")
        if dirty:
            super().sync(file)


def test_a_record_whose_sync_failed_is_written_again(path: Path) -> None:
    (path.parent / "device").mkdir()
    path = path.parent / "device" / "ledger"
    with ForgetfulDisk(path.parent) as disk:
        with Ledger.create(path, 50, disk=disk) as ledger:
            ledger.charge(batch("a"))
            disk.fails = True
            with pytest.raises(LedgerError, match="Input/output"):
                ledger.charge(batch("b", 0.1, 7))
        with Ledger.open(path, disk=disk) as ledger:
            ledger.charge(batch("b", 0.1, 7))
        check_power_cut(disk, [Limit(50), *STEPS[:2]])


class FailingDisk(MortalDisk):
    """One call fails, as on a full or broken disk; the others work."""

    def live(self) -> None:
        self.left -= 1
        if self.left == -1:
            raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("calls", range(5))
def test_after_a_failure_nothing_is_charged_until_it_is_opened_anew(path: Path, calls: int) -> None:
    """Five things are done for a charge: write, sync; write, sync, rename; then the folder."""
    with Ledger.create(path, 50, disk=FAST) as ledger:
        ledger.charge(batch("a"))
        ledger._disk = FailingDisk(calls, torn=50)
        with pytest.raises(LedgerError, match="No space left"):
            ledger.charge(batch("b", 0.1, 7))
        for again in (batch("a"), batch("b", 0.1, 7), batch("c")):
            with pytest.raises(LedgerError, match="anew"):
                ledger.charge(again)
    check_survivor(path, [Limit(50), STEPS[0]])


def test_a_failing_creation_leaves_nothing_or_a_ledger(tmp_path: Path) -> None:
    for calls in range(20):
        path = tmp_path / str(calls) / "ledger"
        path.parent.mkdir()
        try:
            Ledger.create(path, 50, disk=FailingDisk(calls)).close()
        except LedgerError:
            check_survivor(path, [])
        else:
            return
    pytest.fail("never came to its end")


VICTIMS = """
import os, sys
from sottovoce.privacy.ledger import Charge, Ledger

def say(line):
    os.write(1, (line + chr(10)).encode())

def live(path):
    with Ledger.open(path) as ledger:
        say("open")
        while True:
            name = os.urandom(32)
            ledger.charge(Charge(1, name, "loudest", 0.1, 3))
            say(name.hex())

for path in sys.stdin:
    victim = os.fork()
    if victim == 0:
        live(path.strip())
    say(f"victim {victim}")
    os.waitpid(victim, 0)
    say("dead")
"""


def kill_one(nursery: subprocess.Popen[str], path: Path, wait: float | None) -> set[str]:
    """What a victim had acknowledged; killed so long after opening, or while opening."""
    assert nursery.stdin is not None
    assert nursery.stdout is not None
    nursery.stdin.write(f"{path}\n")
    victim, opened, acknowledged = 0, wait is None, set()
    for line in nursery.stdout:
        word = line.strip()
        if word == "dead":
            break
        if word.startswith("victim"):
            victim = int(word.split()[1])
        elif word == "open":
            opened = True
        else:
            acknowledged.add(word)
        if victim and opened:
            time.sleep(wait or 0)
            with suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
            opened = False
    return acknowledged


def test_killed_at_any_moment_it_never_counts_too_little(tmp_path: Path) -> None:
    """One process forks the victims, so that sixty of them cost no sixty interpreters."""
    chance = random.Random(5)
    with subprocess.Popen(
        [sys.executable, "-c", VICTIMS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as nursery:
        acknowledged = 0
        for n in range(10):
            waits = [None, *(chance.uniform(0, 0.03) for _ in range(5))]
            acknowledged += kill_many(nursery, tmp_path / str(n), waits)
    assert acknowledged


def kill_many(nursery: subprocess.Popen[str], path: Path, waits: list[float | None]) -> int:
    Ledger.create(path, 1e9).close()
    acknowledged: set[str] = set()
    for kills, wait in enumerate(waits, start=1):
        acknowledged |= kill_one(nursery, path, wait)
        with Ledger.open(path) as ledger:
            charges = [entry.what for entry in ledger.entries if isinstance(entry.what, Charge)]
            assert acknowledged <= {charge.purpose.hex() for charge in charges}
            assert ledger.spent >= len(acknowledged) * 3 * Fraction(0.1)
            assert len(charges) <= len(acknowledged) + kills
    return len(acknowledged)


# Against a model: a list in memory.

AMOUNTS = st.sampled_from([0.1, 0.5, 1.0, 2.5, 1 / 3, 5e-324, 1e-9])


class Against(RuleBasedStateMachine):
    """Random charges, retries, refusals, limits and restarts, with a list as the truth."""

    @initialize(limit=st.floats(0, 30))
    def begin(self, limit: float) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "ledger"
        self.ledger = Ledger.create(self.path, limit, disk=FAST)
        self.model: list[Charge | Limit] = [Limit(limit)]

    def charges(self) -> list[Charge]:
        return [what for what in self.model if isinstance(what, Charge)]

    def spent(self) -> Fraction:
        return sum((charge.cost for charge in self.charges()), Fraction(0))

    def limit(self) -> Fraction:
        return Fraction([what for what in self.model if isinstance(what, Limit)][-1].epsilon)

    def attempt(self, charge: Charge) -> None:
        before = self.path.read_bytes()
        if self.spent() + charge.cost <= self.limit():
            assert self.ledger.charge(charge).what == charge
            self.model.append(charge)
        else:
            with pytest.raises(BudgetExceededError):
                self.ledger.charge(charge)
            assert self.path.read_bytes() == before

    @rule(epsilon=AMOUNTS, reports=st.integers(1, 9))
    def charge(self, epsilon: float, reports: int) -> None:
        self.attempt(batch(len(self.model), epsilon, reports))

    @rule(more=st.booleans())
    def charge_what_remains(self, more: bool) -> None:
        rest = rounded_up(self.ledger.remaining)
        epsilon = math.nextafter(rest, math.inf) if more else rest
        if epsilon > 0:
            self.attempt(batch(len(self.model), epsilon, 1))

    @precondition(lambda self: self.charges())
    @rule(chance=st.randoms(use_true_random=False))
    def charge_again(self, chance: random.Random) -> None:
        earlier = chance.choice(self.charges())
        assert self.ledger.charge(earlier).what == earlier
        with pytest.raises(LedgerError, match="randomised anew"):
            self.ledger.charge(
                Charge(earlier.epoch + 1, earlier.purpose, "loudest", earlier.epsilon, 1)
            )

    @rule(limit=st.floats(0, 60))
    def set_limit(self, limit: float) -> None:
        self.ledger.set_limit(limit)
        if self.limit() != limit:
            self.model.append(Limit(limit))

    @rule(torn=st.binary(max_size=LONGEST))
    def restart(self, torn: bytes) -> None:
        self.ledger.close()
        with self.path.open("ab") as file:
            file.write(torn.replace(b"\n", b" "))
        self.ledger = Ledger.open(self.path, disk=FAST)

    @invariant()
    def agrees(self) -> None:
        assert [entry.what for entry in self.ledger.entries] == self.model
        assert self.ledger.spent == self.spent()
        assert self.ledger.limit == self.limit()
        assert self.ledger.remaining == max(self.limit() - self.spent(), 0)

    def teardown(self) -> None:
        self.ledger.close()
        self.folder.cleanup()


TestAgainstAModel = Against.TestCase
TestAgainstAModel.settings = settings(max_examples=40, stateful_step_count=25)


def test_its_errors_are_ours() -> None:
    assert issubclass(BudgetExceededError, LedgerError)
    assert issubclass(LedgerError, SottovoceError)
