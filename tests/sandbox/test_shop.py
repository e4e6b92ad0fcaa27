"""The backend of the toy shop, and those of the guide: all three sign alike."""

import re
import shutil
import subprocess
from pathlib import Path

import anyio

from sottovoce.protocol.tokens import Attestation
from sottovoce.sandbox.shop import Backend, build_shop
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


def test_shop_attests_a_name_and_refuses_a_request_without_one() -> None:
    app = build_shop(BACKEND, "<h1>A toy shop</h1>", [], clock=lambda: NOW)

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
