"""Small valid examples of every kind of message, and ways to damage them."""

import json
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any

import cryptography_vectors
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import strategies as st

from sottovoce.core import MECHANISMS, Shape
from sottovoce.core.coin import MAX_EPSILON, MIN_EPSILON
from sottovoce.errors import ProtocolError
from sottovoce.protocol import Catalogue, Item, Manifest, Terms, derive_public_key, strict
from sottovoce.training.start import Provenance

SIGNING_SEED = bytes(range(32))
# Seed of the key that the first key names.
NEXT_SEED = bytes(range(64, 96))
EPOCH_KEY = bytes(range(32, 64))

START = Provenance("Voices of volunteers", 600, "2026-01-31", "CC0 1.0")

# Points of small order on Curve25519, two of them with the top bit, which X25519 ignores: the
# shared secret would be zero for everybody.
SMALL_ORDER = [
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
    "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "0000000000000000000000000000000000000000000000000000000000000080",
    "0100000000000000000000000000000000000000000000000000000000000080",
]


def signing_key(seed: bytes = SIGNING_SEED) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(seed)


def terms(**changes: Any) -> Terms:
    plain = Terms(
        training=bytes(range(16)),
        mechanism="loudest",
        parameters={"directions_seed": 7, "block": 4, "loud": 6},
        epsilon=2.5,
        loud_fraction=6 / 32,
        reports=4,
        epochs=20,
        share=0.75,
        min_clients=50,
        hold=604_800,
        dummies=5,
        factors=2,
        max_items=8,
        accounts=False,
        trial=False,
    )
    return replace(plain, **changes)


def manifest(**changes: Any) -> Manifest:
    """Return a manifest with changed fields of its own or of its terms; no name is in both."""
    asked = {item.name for item in fields(Terms)} & set(changes)
    plain = Manifest(
        epoch=3,
        terms=terms(**{name: changes.pop(name) for name in asked}),
        items=5,
        alpha=0.1,
        regularization=1e-6,
        model=bytes(32),
        catalogue=bytes(32),
        public_key=derive_public_key(EPOCH_KEY),
        token_key=None,
        next_token_key=None,
        opens=1_800_000_000,
        closes=1_800_086_400,
        epochs_left=30,
        reports_behind=2_000,
        start=START,
    )
    return replace(plain, **changes)


def as_json(tags: Mapping[str, Any]) -> dict[str, Any]:
    """Return tags in the form of the JSON file."""
    return {kind: list(of) if isinstance(of, tuple) else of for kind, of in tags.items()}


def catalogue() -> Catalogue:
    titles = ["Metropolis", "Nosferatu", "Le voyage dans la lune", "Häxan", "羅生門"]
    return Catalogue.from_items(
        Item(f"film-{number}", title, {"genre": ("silent",), "year": 1927} if number < 4 else {})
        for number, title in enumerate(titles)
    )


def changed(raw: bytes, **values: Any) -> bytes:
    """Replace values of a JSON object, also in its terms; `...` removes a key."""

    def applied(content: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in (content | changes).items() if value is not ...}

    content = json.loads(raw)
    inner = {name: values.pop(name) for name in list(values) if name in content.get("terms", ())}
    if inner:
        content["terms"] = applied(content["terms"], inner)
    return json.dumps(applied(content, values)).encode()


def base_mode_vectors() -> list[dict[str, bytes]]:
    """Return the vectors of RFC 9180 for our suite (0x0020, 0x0001, 0x0001): first messages."""
    with cryptography_vectors.open_vector_file("HPKE/test-vectors.json", "r") as file:
        vectors = json.load(file)
    wanted = {"mode": 0, "kem_id": 0x20, "kdf_id": 1, "aead_id": 1}
    result = [v | v["encryptions"][0] for v in vectors if wanted.items() <= v.items()]
    assert result
    texts = [{k: v for k, v in vector.items() if isinstance(v, str)} for vector in result]
    return [{name: bytes.fromhex(text) for name, text in vector.items()} for vector in texts]


def refuses(decode: Callable[[bytes], object], raw: bytes) -> bool:
    """Tell whether decoding raises a `ProtocolError`; other errors are not caught."""
    try:
        decode(raw)
    except ProtocolError as error:
        message = str(error)
    else:
        return False
    assert message.encode()  # it can be written down: no half of a surrogate pair
    assert len(message) < 2_000
    return True


def damaged(raw: bytes) -> st.SearchStrategy[bytes]:
    """Damage bytes: flip a bit, cut, extend, or repeat a piece."""
    places = st.integers(0, len(raw) - 1)
    return st.one_of(
        st.builds(
            lambda at, bit: raw[:at] + bytes([raw[at] ^ 1 << bit]) + raw[at + 1 :],
            places,
            st.integers(0, 7),
        ),
        places.map(lambda at: raw[:at]),
        places.map(lambda at: raw[at + 1 :]),
        st.binary(min_size=1, max_size=80).map(lambda more: raw + more),
        st.builds(lambda a, b: raw[:a] + raw[b:], places, places),
    )


def nested(depth: int) -> str:
    """Return JSON with this many lists inside each other."""
    return "[" * depth + "]" * depth


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(10**400), 10**400),
    st.floats(),
    st.text(st.characters(codec=None, exclude_categories=()), max_size=8),
    st.sampled_from(["\ud800", "a\udfff", "", "0" * 64, "F" * 64, 2**53, 2**64, 1e308, -0.0, 1.0]),
)
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)


@st.composite
def parameters(draw: st.DrawFn, mechanism: str, items: int, factors: int) -> dict[str, int]:
    """Draw the parameters of a mechanism: chosen at some epsilon, or an example."""
    kind, shape = MECHANISMS[mechanism], Shape(items, factors, 1.0)
    options = {} if draw(st.booleans()) else kind.example
    epsilon, seed = (
        draw(st.floats(MIN_EPSILON, MAX_EPSILON)),
        draw(st.integers(0, strict.MAX_INTEGER)),
    )
    return kind.build(shape, epsilon, seed, options).public_parameters()
