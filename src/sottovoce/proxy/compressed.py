"""Catalogues, compressed once and kept."""

from __future__ import annotations

import threading
from collections import OrderedDict

from sottovoce.service.files import compress

MOST = 2
"""A training has one catalogue; a second is there while clients change over to another training."""


class Compressed:
    """By hash; whoever asks first waits for it, and so does everybody who asks meanwhile."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, name: str, content: bytes) -> bytes:
        with self._lock:
            if name not in self._kept:
                self._kept[name] = compress(content)
            self._kept.move_to_end(name)
            while len(self._kept) > MOST:
                self._kept.popitem(last=False)
            return self._kept[name]
