"""Anonymous tokens: each account reports once in an epoch, and no report reveals its account.

The product's backend attests that a pseudonym belongs to an account. In each epoch the proxy
evaluates one blinded batch id for each account, with a secret key. The device unblinds the result,
which is its token for the next epoch. The signed manifest states the public key, and the device
verifies that the proxy has used it. So the proxy cannot mark a device by using a special key for
it. The proxy recognises its tokens, but cannot tell which account it made a token for.

The scheme is the VOPRF (verifiable oblivious pseudorandom function) of RFC 9497, used as in Privacy
Pass (RFC 9576, 9578). It uses ristretto255-SHA512 instead of P-384, with which the proxy checks a
token fifty times as fast.
"""

from collections.abc import Callable
from dataclasses import dataclass
from hmac import compare_digest
from secrets import token_bytes
from typing import Any, Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sottovoce.errors import MissingExtraError, ProtocolError, RefusedError, UntrustedError
from sottovoce.protocol.signing import KEY_BYTES, SIGNATURE_BYTES, has_valid_signature

# The signature of an attestation is over this label, the service's first verification key, the
# pseudonym and the expiry, one after the other.
ATTESTATION_LABEL = b"sottovoce account 2\x00"
# The input of the VOPRF is this prefix followed by the id of the batch.
TOKEN_INPUT_PREFIX = b"sottovoce token 2\x00"
PSEUDONYM_BYTES = 32
# Size of pseudonym, expiry (8 bytes) and signature.
ATTESTATION_BYTES = PSEUDONYM_BYTES + 8 + SIGNATURE_BYTES
BLINDED_BYTES = 32
# Size of the proxy's answer: a proof (64 bytes) that the manifest's key was used, and the evaluated
# element (32 bytes).
EVALUATED_BYTES = 96
# Size of the output of the VOPRF, which a batch contains.
OUTPUT_BYTES = 64
# The proxy refuses attestations that are valid for longer than this.
MAX_ATTESTATION_SECONDS = 3600
_REQUEST_MAGIC = b"SVT2"
# Size of magic, epoch (4 bytes), attestation and blinded element.
REQUEST_BYTES = len(_REQUEST_MAGIC) + 4 + ATTESTATION_BYTES + BLINDED_BYTES


@dataclass(frozen=True)
class Attestation:
    """A signed statement that a pseudonym belongs to an account of a service.

    It is valid for a short time. The columns are offset, size in bytes, and content:

    0   32  pseudonym: always the same for one account, and not the account's name
    32   8  expiry, Unix seconds, little endian
    40  64  Ed25519 signature by the product's backend
    """

    pseudonym: bytes
    expiry: int
    signature: bytes

    @classmethod
    def make(cls, key: Ed25519PrivateKey, service: bytes, pseudonym: bytes, expiry: int) -> Self:
        """Sign an attestation.

        Args:
            key: The private key of the product's backend.
            service: The first verification key of the service's server.
            pseudonym: The pseudonym of the account.
            expiry: The Unix second from which the attestation is no longer valid.
        """
        return cls(pseudonym, expiry, key.sign(_signed_text(service, pseudonym, expiry)))

    def encode(self) -> bytes:
        return self.pseudonym + self.expiry.to_bytes(8, "little") + self.signature

    @classmethod
    def decode(cls, data: bytes) -> Self:
        if len(data) != ATTESTATION_BYTES:
            raise ProtocolError(
                f"attestation has {len(data)} bytes; it must have {ATTESTATION_BYTES}"
            )
        expiry = int.from_bytes(data[PSEUDONYM_BYTES : PSEUDONYM_BYTES + 8], "little")
        return cls(data[:PSEUDONYM_BYTES], expiry, data[-SIGNATURE_BYTES:])

    def check(self, key: bytes, service: bytes, now: float) -> None:
        """Verify the signature and the expiry.

        Args:
            key: The verification key of the product's backend.
            service: The first verification key of the service's server.
            now: The time of day, in Unix seconds.

        Raises:
            UntrustedError: The signature is not valid, or the attestation has expired or is valid
                for too long.
        """
        if not has_valid_signature(
            key, self.signature, _signed_text(service, self.pseudonym, self.expiry)
        ):
            raise UntrustedError("attestation must be signed by this product's backend")
        # With an attestation that is valid for ever, a closed account could report for ever.
        if not now < self.expiry <= now + MAX_ATTESTATION_SECONDS:
            raise UntrustedError(
                "attestation has expired, or expires too late: it must be valid for at most "
                f"{MAX_ATTESTATION_SECONDS} seconds"
            )


def _signed_text(service: bytes, pseudonym: bytes, expiry: int) -> bytes:
    return ATTESTATION_LABEL + service + pseudonym + expiry.to_bytes(8, "little")


@dataclass(frozen=True)
class TokenRequest:
    """A device's request for a token for the next epoch.

    The columns are offset, size in bytes, and content:

    0    4  "SVT2"
    4    4  epoch, little endian
    8  104  attestation
    112 32  the blinded element
    """

    epoch: int
    attestation: Attestation
    blinded: bytes

    def encode(self) -> bytes:
        epoch = self.epoch.to_bytes(4, "little")
        return _REQUEST_MAGIC + epoch + self.attestation.encode() + self.blinded

    @classmethod
    def decode(cls, data: bytes) -> Self:
        if len(data) != REQUEST_BYTES or data[:4] != _REQUEST_MAGIC:
            raise ProtocolError(
                f"token request must have {REQUEST_BYTES} bytes and begin with "
                f"{_REQUEST_MAGIC.decode()}"
            )
        attestation = Attestation.decode(data[8 : 8 + ATTESTATION_BYTES])
        return cls(int.from_bytes(data[4:8], "little"), attestation, data[-BLINDED_BYTES:])


@dataclass(frozen=True)
class Token:
    """The right of an account to send one batch in one epoch."""

    id: bytes
    """The id of the batch, drawn at random by the device."""
    output: bytes
    """The output of the VOPRF for the id. Neither the device nor the proxy can choose it."""


class Issuer:
    """The proxy's part of the VOPRF, with the secret key of one epoch's tokens.

    Args:
        seed: The secret that the key is derived from (see `draw_seed`).
    """

    def __init__(self, seed: bytes):
        self._evaluator = _ristretto().Evaluator(seed)
        self.public_key: bytes = self._evaluator.public_key.serialize()

    def evaluate(self, blinded: bytes) -> bytes:
        """Evaluate a blinded element; raise a `ProtocolError` if it is malformed."""
        try:
            element = _ristretto().BlindedInput.deserialize(blinded)
        except ValueError as error:
            raise ProtocolError(f"token request: {error}") from error
        answer: bytes = self._evaluator.evaluate(element).serialize()
        return answer

    def check(self, token: Token) -> None:
        """Raise a `RefusedError` unless the token was made with this key."""
        expected = self._evaluator.evaluate_known_input(TOKEN_INPUT_PREFIX + token.id)
        # Compare in constant time, so that the duration does not reveal how many bytes of a guessed
        # token are right.
        if not compare_digest(expected, token.output):
            raise RefusedError("this token was not issued for this epoch")


def blind_token(batch_id: bytes) -> tuple[bytes, Callable[[bytes, bytes], Token]]:
    """Blind the id of a batch, which is the first step of making a token for the batch.

    Returns:
        The blinded element to send to the proxy, and a function. The function makes the token from
        the proxy's answer and the token key of the manifest. It raises an `UntrustedError` if the
        proxy used another key.
    """
    module = _ristretto()
    client, element = module.Client.blind(TOKEN_INPUT_PREFIX + batch_id)

    def finalize(answer: bytes, public_key: bytes) -> Token:
        try:
            evaluated = module.VerifiableOutput.deserialize(answer)
            key = module.PublicKey.deserialize(public_key)
            return Token(batch_id, client.finalize(evaluated, key))
        except ValueError as error:
            raise UntrustedError(
                f"the token was not made with the manifest's key: {error}"
            ) from error

    return element.serialize(), finalize


def draw_seed() -> bytes:
    """Draw the secret from which an `Issuer` derives its key."""
    return token_bytes(KEY_BYTES)


def _ristretto() -> Any:
    # `voprf` is an optional dependency: only services with accounts need it.
    try:
        from voprf import ristretto
    except ImportError as error:
        message = "accounts need voprf: pip install 'sottovoce[accounts]'"
        raise MissingExtraError(message) from error
    return ristretto
