"""Tokens and attestations: the RFC's numbers, and what is refused."""

from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as some
from voprf import ristretto

from sottovoce.errors import ProtocolError, RefusedError, UntrustedError
from sottovoce.protocol.tokens import (
    BLINDED_BYTES,
    EVALUATED_BYTES,
    MAX_ATTESTATION_SECONDS,
    OUTPUT_BYTES,
    REQUEST_BYTES,
    Attestation,
    Issuer,
    TokenRequest,
    blind_token,
)

BACKEND_KEY = Ed25519PrivateKey.generate()
SERVICE_KEY = bytes(range(32))
NOW = 1_800_000_000
# RFC 9497, A.1.2 (ristretto255-SHA512, VOPRF): input, blinded element, evaluation, output.
RFC_VECTORS = [
    (
        "00",
        "863f330cc1a1259ed5a5998a23acfd37fb4351a793a5b3c090b642ddc439b945",
        "aa8fa048764d5623868679402ff6108d2521884fa138cd7f9c7669a9a014267e",
        (
            "b58cfbe118e0cb94d79b5fd6a6dafb98764dff49c14e1770b566e42402da1a7d"
            "a4d8527693914139caee5bd03903af43a491351d23b430948dd50cde10d32b3c"
        ),
    ),
    (
        "5a" * 17,
        "cc0b2a350101881d8a4cba4c80241d74fb7dcbfde4a61fde2f91443c2bf9ef0c",
        "60a59a57208d48aca71e9e850d22674b611f752bed48b36f7a91b372bd7ad468",
        (
            "8a9a2f3c7f085b65933594309041fc1898d42d0858e59f90814ae90571a6df60"
            "356f4610bf816f27afdd84f47719e480906d27ecd994985890e5f539e7ea74b6"
        ),
    ),
]


def test_library_reproduces_the_rfc_vectors() -> None:
    server = ristretto.Evaluator.from_seed(b"\xa3" * 32, b"test key")
    public = "c803e2cc6b05fc15064549b5920659ca4a77b2cca6f04f6b357009335476ad4e"
    assert server.public_key.serialize().hex() == public
    for given_input, element, evaluated, output in RFC_VECTORS:
        asked = ristretto.BlindedInput.deserialize(bytes.fromhex(element))
        assert server.evaluate(asked).serialize()[-BLINDED_BYTES:].hex() == evaluated
        assert server.evaluate_known_input(bytes.fromhex(given_input)).hex() == output
        client, own = ristretto.Client.blind(bytes.fromhex(given_input))
        assert own.serialize().hex() != element, "blinded anew each time"
        assert client.finalize(server.evaluate(own), server.public_key).hex() == output


def test_token_is_valid_for_its_key_and_id_only() -> None:
    issuer, other = Issuer(b"1" * 32), Issuer(b"2" * 32)
    element, finalize = blind_token(b"a" * 16)
    answer = issuer.evaluate(element)
    token = finalize(answer, issuer.public_key)
    assert (len(element), len(answer), len(token.output)) == (
        BLINDED_BYTES,
        EVALUATED_BYTES,
        OUTPUT_BYTES,
    )
    issuer.check(token)
    changed = bytes([token.output[0] ^ 1]) + token.output[1:]
    for bad in (replace(token, id=b"b" * 16), replace(token, output=changed)):
        with pytest.raises(RefusedError):
            issuer.check(bad)
    with pytest.raises(RefusedError):
        other.check(token)
    lies = [
        other.evaluate(element),
        answer[:-1],
        answer[:-1] + b"\xff",
        bytes(EVALUATED_BYTES),
        b"",
    ]
    for lie in lies:
        with pytest.raises(UntrustedError):
            finalize(lie, issuer.public_key)
    with pytest.raises(UntrustedError):
        finalize(answer, bytes(32))


@given(some.binary(max_size=REQUEST_BYTES + 1))
def test_any_bytes_are_a_request_or_refused(data: bytes) -> None:
    for read in (TokenRequest.decode, Attestation.decode, Issuer(bytes(32)).evaluate):
        try:
            result = read(data)
        except ProtocolError:
            continue
        assert isinstance(result, bytes) or result.encode() == data


def test_attestation_is_for_one_service_and_a_short_time() -> None:
    created = Attestation.make(BACKEND_KEY, SERVICE_KEY, b"p" * 32, NOW + 60)
    key = BACKEND_KEY.public_key().public_bytes_raw()
    assert Attestation.decode(created.encode()) == created
    created.check(key, SERVICE_KEY, NOW)
    stranger = Ed25519PrivateKey.generate()
    wrong = [
        (created, key, SERVICE_KEY, NOW + 60),
        (created, key, SERVICE_KEY, NOW + 60 - MAX_ATTESTATION_SECONDS - 1),
        (created, key, bytes(32), NOW),
        (created, stranger.public_key().public_bytes_raw(), SERVICE_KEY, NOW),
        (replace(created, pseudonym=b"q" * 32), key, SERVICE_KEY, NOW),
        (replace(created, expiry=NOW + 61), key, SERVICE_KEY, NOW),
        (Attestation.make(stranger, SERVICE_KEY, b"p" * 32, NOW + 60), key, SERVICE_KEY, NOW),
    ]
    for attestation, by, service, now in wrong:
        with pytest.raises(UntrustedError):
            attestation.check(by, service, now)
