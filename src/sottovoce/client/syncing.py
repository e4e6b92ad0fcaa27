"""One sync, step by step; the package's docstring has the order and the reasons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sottovoce.client.fetching import refresh
from sottovoce.client.reporting import make_batch, pause_before_sending
from sottovoce.errors import ClosedError, LedgerError
from sottovoce.privacy import rounded_down, rounded_up

if TYPE_CHECKING:
    from collections.abc import Callable

    from sottovoce.client.api import ProxyApi
    from sottovoce.client.reporting import Entropy, Words
    from sottovoce.client.store import ClientStore, Waiting
    from sottovoce.protocol import Edition

Outcome = Literal[
    "sent",
    "already sent",
    "already charged",
    "not open",
    "paused",
    "limit reached",
    "too late",
    "nothing asked",
]

SENTENCES: dict[Outcome, str] = {
    "sent": "The batch of epoch {epoch} was sent.",
    "already sent": "The batch of epoch {epoch} had been sent before; nothing more was.",
    "already charged": (
        "A batch of epoch {epoch} was charged before and has been forgotten since; nothing is "
        "reported in this epoch again."
    ),
    "not open": "Epoch {epoch} takes no reports at this time; nothing was sent.",
    "paused": "Reporting is paused; nothing was sent.",
    "limit reached": (
        "The lifetime limit does not allow another batch; nothing was sent, recommending goes on."
    ),
    "too late": (
        "The batch of epoch {epoch} came too late: as far as this device knows it was not counted; "
        "what was charged for it stays spent."
    ),
    "nothing asked": "The model is finished: no reports are asked for, and nothing was sent.",
}


@dataclass(frozen=True)
class Synced:
    epoch: int
    """Of the manifest that holds now."""
    outcome: Outcome
    """What happened to this epoch's batch."""
    lost: int | None
    """An earlier epoch whose batch this sync had to give up, if there was one."""
    spent: float
    """Of the lifetime budget so far; rounded up."""
    remaining: float
    """What is left of it; rounded down."""
    sentence: str
    """All of it in plain words."""


@dataclass(frozen=True)
class Syncing:
    """Everything that one sync works with; the caller holds the folder's lock."""

    store: ClientStore
    api: ProxyApi
    clock: Callable[[], float]
    entropy: Entropy
    words: Words
    sleep: Callable[[float], None]
    jitter: float

    def run(self, *, accept_new_terms: bool) -> Synced:
        """Settle, fetch, take part."""
        left_over = self.store.waiting()
        settled = None if left_over is None else self._deliver(left_over)
        edition = refresh(self.store, self.api, accept_new_terms=accept_new_terms)
        epoch = edition.manifest.epoch
        if left_over is not None and settled is not None and left_over.epoch == epoch:
            return self._result(epoch, settled, None)
        lost = left_over.epoch if left_over is not None and settled == "too late" else None
        return self._result(epoch, self._take_part(edition), lost)

    def _take_part(self, edition: Edition) -> Outcome:
        """At most one batch in an epoch, ever."""
        manifest = edition.manifest
        state, charged = self.store.state(manifest.epoch), self.store.was_charged(manifest.epoch)
        if state == "sent":
            return "already sent"
        if state == "dropped" and charged:
            return "too late"
        if manifest.public_key is None:
            return "nothing asked"
        if self.store.paused or self.store.waiting() is not None:
            return "paused"  # a batch still waits only if its owner said so
        if not manifest.asks_for_reports(self.clock()):
            return "not open"
        if state == "dropped":
            return "limit reached"
        if charged:
            return "already charged"
        rows = edition.rows_of(self.store.items())
        batch = make_batch(edition, rows, self.words, self.entropy)
        return self._deliver(batch) if self.store.keep(batch) else "limit reached"

    def _deliver(self, batch: Waiting) -> Outcome:
        """From charged to sent; every step may be repeated, in this sync or a later one."""
        if self.clock() >= batch.closes:
            self.store.done(batch.epoch, "dropped")
            return "too late"
        if self.store.paused:
            return "paused"
        if not batch.is_what_was_charged:
            raise LedgerError(
                f"the batch of epoch {batch.epoch} is not the one that was charged; it is not sent"
            )
        self._wait(batch)
        return self._send(batch)

    def _wait(self, batch: Waiting) -> None:
        most = min(self.jitter, batch.closes - self.clock())
        if most > 0:
            self.sleep(pause_before_sending(most, self.entropy))

    def _send(self, batch: Waiting) -> Outcome:
        if self.store.paused:  # while we slept
            return "paused"
        try:
            self.api.send(batch.batch)
        except ClosedError:
            self.store.done(batch.epoch, "dropped")
            return "too late"
        self.store.done(batch.epoch, "sent")
        return "sent"

    def _result(self, epoch: int, outcome: Outcome, lost: int | None) -> Synced:
        sentence = SENTENCES[outcome].format(epoch=epoch)
        if lost is not None:
            sentence += " " + SENTENCES["too late"].format(epoch=lost)
        ledger = self.store.ledger()
        spent, remaining = rounded_up(ledger.spent), rounded_down(ledger.remaining)
        return Synced(epoch, outcome, lost, spent, remaining, sentence)
