"""Every path of the HTTP protocol: as a template for who answers, filled in for who asks."""

from __future__ import annotations

MANIFEST = "/v1/manifest"
MANIFEST_OF = "/v1/manifests/{epoch}"
MODEL = "/v1/models/{sha256}"
CATALOGUE = "/v1/catalogues/{sha256}"
BATCHES = "/v1/batches"
WAITING = "/v1/epochs/{epoch}/waiting"
CHUNK = "/v1/epochs/{epoch}/chunks/{sha256}"
COMMIT = "/v1/epochs/{epoch}/commit"
HEALTH, READY, METRICS = "/healthz", "/readyz", "/metrics"


def manifest_of(epoch: int) -> str:
    """The manifest of one epoch."""
    return MANIFEST_OF.format(epoch=epoch)


def model(sha256: bytes) -> str:
    """A model file.

    >>> model(bytes(32))[:14]
    '/v1/models/000'
    """
    return MODEL.format(sha256=sha256.hex())


def catalogue(sha256: bytes) -> str:
    """A catalogue file."""
    return CATALOGUE.format(sha256=sha256.hex())


def waiting(epoch: int) -> str:
    """Where a proxy says how many batches it holds."""
    return WAITING.format(epoch=epoch)


def chunk(epoch: int, name: str) -> str:
    """Where a proxy puts a chunk; its name is its hash."""
    return CHUNK.format(epoch=epoch, sha256=name)


def commit(epoch: int) -> str:
    """Where a proxy says that this was all."""
    return COMMIT.format(epoch=epoch)
