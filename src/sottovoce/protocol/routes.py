"""The paths of the HTTP protocol, as templates that servers route by and clients fill in.

>>> COMMIT.format(epoch=7)
'/v2/epochs/7/commit'
"""

API_ROOT = "/v2/"
MANIFEST = "/v2/manifest"
MANIFEST_OF = "/v2/manifests/{epoch}"
SHELF = "/v2/shelf"
MODEL = "/v2/models/{sha256}"
CATALOGUE = "/v2/catalogues/{sha256}"
PATCH = "/v2/patches/{sha256}"
BATCHES = "/v2/batches"
TAKEN_BATCH = "/v2/batches/{sha256}"
TOKENS = "/v2/tokens"
CONTACT = "/v2/contact"
CHUNK = "/v2/epochs/{epoch}/chunks/{sha256}"
COMMIT = "/v2/epochs/{epoch}/commit"
