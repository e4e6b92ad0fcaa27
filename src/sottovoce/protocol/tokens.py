"""Tokens: an account reports once in an epoch, and nobody can say which of its reports is whose.

The product's own backend attests that a pseudonym is an account. For each account the proxy
evaluates one blinded number in an epoch, with a key that the signed manifest names: no device can
be given a key of its own. Unblinded, that is a token for the next epoch. The proxy knows it as its
own work, and not for whom it was done.

This is the VOPRF of RFC 9497 as Privacy Pass has it (RFC 9576, 9578), with ristretto255-SHA512 in
the place of P-384: to redeem one takes a fiftieth of the time.
"""

from collections.abc import Callable
from dataclasses import dataclass
from hmac import compare_digest
from secrets import token_bytes
from typing import Any, Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sottovoce.errors import MissingExtraError, ProtocolError, RefusedError, UntrustedError
from sottovoce.protocol.signing import KEY, SIGNATURE, is_signed

SIGNED_ACCOUNT = b"sottovoce account 2\x00"
"""Before the service's first verification key, the pseudonym and the expiry."""
TOKEN_INPUT = b"sottovoce token 2\x00"
"""Before the id of the batch that a token is for."""
PSEUDONYM = 32
ATTESTATION = PSEUDONYM + 8 + SIGNATURE
BLINDED = 32
EVALUATED = 96
"""A proof (64) that the manifest's key was used, and the element."""
OUTPUT = 64
"""Bytes of the VOPRF's output, which a batch shows."""
MOST_AHEAD = 3600
"""Seconds for which an attestation may hold, at most: the proxy takes no longer ones."""
_MAGIC = b"SVT2"
REQUEST = len(_MAGIC) + 4 + ATTESTATION + BLINDED


@dataclass(frozen=True)
class Attestation:
    """That a pseudonym is an account of the product: for one service, for a short time.

    0   32  pseudonym: the same for an account each time, and not its name
    32   8  expiry, Unix seconds, little endian
    40  64  Ed25519 signature by the product's backend
    """

    pseudonym: bytes
    expiry: int
    signature: bytes

    @classmethod
    def make(cls, key: Ed25519PrivateKey, service: bytes, pseudonym: bytes, expiry: int) -> Self:
        """`service` is its first verification key."""
        return cls(pseudonym, expiry, key.sign(_attested(service, pseudonym, expiry)))

    def encode(self) -> bytes:
        return self.pseudonym + self.expiry.to_bytes(8, "little") + self.signature

    @classmethod
    def decode(cls, data: bytes) -> Self:
        if len(data) != ATTESTATION:
            raise ProtocolError(f"attestation: {ATTESTATION} bytes, not {len(data)}")
        expiry = int.from_bytes(data[PSEUDONYM : PSEUDONYM + 8], "little")
        return cls(data[:PSEUDONYM], expiry, data[-SIGNATURE:])

    def check(self, key: bytes, service: bytes, now: float) -> None:
        """`UntrustedError` unless the backend with this key says so of this service, now."""
        if not is_signed(key, self.signature, _attested(service, self.pseudonym, self.expiry)):
            raise UntrustedError("attestation: not signed by this product's backend")
        if not now < self.expiry <= now + MOST_AHEAD:
            raise UntrustedError("attestation: expired, or for too long a time")


def _attested(service: bytes, pseudonym: bytes, expiry: int) -> bytes:
    return SIGNED_ACCOUNT + service + pseudonym + expiry.to_bytes(8, "little")


@dataclass(frozen=True)
class TokenRequest:
    """What a device sends to have a token for an epoch to come.

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
        return _MAGIC + epoch + self.attestation.encode() + self.blinded

    @classmethod
    def decode(cls, data: bytes) -> Self:
        if len(data) != REQUEST or data[:4] != _MAGIC:
            raise ProtocolError(f"token request: {_MAGIC.decode()} and {REQUEST} bytes in all")
        attestation = Attestation.decode(data[8 : 8 + ATTESTATION])
        return cls(int.from_bytes(data[4:8], "little"), attestation, data[-BLINDED:])


@dataclass(frozen=True)
class Token:
    """What an account may spend once, in one epoch."""

    id: bytes
    """Random, drawn by the device: the id of its batch."""
    output: bytes
    """Of the VOPRF, for this id: neither device nor proxy could choose it."""


class Issuer:
    """The secret key of one epoch's tokens."""

    def __init__(self, seed: bytes):
        self._evaluator = _ristretto().Evaluator(seed)
        self.public_key: bytes = self._evaluator.public_key.serialize()

    def evaluate(self, blinded: bytes) -> bytes:
        """A `ProtocolError` for what is no element."""
        try:
            known = _ristretto().BlindedInput.deserialize(blinded)
        except ValueError as error:
            raise ProtocolError(f"token request: {error}") from error
        answer: bytes = self._evaluator.evaluate(known).serialize()
        return answer

    def check(self, token: Token) -> None:
        """`RefusedError` unless it was made with this key."""
        known = self._evaluator.evaluate_known_input(TOKEN_INPUT + token.id)
        if not compare_digest(known, token.output):
            raise RefusedError("this token is not one of this epoch")


def blinded(batch_id: bytes) -> tuple[bytes, Callable[[bytes, bytes], Token]]:
    """What to send for a token of this id, and what makes it of the answer and the public key.

    That checks the proof; `UntrustedError` if another key than the manifest's was used.
    """
    module = _ristretto()
    client, element = module.Client.blind(TOKEN_INPUT + batch_id)

    def finalize(answer: bytes, public_key: bytes) -> Token:
        try:
            evaluated = module.VerifiableOutput.deserialize(answer)
            key = module.PublicKey.deserialize(public_key)
            return Token(batch_id, client.finalize(evaluated, key))
        except ValueError as error:
            raise UntrustedError(
                f"token: not made with the key of the manifest: {error}"
            ) from error

    return element.serialize(), finalize


def new_seed() -> bytes:
    return token_bytes(KEY)


def _ristretto() -> Any:
    """The library, which those alone need that have accounts."""
    try:
        from voprf import ristretto
    except ImportError as error:
        said = "accounts need a library: pip install 'sottovoce[accounts]'"
        raise MissingExtraError(said) from error
    return ristretto
