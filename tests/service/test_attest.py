"""The small backend, and those of the guide: all three sign alike."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import anyio
import pytest

from sottovoce.errors import SettingsError
from sottovoce.protocol.tokens import Attestation
from sottovoce.service.attest import Attester, build_attester, read_sessions
from tests.asgi import ask
from tests.lacking import leave_out

GUIDE = (Path(__file__).parents[2] / "docs" / "products.md").read_text()
SERVICE = "ab" * 32
NOW = 1_800_000_000.0


@pytest.fixture
def attester(tmp_path: Path) -> Attester:
    attester = Attester.new(SERVICE)
    attester.write(tmp_path / "attest.json")
    assert Attester.read(tmp_path / "attest.json") == attester
    with pytest.raises(SettingsError):
        attester.write(tmp_path / "attest.json")
    return attester


def check(attester: Attester, data: bytes, now: float = NOW) -> bytes:
    """Return the pseudonym that a proxy finds in an attestation."""
    attestation = Attestation.decode(data)
    attestation.check(bytes.fromhex(attester.verification_key), bytes.fromhex(SERVICE), now)
    return attestation.pseudonym


def test_a_session_gets_what_a_proxy_believes_and_others_get_nothing(
    attester: Attester, tmp_path: Path
) -> None:
    (tmp_path / "sessions").write_text("s3cret ann\nother ann\nthird otto\n")
    app = build_attester(attester, read_sessions(tmp_path / "sessions"), clock=lambda: NOW)

    def asked(authorization: str) -> tuple[int, bytes]:
        headers = [("authorization", authorization)] if authorization else []
        answer = anyio.run(lambda: ask(app, "POST", "/attest", headers=headers))
        return answer.status, answer.body

    answers = [asked(f"Bearer {session}") for session in ("s3cret", "other", "third")]
    assert {status for status, _ in answers} == {200}
    ann, again, otto = (check(attester, body) for _, body in answers)
    assert ann == again != otto, "a pseudonym is an account's, on all its devices"
    assert b"ann" not in ann
    for wrong in ("", "Bearer ", "Bearer nobody", "Basic s3cret", "s3cret"):
        assert asked(wrong)[0] == 401


def test_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "sessions").write_text("alone\n")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for name in ("sessions", "binary", "missing"):
        with pytest.raises(SettingsError):
            read_sessions(tmp_path / name)
    whole = dict.fromkeys(("service", "signing_key", "secret"), "00" * 32)
    short = [json.dumps({**whole, name: wrong}) for name in whole for wrong in ("", "00")]
    for text in ("", "{}", *short, json.dumps({**whole, "secret": "zz" * 32})):
        (tmp_path / "attest.json").write_text(text)
        with pytest.raises(SettingsError):
            Attester.read(tmp_path / "attest.json")


def test_the_backends_of_the_guide(attester: Attester, tmp_path: Path) -> None:
    python, node = (
        re.search(rf"```{kind}\n([^`]*def attest|[^`]*function attest)[^`]*```", GUIDE)
        for kind in ("python", "js")
    )
    assert python is not None
    assert node is not None
    keys = {"SERVICE": SERVICE, "SECRET": attester.secret, "SIGNING_KEY": attester.signing_key}
    values = {name: bytes.fromhex(value) for name, value in keys.items()}
    code = python[0].removeprefix("```python\n").removesuffix("```")
    exec(code, values)
    attestation = values["attest"]("ann")  # type: ignore[operator]
    expected = check(attester, attester.attest("ann", NOW))
    assert check(attester, attestation, Attestation.decode(attestation).expiry - 300) == expected
    program = shutil.which("node")
    if program is None:
        leave_out("the guide's backend for Node")
    consts = "".join(
        f'const {name} = Buffer.from("{value}", "hex");' for name, value in keys.items()
    )
    code = node[0].removeprefix("```js\n").removesuffix("```")
    (tmp_path / "attest.mjs").write_text(f"{code}\n{consts}\nprocess.stdout.write(attest('ann'));")
    run = subprocess.run([program, "attest.mjs"], cwd=tmp_path, capture_output=True, check=True)
    assert check(attester, run.stdout, Attestation.decode(run.stdout).expiry - 300) == expected


def test_the_page_of_a_toy_shop_is_shown_where_there_is_one(attester: Attester) -> None:
    with_page = build_attester(attester, None, page="<h1>A toy shop</h1>")
    answer = anyio.run(lambda: ask(with_page, "GET", "/"))
    assert (answer.status, answer.body) == (200, b"<h1>A toy shop</h1>")
    assert anyio.run(lambda: ask(build_attester(attester, None), "GET", "/")).status == 404
