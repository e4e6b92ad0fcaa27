"""Invented people who report next to somebody who tries a service out: `sottovoce up --trial`."""

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from random import Random

import httpx

from sottovoce.client import HttpProxy
from sottovoce.errors import SottovoceError
from sottovoce.protocol import Catalogue
from sottovoce.sandbox.demo import take_part

COMPANIONS = 10
"""New ones in every epoch."""
TOUCHED = 6
"""Items of each, at most: of one kind, where items have labels."""
AGAIN = 5.0
"""Seconds after which they look whether there is an epoch again."""
TRIAL = {"epoch_seconds": 20, "least_clients": 5}
"""Epochs that end by themselves, with or without the person who tries it."""


def companions(catalogue: Catalogue, random: Random) -> Iterator[list[int]]:
    """By the rows that they touched: each likes what has one label, or anything."""
    tastes: dict[str, list[int]] = {}
    for row, item in enumerate(catalogue.items):
        for labels in item.tags.values():
            for label in labels if isinstance(labels, tuple) else ():
                tastes.setdefault(label, []).append(row)
    liked = [rows for rows in tastes.values() if len(rows) > 1] or [[*range(len(catalogue.items))]]
    while True:
        rows = random.choice(liked)
        yield sorted(random.sample(rows, min(TOUCHED, len(rows))))


def begin_companions(url: str, key: bytes) -> None:
    """In a thread that ends with the process; they have no ledger and no database."""

    def run() -> None:
        random = Random()  # noqa: S311 - of people, not of reports
        with httpx.Client(trust_env=False) as http:
            api = HttpProxy(http, url)
            while True:  # whatever fails, they try again
                with suppress(SottovoceError):
                    take_part(api, key, lambda shop: companions(shop, random), COMPANIONS)
                time.sleep(AGAIN)

    threading.Thread(target=run, daemon=True, name="companions").start()
