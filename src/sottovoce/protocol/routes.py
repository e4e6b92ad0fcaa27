"""Every path of the HTTP protocol, once: who answers routes by it, who asks fills it in.

>>> WAITING.format(epoch=7)
'/v1/epochs/7/waiting'
"""

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
