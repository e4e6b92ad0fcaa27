"""The backends of the toy shop and of the guide, which sign alike, and what volunteers publish."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import anyio

from sottovoce.data import load
from sottovoce.protocol.tokens import Attestation
from sottovoce.sandbox.shop import (
    MAX_PUBLISHED_ARTICLES,
    MAX_PUBLISHED_BYTES,
    VOLUNTEERS_FILE,
    Backend,
    Volunteers,
    build_shop,
)
from sottovoce.simulation.start import learn_table_start
from tests.asgi import ask
from tests.lacking import leave_out

GUIDE = (Path(__file__).parents[2] / "docs" / "products.md").read_text(encoding="utf-8")
SERVICE = "ab" * 32
NOW = 1_800_000_000.0
BACKEND = Backend.create(SERVICE)


def check(data: bytes, now: float = NOW) -> bytes:
    """Return the pseudonym that a proxy reads in an attestation."""
    attestation = Attestation.decode(data)
    attestation.check(bytes.fromhex(BACKEND.verification_key), bytes.fromhex(SERVICE), now)
    return attestation.pseudonym


def test_shop_attests_a_name_and_refuses_a_request_without_one(tmp_path: Path) -> None:
    volunteers = Volunteers(tmp_path / VOLUNTEERS_FILE)
    app = build_shop(BACKEND, "<h1>A toy shop</h1>", [], volunteers, clock=lambda: NOW)

    def post(authorization: str) -> tuple[int, bytes]:
        headers = [("authorization", authorization)] if authorization else []
        answer = anyio.run(lambda: ask(app, "POST", "/attest", headers=headers))
        return answer.status, answer.body

    answers = [post(f"Bearer {name}") for name in ("ann", "ann", "otto")]
    assert {status for status, _ in answers} == {200}
    ann, again, otto = (check(body) for _, body in answers)
    assert ann == again != otto, "a pseudonym belongs to an account, on all its devices"
    assert b"ann" not in ann
    for wrong in ("", "Bearer ", "Basic ann", "ann"):
        assert post(wrong)[0] == 401
    answer = anyio.run(lambda: ask(app, "GET", "/"))
    assert (answer.status, answer.body) == (200, b"<h1>A toy shop</h1>")


def test_what_volunteers_publish_becomes_a_start(tmp_path: Path) -> None:
    volunteers = Volunteers(tmp_path / VOLUNTEERS_FILE)
    app = build_shop(BACKEND, "", [], volunteers)

    def publish(body: bytes, kind: str = "application/json") -> int:
        headers = [("content-type", kind)]
        return anyio.run(lambda: ask(app, "POST", "/publish", body, headers)).status

    def make_body(articles: object, consent: str = "public") -> bytes:
        return json.dumps({"articles": articles, "consent": consent}).encode()

    valid = make_body(["a", "b, c", "a"])
    assert publish(valid, "text/plain") == 415
    assert publish(valid.ljust(MAX_PUBLISHED_BYTES + 1)) == 413
    too_many = ["a"] * (MAX_PUBLISHED_ARTICLES + 1)
    wrong: list[object] = [[], "a", [1], [""], ["\ud800"], ["a\n"], ["=1"], too_many, None]
    for body in (*map(make_body, wrong), make_body(["a"], "yes"), b"[]", b"[" * 99_999, b"\xff"):
        assert publish(body) == 400, body[:30]
    assert not volunteers.path.exists()
    assert (publish(valid), publish(make_body(["b, c"]))) == (201, 201)
    published = anyio.run(lambda: ask(app, "GET", "/publish")).body
    assert published == volunteers.path.read_bytes()
    data = load(str(volunteers.path))
    start = learn_table_start(data, {"a": 0, "b, c": 1, "d": 2}, "volunteers", "public")
    assert start.provenance.people == data.n_users == 2
    assert start.V.any(axis=1).tolist() == [True, True, False]


def test_backends_of_the_guide_sign_like_the_shop(tmp_path: Path) -> None:
    python, node = (
        re.search(rf"```{kind}\n([^`]*def attest|[^`]*function attest)[^`]*```", GUIDE)
        for kind in ("python", "js")
    )
    assert python is not None
    assert node is not None
    keys = {"SERVICE": SERVICE, "SECRET": BACKEND.secret, "SIGNING_KEY": BACKEND.signing_key}
    values = {name: bytes.fromhex(value) for name, value in keys.items()}
    code = python[0].removeprefix("```python\n").removesuffix("```")
    exec(code, values)
    attestation = values["attest"]("ann")  # type: ignore[operator]
    expected = check(BACKEND.attest("ann", NOW))
    assert check(attestation, Attestation.decode(attestation).expiry - 300) == expected
    program = shutil.which("node")
    if program is None:
        leave_out("the guide's backend for Node")
    consts = "".join(
        f'const {name} = Buffer.from("{value}", "hex");' for name, value in keys.items()
    )
    code = node[0].removeprefix("```js\n").removesuffix("```")
    (tmp_path / "attest.mjs").write_text(f"{code}\n{consts}\nprocess.stdout.write(attest('ann'));")
    run = subprocess.run([program, "attest.mjs"], cwd=tmp_path, capture_output=True, check=True)
    assert check(run.stdout, Attestation.decode(run.stdout).expiry - 300) == expected
