"""One sync of the independent client, step by step, with a proxy that says what a test wants."""

from __future__ import annotations

import json
from email.utils import formatdate
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.outsider.device import Device
from tests.outsider.ledger import Charge
from tests.outsider.plans import Plan, lead
from tests.outsider.state import State
from tests.outsider.vectors import CATALOGUE, KEY, MANIFEST, MODEL, PROTOCOL, SIGNED
from tests.outsider.web import Answer

NOW = MANIFEST.fields["opens"] + 100
LEAD = lead(MANIFEST)
EPOCH = MANIFEST.epoch
FILES = {
    f"/v2/models/{MANIFEST.fields['model']}": MODEL,
    f"/v2/catalogues/{MANIFEST.fields['catalogue']}": CATALOGUE,
}
ACCEPTED = Answer(202, {}, b"")


def signed(**changes: Any) -> bytes:
    """The manifest of the vectors with other fields, signed by the same key."""
    fields = {**PROTOCOL["manifest"]["fields"], **changes}
    text = json.dumps(fields).encode()
    signer = Ed25519PrivateKey.from_private_bytes(bytes(range(0x40, 0x60)))
    return SIGNED[:101] + signer.sign(b"sottovoce manifest 2\0" + text) + text


class Proxy:
    """Serves the vectors' files; answers batches from a list, and does not when that is empty."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.manifests = [SIGNED]
        self.asked: list[str] = []
        self.batches: list[bytes] = []

    def __call__(self, method: str, path: str, body: bytes | None, most: int) -> Answer:
        self.asked.append(path)
        if method == "POST":
            assert body is not None
            self.batches.append(body)
            if not self.answers:
                raise ConnectionResetError
            return self.answers.pop(0)
        if path == "/v2/manifest":
            return Answer(
                200, {}, self.manifests.pop(0) if self.manifests[1:] else self.manifests[0]
            )
        return Answer(200, {}, FILES[path]) if path in FILES else Answer(404, {}, b"")


class Clock:
    def __init__(self, now: float = NOW) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds


def make_state(tmp_path: Path, **changes: Any) -> State:
    return State(tmp_path / "state", **{"limit": 100.0, "accepted": MANIFEST.terms, **changes})


def make_device(tmp_path: Path, proxy: Proxy, clock: Clock, **changes: Any) -> Device:
    given: dict[str, Any] = {
        "history": lambda: ["film-1", "film-3", "unknown"],
        "state": make_state(tmp_path),
        "entropy": lambda n: bytes([0x40]) * n,
        **changes,
    }
    return Device(fetch=proxy, key=KEY, clock=clock, sleep=clock.sleep, **given)


def reloaded(tmp_path: Path, proxy: Proxy, clock: Clock, **changes: Any) -> Device:
    """After a crash: another device on what is on the disk."""
    return make_device(tmp_path, proxy, clock, state=State.load(tmp_path / "state"), **changes)


def test_a_batch_is_sent_at_its_moment_and_resent_byte_for_byte(tmp_path: Path) -> None:
    proxy, clock = Proxy(Answer(503, {"retry-after": "60"}, b""), ACCEPTED), Clock()
    assert make_device(tmp_path, proxy, clock).take_part() == ("later", "503")
    assert clock.now == NOW + LEAD + (0x4040404040404040 >> 11) * 2.0**-53 * 3600
    manifest, batches = "/v2/manifest", "/v2/batches"
    assert proxy.asked == [manifest, *FILES, manifest, batches]
    clock.now += 59
    assert reloaded(tmp_path, proxy, clock).take_part().what == "later"
    clock.now += 1
    again = reloaded(tmp_path, proxy, clock)
    assert again.take_part() == ("sent", "")
    assert proxy.asked[5:] == [manifest, batches, manifest], "stored files are not asked for again"
    first, second = proxy.batches
    assert first == second
    assert len(first) == PROTOCOL["manifest"]["batch_size"]
    assert [charge.purpose for charge in again.state.charges] == [sha256(first).hexdigest()]
    assert State.load(tmp_path / "state") == again.state
    assert again.state.batches[EPOCH].body == ""
    assert again.take_part() == ("nothing sent", "a batch was made before")


def test_without_the_pause_it_is_sent_at_once(tmp_path: Path) -> None:
    proxy, clock = Proxy(ACCEPTED), Clock()
    assert make_device(tmp_path, proxy, clock, spread=0.0).take_part().what == "sent"
    assert clock.now == NOW
    assert proxy.asked.count("/v2/manifest") == 1


def test_a_computation_that_took_too_long_shows_in_whole_leads(tmp_path: Path) -> None:
    proxy, clock = Proxy(ACCEPTED), Clock()

    def slowly() -> list[str]:
        clock.now += LEAD + 0.5
        return []

    one = make_device(tmp_path, proxy, clock, history=slowly)
    assert one.take_part().what == "sent"
    assert clock.now == one.state.batches[EPOCH].moment + LEAD


def unread() -> list[str]:
    raise AssertionError("the history is read")


def charged(**changes: Any) -> Charge:
    return Charge(MANIFEST.terms["training"], 1, "", "loudest", 2.5, 4, 0.1, 9)._replace(**changes)


@pytest.mark.parametrize(
    ("changes", "now", "why"),
    [
        ({"accepted": None}, NOW, "no terms were accepted"),
        ({"accepted": {**MANIFEST.terms, "epsilon": 1.0}}, NOW, "terms are worse: epsilon"),
        ({}, MANIFEST.fields["opens"] - 1, "no reports are asked for"),
        ({}, MANIFEST.end - LEAD, "no reports are asked for"),
        ({"limit": 9.999999999999998}, NOW, "the limit is reached"),
        ({"epoch": EPOCH + 1}, NOW, "an epoch that is over"),
        ({"epoch": EPOCH, "manifest": "0" * 64}, NOW, "two manifests of one epoch"),
        ({"key": "0" * 64}, NOW, "a signature does not hold"),
        ({"plans": {EPOCH: Plan(takes_part=False, moment=0.0)}}, NOW, "the coin says no"),
        ({"charges": [charged(epoch=EPOCH, training="f" * 32)]}, NOW, "charged before"),
        ({"charges": [charged(epsilon=40.0)]}, NOW, "the limit is reached"),
        ({"charges": [charged(epsilon=1e-6)] * 20}, NOW, "all epochs of this training are used"),
    ],
)
def test_what_ends_a_sync_before_the_history_is_read(
    tmp_path: Path, changes: dict[str, Any], now: float, why: str
) -> None:
    proxy, state = Proxy(), make_state(tmp_path, **changes)
    outcome = make_device(tmp_path, proxy, Clock(now), state=state, history=unread).take_part()
    assert outcome.what == "nothing sent"
    assert why in outcome.detail
    assert proxy.batches == []


def test_worse_terms_are_neither_fetched_nor_stored(tmp_path: Path) -> None:
    proxy, state = Proxy(), make_state(tmp_path, accepted={**MANIFEST.terms, "hold": 0})
    make_device(tmp_path, proxy, Clock(), state=state).take_part()
    assert proxy.asked == ["/v2/manifest"]
    assert (state.epoch, state.manifest, state.key) == (0, "", "")
    assert not state.path.exists()


def test_a_restart_gives_no_second_toss(tmp_path: Path) -> None:
    proxy, clock = Proxy(ACCEPTED), Clock()
    out = make_device(tmp_path, proxy, clock, entropy=lambda n: b"\xff" * n)
    assert out.take_part() == ("nothing sent", "the coin says no")
    assert reloaded(tmp_path, proxy, clock).take_part() == ("nothing sent", "the coin says no")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (signed(epoch=EPOCH + 1), "the epoch is over"),
        (signed(closes=MANIFEST.fields["closes"] + 1), "two manifests of one epoch"),
        (SIGNED[:-1], "a signature does not hold"),
    ],
)
def test_another_manifest_after_the_pause_costs_nothing(
    tmp_path: Path, answer: bytes, why: str
) -> None:
    proxy = Proxy()
    proxy.manifests.append(answer)
    one = make_device(tmp_path, proxy, Clock(), history=unread)
    assert one.take_part() == ("nothing sent", why)
    assert one.state.charges == []


@pytest.mark.parametrize(
    ("answer", "what", "is_kept"),
    [
        (Answer(410, {}, b""), "too late", False),
        (Answer(409, {}, b'{"type": "urn:sottovoce:wrong\\u002depoch"}'), "too late", False),
        (Answer(409, {}, b'{"type": "about:blank"}'), "refused", True),
        (Answer(409, {}, b'["urn:sottovoce:wrong-epoch"]'), "refused", True),
        (Answer(200, {}, b""), "refused", True),
        (Answer(302, {"location": "/"}, b""), "refused", True),
        (Answer(429, {}, b""), "later", True),
        (Answer(500, {"retry-after": "soon"}, b""), "later", True),
    ],
)
def test_answers(tmp_path: Path, answer: Answer, what: str, is_kept: bool) -> None:
    proxy, clock = Proxy(answer, ACCEPTED), Clock()
    one = make_device(tmp_path, proxy, clock)
    assert one.take_part().what == what
    assert bool(one.state.batches[EPOCH].body) == is_kept
    outcome = one.take_part()
    assert outcome.what == ("sent" if is_kept else "nothing sent")
    assert len(set(proxy.batches)) == 1
    assert len(one.state.charges) == 1


def test_a_date_says_when_to_send_again(tmp_path: Path) -> None:
    proxy, clock = Proxy(), Clock()
    later = formatdate(NOW + 9000, usegmt=True)
    proxy.answers = [Answer(503, {"retry-after": later}, b""), ACCEPTED]
    one = make_device(tmp_path, proxy, clock)
    assert one.take_part().what == "later"
    clock.now = NOW + 8999
    assert one.take_part() == ("later", "the proxy said when")
    clock.now = NOW + 9000
    assert one.take_part().what == "sent"


def test_a_batch_that_nobody_took_is_given_up_at_the_end(tmp_path: Path) -> None:
    proxy, clock = Proxy(), Clock()
    one = make_device(tmp_path, proxy, clock)
    assert one.take_part() == ("later", "no answer")
    clock.now = MANIFEST.end
    assert one.take_part().what == "too late"
    assert one.state.batches[EPOCH].body == ""
    assert len(one.state.charges) == 1
    assert len(proxy.batches) == 1
