"""The Python and the browser client agree, whatever is drawn: the same words, the same bits.

`web/client/test/agree.ts` runs the browser client's own parts under node and answers line by line.
Everything is compared exactly: the protocol's order of operations leaves no last bit open.
"""

import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sottovoce.core import MECHANISMS, Histories, Loudest, Shape, solve_user_vectors
from sottovoce.core.bounds import (
    MAX_ITEM_ENTRY,
    MAX_ITEMS,
    MIN_ITEM_ENTRY,
    MIN_RIDGE,
    round_items,
)
from sottovoce.errors import ProtocolError
from sottovoce.protocol import (
    Batch,
    Catalogue,
    Manifest,
    SignedManifest,
    decode_items,
    encode_items,
    open_reports,
)
from sottovoce.protocol.tokens import Issuer, Token
from tests.lacking import leave_out
from tests.live.test_accounts import make_backend, run_with_accounts, spend
from tests.privacy.test_ledger import played
from tests.protocol.examples import (
    EPOCH_KEY,
    as_json,
    catalogue,
    manifest,
    parameters,
    signing_key,
)

WEB = Path(__file__).parents[3] / "web"
ESBUILD = WEB / "node_modules" / ".bin" / "esbuild"
VERIFICATION_KEY = signing_key().public_key().public_bytes_raw().hex()
PLAIN = manifest(
    epsilon=2,
    alpha=1,
    regularization=1,
    share=1,
    min_clients=5,
    dummies=0,
    items=4,
    loud_fraction=0.5,
)
"""Hardly a fraction in it: a reader may take 3.0 for 3, and that is not what is compared here."""

if shutil.which("node") is None or not ESBUILD.exists():
    leave_out("that Python and JavaScript agree (needs node, and `npm ci` in web/)")


IN_BROWSER = [
    name for name in MECHANISMS if (WEB / "client" / "src" / "mechanism" / f"{name}.ts").exists()
]
"""A mechanism may be there or not; a browser refuses a manifest that names another."""


class Browser:
    """The browser client's parts, one question at a time."""

    def __init__(self, program: Path):
        self._process = subprocess.Popen(
            ["node", "--no-warnings", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, do: str, **asked: object) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": do, **asked}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        # JavaScript has one kind of number and writes large floats without a point.
        answer: dict[str, Any] = json.loads(line, parse_int=float)
        return answer

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = tmp_path_factory.mktemp("agree") / "agree.mjs"
    subprocess.run(["node", WEB / "client" / "agree.mjs", program], check=True)
    running = Browser(program)
    yield running
    running.close()


ENDS = np.array([MIN_ITEM_ENTRY, -MIN_ITEM_ENTRY, MAX_ITEM_ENTRY, -MAX_ITEM_ENTRY])


@st.composite
def worlds(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a manifest, an item matrix, one person's items and words; the ends of all bounds too."""
    mechanism = draw(st.sampled_from(IN_BROWSER))
    items, factors = draw(st.integers(1, 300)), draw(st.integers(1, 9))
    stream = np.random.default_rng(draw(st.integers(0, 2**32)))
    V = stream.normal(0, draw(st.sampled_from([1e-3, 0.3, 20.0])), (items, factors))
    V[stream.random(V.shape) < draw(st.sampled_from([0.0, 0.5, 1.0]))] = 0
    ends = draw(st.sampled_from([0.0, 0.0, 0.3]))
    V = np.where(stream.random(V.shape) < ends, stream.choice(ENDS, V.shape), V)
    if draw(st.booleans()):  # equations of rank 1: the rounding says whether they can be solved
        V[:] = V[0]
    reports = draw(st.integers(1, 12))
    words = stream.integers(0, 2**64, (reports + 1, 4), dtype=np.uint64)
    for word in draw(st.lists(st.sampled_from([0, 1, 2**63, 2**64 - 1]), max_size=4)):
        words[stream.integers(reports + 1), stream.integers(4)] = word
    changes = {
        "mechanism": mechanism,
        "items": items,
        "factors": factors,
        "reports": reports,
        "parameters": draw(parameters(mechanism, items, factors)),
        "loud_fraction": 0.5,
        "dummies": 0,
        "max_items": 300,
        "epsilon": draw(st.floats(1e-6, 40)),
        "alpha": draw(st.floats(0, 100) | st.sampled_from([0.0, 1024.0])),
        "regularization": draw(st.floats(1e-6, 10) | st.sampled_from([MIN_RIDGE, 1e6])),
    }
    own = draw(st.lists(st.integers(0, items - 1), max_size=40))
    return {
        "changes": changes,
        "V": round_items(V.astype(np.float32)),
        "own": own,
        "words": words,
    }


def hexadecimal(words: np.ndarray) -> list[str]:
    return [f"{int(word):016x}" for word in words.ravel()]


def reports_here(one: Manifest, world: dict[str, Any]) -> list[int]:
    """Return the reports of the Python client."""
    V, h = world["V"], Histories.from_lists([world["own"]], one.items)
    X = solve_user_vectors(V, h, alpha=one.alpha, regularization=one.regularization)
    reports = one.build().reports(V, X, h, world["words"][None])
    return [int(report) for report in reports.ravel()]


@settings(max_examples=150)
@given(world=worlds(), name=st.binary(min_size=16, max_size=16))
def test_the_same_words_give_the_same_reports_which_open_here(
    browser: Browser, world: dict[str, Any], name: bytes
) -> None:
    signed = SignedManifest.make(manifest(**world["changes"]), signing_key())
    asked = {
        "signed": signed.encode().hex(),
        "key": VERIFICATION_KEY,
        "model": encode_items(world["V"]).hex(),
        "own": world["own"],
        "words": hexadecimal(world["words"]),
        "id": name.hex(),
    }
    answer = browser.ask("batch", **asked)
    wanted = reports_here(signed.manifest, world)
    assert answer["reports"] == wanted
    assert [2 * row["index"] + row["bit"] for row in answer["readable"]] == wanted
    batch = Batch.decode(bytes.fromhex(answer["batch"]), signed.manifest.terms.reports)
    assert (batch.epoch, batch.manifest_hash, batch.id) == (3, signed.hash, name)
    directions = signed.manifest.build().n_directions
    opened = open_reports(batch.sealed, EPOCH_KEY, signed.hash, directions)
    assert (opened.reports.tolist(), opened.undecodable) == (wanted, 0)


@settings(max_examples=150)
@given(world=worlds(), exponent=st.integers(0, 10), data=st.data())
def test_loudest_agrees_for_every_block_and_number_of_loud_directions(
    browser: Browser, world: dict[str, Any], exponent: int, data: st.DataObject
) -> None:
    """Compare the rows of a gradient to the last bit, and the reports that are made of them."""
    items, factors = (world["changes"][name] for name in ("items", "factors"))
    most = Loudest(Shape(items, factors, 1.0), 1.0, block=1 << exponent).n_directions
    loud = data.draw(st.integers(1, most))
    parameters = {"directions_seed": 7, "block": 1 << exponent, "loud": loud}
    changes = {**world["changes"], "mechanism": "loudest", "parameters": parameters}
    signed = SignedManifest.make(manifest(**changes), signing_key())
    one, V, mechanism = signed.manifest, world["V"], signed.manifest.build()
    asked = {"signed": signed.encode().hex(), "key": VERIFICATION_KEY, "own": world["own"]}
    asked["model"] = encode_items(V).hex()
    answer = browser.ask("rows", **asked)
    h = Histories.from_lists([world["own"]], one.items)
    X = solve_user_vectors(V, h, alpha=one.alpha, regularization=one.regularization)
    assert isinstance(mechanism, Loudest)
    assert answer["rows"] == mechanism.blocks.compute_rows(V, X, h).ravel().tolist()
    answer = browser.ask("batch", **asked, words=hexadecimal(world["words"]), id="00" * 16)
    assert answer["reports"] == reports_here(one, world)


AMOUNTS = st.sampled_from([0.1, 0.2, 0.3, 2.5, 1.0, 5e-324, 1e-6, 1e300]) | st.floats(
    0, exclude_min=True, allow_infinity=False
)
CHARGES = st.fixed_dictionaries(
    {
        "training": st.sampled_from(["00" * 16, "0f" * 16]),
        "epoch": st.integers(0, 3),
        "purpose": st.integers(0, 5).map(lambda number: f"{number:064x}"),
        "mechanism": st.sampled_from(IN_BROWSER),
        "epsilon": AMOUNTS,
        "reports": st.integers(1, 10) | st.integers(1, 2**53 - 1),
        "loud_fraction": st.sampled_from([0.1, 0.5]),
        "clients": st.sampled_from([1, 100]),
        "dummies": st.sampled_from([0, 7]),
    }
)
SAID = ("decision", "spent", "shown")
LIMITS = st.fixed_dictionaries({"limit": st.sampled_from([0.0, 1.0]) | AMOUNTS})
STEPS = st.lists(LIMITS | st.fixed_dictionaries({"charge": CHARGES}), max_size=15)


@settings(max_examples=150)
@given(first=LIMITS, steps=STEPS)
def test_both_ledgers_decide_alike(
    browser: Browser, first: dict[str, float], steps: list[dict[str, Any]]
) -> None:
    wanted = [{key: step.get(key) for key in SAID} for step in played([first, *steps])]
    assert browser.ask("ledger", steps=[first, *steps])["answers"] == wanted


@st.composite
def damaged(draw: st.DrawFn, raw: bytes) -> bytes:
    """Replace a few bytes: often it is still JSON, seldom still a file of ours."""
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(raw)))
        out = draw(st.integers(0, 3))
        put = draw(st.sampled_from([b"", b"0", b"9", b"-", b" ", b'"', b",", b"\\u0031", b"\xff"]))
        raw = raw[:at] + put + raw[at + out :]
    return raw


def agree(answer: dict[str, Any], here: object | None) -> bool:
    """Return whether both read it; fail if only one of them refuses it."""
    if here is not None:
        assert "error" not in answer, answer
        return True
    assert answer.get("error") == "ProtocolError", answer
    return False


def read_here(read: Any, raw: bytes) -> Any:
    try:
        return read(raw)
    except ProtocolError:
        return None


@settings(max_examples=300)
@given(raw=damaged(PLAIN.encode()))
def test_both_read_and_refuse_the_same_manifests(browser: Browser, raw: bytes) -> None:
    assume(raw)
    signed = SignedManifest.magic + b"\0" + signing_key().sign(SignedManifest.label + raw) + raw
    answer = browser.ask("manifest", signed=signed.hex(), key=VERIFICATION_KEY)
    here = read_here(Manifest.decode, raw)
    if agree(answer, here):
        asked = [here.epoch, here.terms.epsilon, here.terms.reports]
        public = [here.alpha, here.regularization, here.closes, here.epochs_left]
        assert answer["fields"] == [*asked, *public]
        assert answer["terms"] == here.terms.as_dict()


NAMED = replace(
    PLAIN,
    terms=replace(PLAIN.terms, mechanism="named", parameters={"names": 6}, factors=1),
)


@settings(max_examples=60)
@given(names=st.integers(0, 12) | st.integers(2**25 - 2, 2**25 + 2))
def test_both_accept_and_refuse_the_same_numbers_of_names(browser: Browser, names: int) -> None:
    raw = NAMED.encode().replace(b'"names":6', b'"names":%d' % names)
    signed = SignedManifest.magic + b"\0" + signing_key().sign(SignedManifest.label + raw) + raw
    answer = browser.ask("manifest", signed=signed.hex(), key=VERIFICATION_KEY)
    is_valid = names % 2 == 0 and NAMED.items < names <= 2 * MAX_ITEMS
    assert agree(answer, read_here(Manifest.decode, raw)) == is_valid


@settings(max_examples=300)
@given(raw=damaged(catalogue().raw))
def test_both_read_and_refuse_the_same_catalogues(browser: Browser, raw: bytes) -> None:
    answer = browser.ask("catalogue", bytes=raw.hex())
    here = read_here(Catalogue.decode, raw)
    if agree(answer, here):
        assert answer["items"] == [[i.id, i.title, as_json(i.tags)] for i in here.items]


MODEL = encode_items(
    np.array([[0.5, -0.25], [0.125, MAX_ITEM_ENTRY], [-0.0, MIN_ITEM_ENTRY]], np.float32)
)


@settings(max_examples=300)
@given(raw=damaged(MODEL))
def test_both_read_and_refuse_the_same_models(browser: Browser, raw: bytes) -> None:
    answer = browser.ask("model", bytes=raw.hex(), items=3, factors=2)
    here = read_here(lambda data: decode_items(data, 3, 2), raw)
    if agree(answer, here):
        assert answer["values"] == here.ravel().tolist()


def test_an_undamaged_file_of_each_kind_is_read(browser: Browser) -> None:
    """Read them: the three tests above would pass for clients that refuse everything."""
    signed = SignedManifest.make(replace(manifest(), epoch=9), signing_key())
    answer = browser.ask("manifest", signed=signed.encode().hex(), key=VERIFICATION_KEY)
    assert (answer["hash"], answer["fields"][0]) == (signed.hash.hex(), 9)
    assert browser.ask("catalogue", bytes=catalogue().raw.hex())["items"]
    assert browser.ask("model", bytes=MODEL.hex(), items=3, factors=2)["values"][0] == 0.5


def test_a_token_of_the_browser_is_issued_and_redeemed(browser: Browser, tmp_path: Path) -> None:
    with run_with_accounts(tmp_path) as stack:
        gate, manifest = stack.gates["east"], stack.gates["east"].get_signed().manifest
        assert manifest.next_token_key is not None
        key, batch_id = manifest.next_token_key.hex(), b"browser's token!"
        own = {"epoch": manifest.epoch + 1, "id": batch_id.hex()}

        def ask(state: str | None) -> tuple[bytes, str]:
            attestation = make_backend(stack, "ann")().hex()
            request = browser.ask("request", **own, attestation=attestation, state=state)
            return gate.make_api().token(bytes.fromhex(request["bytes"])), request["state"]

        _, state = ask(None)
        answer, _ = ask(state)  # the first answer was not heard
        request = browser.ask("finalize", state=state, answer=answer.hex(), key=key)
        other = Issuer(bytes(range(32))).public_key.hex()
        refused = browser.ask("finalize", state=state, answer=answer.hex(), key=other)
        assert refused["error"] == "UntrustedError"
        stack.end_epoch()
        token = Token(batch_id, bytes.fromhex(request["output"]))
        assert spend(stack, replace(token, id=bytes(16))) == 409
        assert spend(stack, token) == 202
