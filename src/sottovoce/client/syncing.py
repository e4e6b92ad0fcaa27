"""One sync, step by step; the package's docstring has the order and the reasons."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from math import ceil
from typing import Literal

from sottovoce.client.http import ProxyApi
from sottovoce.client.reporting import DrawWords, make_batch
from sottovoce.client.store import ClientStore, SaveResult, TrustState, UnsentBatch
from sottovoce.client.timing import (
    MAX_LEAD_SECONDS,
    MAX_TOKEN_WAIT_SECONDS,
    PREPARATION_SECONDS,
    SYNC_GRID_SECONDS,
    Entropy,
    EpochPlan,
    compute_lead,
    compute_token_chance,
    delay_by_whole_leads,
    draw_plan,
    draw_token_moment,
    draw_uniform,
    is_time,
)
from sottovoce.errors import (
    ClosedError,
    LedgerError,
    ProtocolError,
    RefusedError,
    SpentError,
    UnavailableError,
    UntrustedError,
)
from sottovoce.privacy import round_down, round_up
from sottovoce.protocol import (
    Catalogue,
    Manifest,
    Release,
    SignedManifest,
    SignedShelf,
    Terms,
    fetch_manifest,
    fetch_release,
    fetch_shelf,
    select_listed_catalogue,
    verify_release,
)
from sottovoce.protocol.batch import BATCH_ID_BYTES
from sottovoce.protocol.tokens import Attestation, Token, TokenRequest, blind_token

FetchAttestation = Callable[[], bytes]
"""What the product's backend says of its owner's account, now: see `Attestation`."""


class TermsError(UntrustedError):
    """The server asks for more than the owner accepted. No batch is made unless they accept it.

    A batch that was made before, under the accepted terms, still leaves.
    """

    def __init__(self, worse: list[str], asked: Terms):
        super().__init__(
            f"the server changed its terms: {'; '.join(worse)}. No batch is made until you accept "
            "them: `sottovoce client terms` shows them, and how to accept them"
        )
        self.worse = worse
        """In plain words, everything that would be worse."""
        self.asked = asked
        """What `Client.accept` must be given if they say yes: these very terms, no later ones."""


def check_terms(accepted: Terms | None, asked: Terms) -> None:
    """Refuse whatever is worse. With an owner who was never asked nothing can be broken."""
    worse = [] if accepted is None else accepted.list_worse_terms(asked)
    if worse:
        raise TermsError(worse, asked)


def refresh(store: ClientStore, api: ProxyApi, trusted: TrustState, now: float) -> Release:
    """What is current; an error means that none of it was stored, except a question of terms.

    `trusted` is read by the caller: nothing is read here before the first request.
    """
    signed = fetch_manifest(api, trusted.key, trusted.newest)
    try:
        check_terms(store.terms, signed.manifest.terms)
    except TermsError as error:
        store.set_pending_terms(error.asked.name)
        with suppress(ProtocolError):  # the terms are what its owner must hear of
            _refresh_shelf(store, api, trusted, now)
        raise
    raw = api.shelf()  # at once: how long files are read and decoded must not show
    release, files = fetch_release(signed, api, store.get_file)
    shelf, more = fetch_shelf(
        signed, raw, api, lambda name: files.get(name) or store.get_file(name), trusted.shelf, now
    )
    store.save_release(signed, shelf, files | more)
    return release


def _refresh_shelf(store: ClientStore, api: ProxyApi, trusted: TrustState, now: float) -> None:
    """Whatever its owner agrees to, a list has no item that was withdrawn."""
    data = store.get_signed_manifest()
    if data is not None:
        signed = SignedManifest.open(data, trusted.key)
        shelf, files = fetch_shelf(
            signed, api.shelf(), api, store.get_file, trusted.shelf, now, any_size=True
        )
        store.save_shelf(signed.manifest, shelf, files)


def fetch_terms(store: ClientStore, api: ProxyApi) -> Terms:
    """What the server asks for now, to be shown to the owner; stores nothing."""
    trusted = store.trusted
    return fetch_manifest(api, trusted.key, trusted.newest).manifest.terms


def load_release(store: ClientStore) -> Release | None:
    """What was accepted last, for lists, without asking anybody; None if there is nothing."""
    with store.snapshot():
        data, key = store.get_signed_manifest(), store.trusted.key
        shelf = store.get_signed_shelf()
        if data is None or shelf is None:
            return None
        signed, shown = SignedManifest.open(data, key), SignedShelf.open(shelf, key).shelf
        manifest = signed.manifest
        model, catalogue = store.get_file(manifest.model), store.get_file(manifest.catalogue)
        listed = store.get_file(select_listed_catalogue(manifest, shown))
    if model is None or catalogue is None or listed is None:
        return None
    release = verify_release(signed, model, catalogue)
    return release if listed == catalogue else release.with_catalogue(Catalogue.decode(listed))


Outcome = Literal[
    "sent",
    "already sent",
    "already charged",
    "not accepted",
    "not open",
    "no token",
    "sitting out",
    "missed",
    "paused",
    "limit reached",
    "lifetime over",
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
    "not accepted": (
        "The terms have not been accepted yet (`sottovoce client terms` shows them); no batch was "
        "made, recommending works."
    ),
    "not open": "Epoch {epoch} takes no reports at this time; no batch was made.",
    "no token": "This device has no token for epoch {epoch}; no batch was made.",
    "sitting out": "This device sits out epoch {epoch}, as its coin decided; no batch was made.",
    "missed": "Epoch {epoch} began before this device's turn to send; no batch was made.",
    "paused": "Reporting is paused; no batch leaves until it is resumed.",
    "limit reached": "The limit is reached: no more reports leave. Lists go on.",
    "lifetime over": "All that was agreed to is spent: no more reports leave. Lists go on.",
    "too late": (
        "The batch of epoch {epoch} came too late: as far as this device knows it was not counted; "
        "what was charged for it stays spent."
    ),
    "nothing asked": "No reports are asked for at present; no batch was made.",
}


@dataclass(frozen=True)
class SyncResult:
    epoch: int
    """Of the manifest that holds now."""
    outcome: Outcome
    """What happened to this epoch's batch."""
    abandoned_epoch: int | None
    """An earlier epoch whose batch this sync had to give up, if there was one."""
    spent: float
    """Of the limit so far; rounded up."""
    remaining: float
    """What is left of it; rounded down."""
    sentence: str
    """All of it in plain words."""


@dataclass(frozen=True)
class PendingSync:
    """It is not yet time to make a batch."""

    ask_at: float
    """When to ask for the manifest once more, by the monotonic clock."""
    manifest_hash: bytes
    """Of the epoch that it would be for."""
    abandoned_epoch: int | None
    outcome: Outcome | None = None
    """What became of this epoch's batch, where the next one's token is waited for."""


@dataclass(frozen=True)
class SyncSession:
    """Everything that one sync works with.

    The caller holds the folder's lock, except for the pause between `begin` and `go_on`. The clock
    says what may be done. The monotonic one measures how long to wait, from a moment that is fixed
    before the history is read: if the clock is set meanwhile, nothing shows how long computing
    took.
    """

    store: ClientStore
    api: ProxyApi
    clock: Callable[[], float]
    monotonic: Callable[[], float]
    entropy: Entropy
    draw_words: DrawWords
    sleep: Callable[[float], None]
    jitter: float
    fetch_attestation: FetchAttestation | None = None

    def start(self) -> SyncResult | PendingSync:
        """Settle, fetch, and take part at once or find out when."""
        damage, left_over, trusted = (
            self._damage(),
            self.store.get_waiting_batch(),
            self.store.trusted,
        )
        if self.jitter:
            self._sleep_until(self.monotonic() + -self.clock() % SYNC_GRID_SECONDS)
        if damage is not None:
            refresh(self.store, self.api, trusted, self.clock())
            raise damage
        tried = None if left_over is None else self._tried(left_over)
        release = refresh(self.store, self.api, trusted, self.clock())
        epoch = release.manifest.epoch
        lost = None
        if left_over is not None and tried is not None:
            settled = self._settled(left_over, tried, epoch)
            if left_over.epoch == epoch:
                return self._result(epoch, settled, None)
            lost = left_over.epoch if settled == "too late" else None
        taken = self._take_part(release)
        if isinstance(taken, float):
            return PendingSync(taken, release.signed.hash, lost)
        # Not in a sync that has sent: whoever sees both would know whose batch it was.
        has_sent = left_over is not None or taken in ("sent", "too late")
        asks_in = None if has_sent else self._time_to_token(release.manifest)
        if asks_in is not None:
            return PendingSync(self.monotonic() + asks_in, release.signed.hash, lost, taken)
        return self._result(epoch, taken, lost)

    def wait(self, early: PendingSync) -> None:
        """The long pause, without the lock: the owner may accept other terms or set a limit."""
        self._sleep_until(early.ask_at - PREPARATION_SECONDS)

    def finish(self, early: PendingSync) -> SyncResult:
        """After the pause. The epoch may be over by now: what is not made yet costs nothing."""
        trusted = self.store.trusted
        self._sleep_until(early.ask_at)
        release = refresh(self.store, self.api, trusted, self.clock())
        manifest = release.manifest
        if release.signed.hash != early.manifest_hash:
            return self._result(manifest.epoch, "missed", early.abandoned_epoch)
        if early.outcome is not None:
            if self._wants_token(manifest):  # its owner may have paused meanwhile
                self._fetch_token(manifest)
            return self._result(manifest.epoch, early.outcome, early.abandoned_epoch)
        outcome = self._refusal(manifest) or self._report(release)
        return self._result(manifest.epoch, outcome, early.abandoned_epoch)

    def _damage(self) -> LedgerError | None:
        """Of the ledger. Reporting alone needs it: what was published is fetched all the same."""
        try:
            self.store.read_ledger()
        except LedgerError as error:
            return error
        return None

    def _take_part(self, release: Release) -> Outcome | float:
        """At most one batch in an epoch, ever; or the moment to go on, by the monotonic clock.

        Nothing before `_report` knows the history.
        """
        manifest = release.manifest
        refused = self._refusal(manifest)
        if refused is not None:
            return refused
        plan = self._plan(manifest)
        if not plan.takes_part:
            return "sitting out"
        early = plan.send_at - compute_lead(manifest) - self.clock()
        return self.monotonic() + early if self.jitter and early > 0 else self._report(release)

    def _refusal(self, manifest: Manifest) -> Outcome | None:
        """Why this epoch gets no batch; None: it may have one. From public data and the ledger."""
        store, terms = self.store, manifest.terms
        state, charged = store.get_batch_state(manifest.epoch), store.is_charged(manifest.epoch)
        if state == "sent":
            return "already sent"
        if state == "dropped" and charged:
            return "too late"
        if manifest.public_key is None:
            return "nothing asked"
        if store.terms is None:
            return "not accepted"
        if store.paused or store.get_waiting_batch() is not None:
            return "paused"  # a batch still waits only if its owner said so
        if not is_time(manifest, self.clock(), self.jitter):
            return "not open"
        if charged:
            return "already charged"
        if terms.accounts and self._token(manifest) is None:
            return "no token"
        return self._spent(terms)

    def _spent(self, terms: Terms) -> Outcome | None:
        ledger = self.store.read_ledger()
        if not ledger.allows(terms.cost):
            return "limit reached"
        return None if terms.turns_left(ledger.charges) else "lifetime over"

    def _token(self, manifest: Manifest) -> Token | None:
        return self.store.get_token(manifest.epoch, manifest.token_key)

    def _time_to_token(self, manifest: Manifest) -> float | None:
        """Seconds until a token for the next epoch is asked for; None: not in this sync."""
        if not self._wants_token(manifest):
            return None
        now = self.clock()
        asks_in = draw_token_moment(manifest, now, self.jitter, self.entropy) - now
        return asks_in if now + asks_in < manifest.ends else None

    def _wants_token(self, manifest: Manifest) -> bool:
        """From public data, the ledger and the coins, as everything that can be seen."""
        store, terms, epoch = self.store, manifest.terms, manifest.epoch + 1
        if self.fetch_attestation is None or not terms.accounts or manifest.next_token_key is None:
            return False
        may = store.terms is not None and not store.paused and self._spent(terms) is None
        if not may or store.get_waiting_batch() is not None:
            return False
        wanted = store.wants_token(epoch)
        if wanted is None:
            turns = terms.turns_left(store.read_ledger().charges)
            wanted = draw_uniform(self.entropy) < compute_token_chance(manifest, turns)
            store.save_token_decision(epoch, takes_part=wanted)
        return wanted and store.get_token(epoch, manifest.next_token_key) is None

    def _fetch_token(self, manifest: Manifest) -> None:
        """Ask in the account's name for the next epoch's token; without luck, sit that one out."""
        assert self.fetch_attestation is not None
        assert manifest.next_token_key is not None
        epoch, key = manifest.epoch + 1, manifest.next_token_key
        element, finalize = blind_token(self.entropy(BATCH_ID_BYTES))
        attestation = Attestation.decode(self.fetch_attestation())
        request = TokenRequest(epoch, attestation, element).encode()
        # As in `_deliver`: a pause waits for this lock, and nothing leaves after it.
        with self.store.lock_sending():
            if self.store.paused:
                return
            begun = self.monotonic()
            try:
                answer = self.api.token(request)
            except SpentError:  # another device of this account was first
                self.store.save_token_decision(epoch, takes_part=False)
                return
        if self.monotonic() - begun > MAX_TOKEN_WAIT_SECONDS:
            raise UnavailableError(
                f"the proxy took more than {MAX_TOKEN_WAIT_SECONDS:g} seconds to answer for a "
                "token; it is not used, since its batch could be recognised; try again later"
            )
        self.store.save_token(epoch, key, finalize(answer, key))

    def _plan(self, manifest: Manifest) -> EpochPlan:
        """Drawn once for each epoch, and kept: a restart gives no second toss."""
        known = self.store.get_plan(manifest.epoch)
        if known is not None:
            return known
        turns = manifest.terms.turns_left(self.store.read_ledger().charges)
        plan = draw_plan(manifest, turns, self.clock(), self.jitter, self.entropy)
        if manifest.terms.accounts:  # the coin was tossed for the token
            plan = replace(plan, takes_part=True)
        self.store.save_plan(plan)
        return plan

    def _report(self, release: Release) -> Outcome:
        """Read the history, make the batch, charge for it; then send, one `lead` after this began.

        After the long pause that is the moment that was drawn. A sync after a restart knows it by
        `send_at`. First the proxy is asked whether it would be taken: nobody pays for nothing.
        """
        manifest = release.manifest
        try:
            self.api.check_taken(release.signed.hash)
        except ClosedError:
            return "not open"
        if not is_time(manifest, self.clock(), self.jitter):
            return "not open"  # the answer took its time
        begun = self.monotonic()
        ahead = compute_lead(manifest) if self.jitter else 0.0
        send_at = self.clock() + ahead
        kept: SaveResult = "forgotten"
        while kept == "forgotten":
            generation = self.store.generation
            rows = release.rows_of(self.store.history.list_items())
            token = self._token(manifest) if manifest.terms.accounts else None
            batch = make_batch(release, rows, send_at, self.draw_words, self.entropy, token)
            kept = self.store.save_batch(batch, generation)
        if kept == "limit reached":
            return kept
        if self.jitter:
            self._sleep_until(delay_by_whole_leads(begun + ahead, self.monotonic(), manifest))
        return self._deliver(batch)

    def _tried(self, batch: UnsentBatch) -> Outcome | UnavailableError | RefusedError:
        """Deliver it, or hear why not: that is said after what is published was fetched."""
        left = batch.send_at - self.clock()
        if 0 < left <= MAX_LEAD_SECONDS and self.clock() < batch.ends and not self.store.paused:
            self.sleep(left)
        try:
            return self._deliver(batch)
        except (UnavailableError, RefusedError) as error:
            return error

    def _settled(
        self, batch: UnsentBatch, tried: Outcome | UnavailableError | RefusedError, epoch: int
    ) -> Outcome:
        """Once a later epoch is published, a batch that waits can never be counted."""
        if not isinstance(tried, Exception):
            return tried
        if epoch <= batch.epoch:
            raise tried
        self.store.finish_batch(batch.epoch, "dropped")
        return "too late"

    def _deliver(self, batch: UnsentBatch) -> Outcome:
        """From charged to sent; every step may be repeated, in this sync or a later one."""
        # The owner may pause or forget at any moment. Both then wait for this lock, so what is
        # checked while it is held still holds when the batch leaves.
        with self.store.lock_sending():
            if self.clock() >= batch.ends:
                self.store.finish_batch(batch.epoch, "dropped")
                return "too late"
            if self.store.paused:
                return "paused"
            if not batch.matches_charge:
                raise LedgerError(
                    f"the batch of epoch {batch.epoch} must be the one that was charged; it is not "
                    "sent"
                )
            if self.clock() < batch.not_before:
                raise _postponed(batch, batch.not_before - self.clock())
            if self.store.get_batch_state(batch.epoch) is None:
                return "already charged"  # its owner has forgotten it meanwhile
            return self._send(batch)

    def _sleep_until(self, moment: float) -> None:
        """By the monotonic clock."""
        left = moment - self.monotonic()
        if left > 0:
            self.sleep(left)

    def _send(self, batch: UnsentBatch) -> Outcome:
        try:
            self.api.send(batch.batch)
        except ClosedError:
            self.store.finish_batch(batch.epoch, "dropped")
            return "too late"
        except UnavailableError as error:
            if error.retry_after is None:
                raise
            self.store.postpone_batch(batch.epoch, self.clock() + error.retry_after)
            raise _postponed(batch, error.retry_after) from error
        self.store.finish_batch(batch.epoch, "sent")
        return "sent"

    def _result(self, epoch: int, outcome: Outcome, lost: int | None) -> SyncResult:
        sentence = SENTENCES[outcome].format(epoch=epoch)
        if lost is not None:
            sentence += " " + SENTENCES["too late"].format(epoch=lost)
        ledger = self.store.read_ledger()
        spent, remaining = round_up(ledger.spent), round_down(ledger.remaining)
        return SyncResult(epoch, outcome, lost, spent, remaining, sentence)


def _postponed(batch: UnsentBatch, seconds: float) -> UnavailableError:
    """It concerns this batch alone: what is published may be fetched at any time."""
    return UnavailableError(
        f"the proxy asked to be sent the batch of epoch {batch.epoch} again in {ceil(seconds)} "
        "seconds, not before. Its cost is charged already. It is kept here until then or until its "
        "epoch is over",
        seconds,
    )
