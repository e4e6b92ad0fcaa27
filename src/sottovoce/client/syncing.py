"""One sync, step by step. The docstring of the package explains the steps and their order."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil
from typing import Literal

from sottovoce.client.fetching import refresh
from sottovoce.client.http import ProxyApi
from sottovoce.client.reporting import DrawWords, find_reported_rows, make_batch
from sottovoce.client.store import ClientStore, SaveResult, UnsentBatch
from sottovoce.client.timing import (
    MAX_JITTER_SECONDS,
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
    RefusedError,
    SpentError,
    UnavailableError,
)
from sottovoce.privacy import round_down, round_up
from sottovoce.protocol import Manifest, Release, Terms
from sottovoce.protocol.batch import BATCH_ID_BYTES
from sottovoce.protocol.tokens import Attestation, Token, TokenRequest, blind_token

# Asks the product's backend for an encoded `Attestation` that the owner has an account.
FetchAttestation = Callable[[], bytes]

Outcome = Literal[
    "sent",
    "already sent",
    "already charged",
    "not accepted",
    "not open",
    "no token",
    "sitting out",
    "too early",
    "missed",
    "paused",
    "limit reached",
    "lifetime over",
    "too late",
    "nothing asked",
]

# The sentence that tells the owner the outcome of a sync.
OUTCOME_SENTENCES: dict[Outcome, str] = {
    "sent": "The batch of epoch {epoch} was sent.",
    "already sent": "The batch of epoch {epoch} had been sent before; nothing was sent now.",
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
    "sitting out": "This device does not take part in epoch {epoch}, which it has drawn at random.",
    "too early": (
        "Reports of epoch {epoch} are sent in its last quarter, so that they tell what is touched "
        "now; sync again then."
    ),
    "missed": "Epoch {epoch} began before this device's moment to send; no batch was made.",
    "paused": "Reporting is paused; no batch leaves until it is resumed.",
    "limit reached": "The limit is reached: no more reports are sent. Recommendations continue.",
    "lifetime over": (
        "All epochs of the accepted terms are used: no more reports are sent. Recommendations "
        "continue."
    ),
    "too late": (
        "The batch of epoch {epoch} came too late: as far as this device knows it was not counted; "
        "the epsilon that was charged for it stays spent."
    ),
    "nothing asked": "No reports are asked for at present; no batch was made.",
}


@dataclass(frozen=True)
class SyncResult:
    """The result of a sync."""

    epoch: int
    """Epoch of the current manifest."""
    outcome: Outcome
    """What happened to the batch of this epoch."""
    abandoned_epoch: int | None
    """An earlier epoch whose batch this sync gave up; None if it gave up none."""
    spent: float
    """Epsilon spent so far, rounded up."""
    remaining: float
    """Epsilon left of the limit, rounded down."""
    sentence: str
    """The outcome in plain words, for the owner."""


@dataclass(frozen=True)
class PendingSync:
    """A sync that waits until it is time to make a batch, or to ask for a token."""

    ask_at: float
    """When to fetch the manifest again, in seconds of the monotonic clock."""
    manifest_hash: bytes
    """Hash of the manifest that was current when the wait began."""
    abandoned_epoch: int | None
    """An earlier epoch whose batch this sync gave up; None if it gave up none."""
    outcome: Outcome | None = None
    """If the sync waits to ask for the next epoch's token: why it made no batch for this epoch. If
    it waits to make a batch: None."""


@dataclass(frozen=True)
class SyncSession:
    """The steps of one sync. The caller holds the folder's lock, except during `wait`.

    `clock` decides whether an epoch is open. All waiting is measured with `monotonic`, from a
    moment that is fixed before the history is read. So the moment of sending does not reveal how
    long the computation took, even if `clock` is set meanwhile.

    The fields are the arguments of `Client` and of `Client.sync`.
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
        """Send the batch that an earlier sync left, fetch the release, and take part in the epoch.

        Returns:
            The result; or, if the sync must wait for its moment, what `wait` and `finish` need.
        """
        damage, unsent = self._find_damage(), self.store.get_waiting_batch()
        trusted = self.store.trusted
        if self.jitter:
            self._sleep_until(self.monotonic() + -self.clock() % SYNC_GRID_SECONDS)
        if damage is not None:
            # Only reporting needs the ledger, so recommendations still get the newest model.
            refresh(self.store, self.api, trusted, self.clock())
            raise damage
        attempt = None if unsent is None else self._try_to_deliver(unsent)
        release = refresh(self.store, self.api, trusted, self.clock())
        epoch = release.manifest.epoch
        abandoned_epoch = None
        if unsent is not None and attempt is not None:
            settled = self._settle(unsent, attempt, epoch)
            if unsent.epoch == epoch:
                return self._make_result(epoch, settled, None)
            abandoned_epoch = unsent.epoch if settled == "too late" else None
        part = self._take_part(release)
        if isinstance(part, float):
            return PendingSync(part, release.signed.hash, abandoned_epoch)
        # A sync that has sent a batch does not ask for a token, because an observer of both
        # requests could then link the batch to the account.
        has_sent = unsent is not None or part in ("sent", "too late")
        asks_in = None if has_sent else self._draw_token_delay(release.manifest)
        if asks_in is not None:
            return PendingSync(
                self.monotonic() + asks_in, release.signed.hash, abandoned_epoch, part
            )
        return self._make_result(epoch, part, abandoned_epoch)

    def wait(self, pending: PendingSync) -> None:
        """Sleep until shortly before `pending.ask_at`.

        The caller has released the lock, so that the owner can accept terms or set a limit.
        """
        self._sleep_until(pending.ask_at - PREPARATION_SECONDS)

    def finish(self, pending: PendingSync) -> SyncResult:
        """Fetch the manifest again, then report or ask for a token.

        If the epoch has ended meanwhile, neither is done and nothing is charged.
        """
        trusted = self.store.trusted
        self._sleep_until(pending.ask_at)
        release = refresh(self.store, self.api, trusted, self.clock())
        manifest = release.manifest
        if release.signed.hash != pending.manifest_hash:
            return self._make_result(manifest.epoch, "missed", pending.abandoned_epoch)
        if pending.outcome is not None:
            # The owner may have paused during `wait`, so check again.
            if self._wants_token(manifest):
                self._fetch_token(manifest)
            return self._make_result(manifest.epoch, pending.outcome, pending.abandoned_epoch)
        unsent = self.store.get_waiting_batch()
        if unsent is not None and unsent.epoch == manifest.epoch:
            # Another sync made this batch during `wait`, and could not send it.
            outcome = self._settle(unsent, self._try_to_deliver(unsent), manifest.epoch)
        else:
            outcome = self._find_refusal(manifest) or self._report(release)
        return self._make_result(manifest.epoch, outcome, pending.abandoned_epoch)

    def _find_damage(self) -> LedgerError | None:
        try:
            self.store.read_ledger()
        except LedgerError as error:
            return error
        return None

    def _take_part(self, release: Release) -> Outcome | float:
        """Report now, or return when to report, in seconds of the monotonic clock.

        The history is read only in `_report`.
        """
        manifest = release.manifest
        refusal = self._find_refusal(manifest)
        if refusal is not None:
            return refusal
        plan = self._get_plan(manifest)
        if not plan.takes_part:
            return "sitting out"
        early = plan.send_at - compute_lead(manifest) - self.clock()
        # In a training of names, the moment may be days ahead: a later sync reports then. Otherwise
        # such a moment shows that the clock was set back since it was drawn: do not wait.
        if early > MAX_JITTER_SECONDS and manifest.terms.asks_for_names:
            return "too early"
        must_wait = self.jitter and 0 < early <= MAX_JITTER_SECONDS
        return self.monotonic() + early if must_wait else self._report(release)

    def _find_refusal(self, manifest: Manifest) -> Outcome | None:
        """Return why no batch is made for this epoch, or None if one may be made.

        This depends only on public data, the store and the clock, not on the history.
        """
        store, terms = self.store, manifest.terms
        state, is_charged = store.get_batch_state(manifest.epoch), store.is_charged(manifest.epoch)
        if state == "sent":
            return "already sent"
        if state == "dropped" and is_charged:
            return "too late"
        if manifest.public_key is None:
            return "nothing asked"
        if store.terms is None:
            return "not accepted"
        # `start` and `finish` have tried to deliver a batch that was waiting. If it still waits,
        # the owner has paused.
        if store.paused or store.get_waiting_batch() is not None:
            return "paused"
        if not is_time(manifest, self.clock(), self.jitter):
            return "not open"
        if is_charged:
            return "already charged"
        if terms.accounts and self._get_token(manifest) is None:
            return "no token"
        return self._find_exhaustion(terms)

    def _find_exhaustion(self, terms: Terms) -> Outcome | None:
        """Return why the ledger allows no more reports under these terms, or None."""
        ledger = self.store.read_ledger()
        if not ledger.allows(terms.cost):
            return "limit reached"
        return None if terms.turns_left(ledger.charges) else "lifetime over"

    def _get_token(self, manifest: Manifest) -> Token | None:
        return self.store.get_token(manifest.epoch, manifest.token_key)

    def _draw_token_delay(self, manifest: Manifest) -> float | None:
        """Draw in how many seconds to ask for the next epoch's token.

        Returns:
            The seconds, or None if this sync does not ask for a token.
        """
        if not self._wants_token(manifest):
            return None
        now = self.clock()
        asks_in = draw_token_moment(manifest, now, self.jitter, self.entropy) - now
        return asks_in if now + asks_in < manifest.ends else None

    def _wants_token(self, manifest: Manifest) -> bool:
        """Decide whether to ask for the next epoch's token.

        This depends only on public data, the store and the coins, not on the history.
        """
        store, terms, epoch = self.store, manifest.terms, manifest.epoch + 1
        if self.fetch_attestation is None or not terms.accounts or manifest.next_token_key is None:
            return False
        may_report = store.terms is not None and not store.paused
        if not may_report or self._find_exhaustion(terms) or store.get_waiting_batch() is not None:
            return False
        wanted = store.wants_token(epoch)
        if wanted is None:
            turns = terms.turns_left(store.read_ledger().charges)
            wanted = draw_uniform(self.entropy) < compute_token_chance(manifest, turns)
            store.save_token_decision(epoch, takes_part=wanted)
        return wanted and store.get_token(epoch, manifest.next_token_key) is None

    def _fetch_attestation(self) -> Attestation | None:
        """Ask the backend for an attestation; return None if the owner has paused meanwhile."""
        if self.fetch_attestation is None or self.store.paused:
            return None
        return Attestation.decode(self.fetch_attestation())

    def _fetch_token(self, manifest: Manifest) -> None:
        """Ask for the account's token of the next epoch.

        If the proxy refuses because another device of the account has it, this device will not take
        part in that epoch.
        """
        assert manifest.next_token_key is not None
        epoch, key = manifest.epoch + 1, manifest.next_token_key
        element, finalize = blind_token(self.entropy(BATCH_ID_BYTES))
        # The attestation is fetched without the lock below. The backend may take long, and
        # `pause` and `forget` would have to wait.
        attestation = self._fetch_attestation()
        if attestation is None:
            return
        request = TokenRequest(epoch, attestation, element).encode()
        # A pause waits for this lock, as in `_deliver`, so that no request leaves after the pause.
        with self.store.lock_sending():
            if self.store.paused:
                return
            asked_at = self.monotonic()
            try:
                answer = self.api.token(request)
            except SpentError:
                # Another device of this account has got the token.
                self.store.save_token_decision(epoch, takes_part=False)
                return
        if self.monotonic() - asked_at > MAX_TOKEN_WAIT_SECONDS:
            raise UnavailableError(
                f"the proxy took more than {MAX_TOKEN_WAIT_SECONDS:g} seconds to answer for a "
                "token; the token is not used, because the proxy could recognise its batch; try "
                "again later"
            )
        self.store.save_token(epoch, key, finalize(answer, key))

    def _get_plan(self, manifest: Manifest) -> EpochPlan:
        """Return the plan of this epoch; draw and store it if there is none yet.

        A restart does not draw again, because that would raise the chance to take part.
        """
        stored = self.store.get_plan(manifest.epoch)
        if stored is not None:
            return stored
        turns = manifest.terms.turns_left(self.store.read_ledger().charges)
        plan = draw_plan(manifest, turns, self.clock(), self.jitter, self.entropy)
        # With accounts `_wants_token` has already decided; a device that has a token takes part.
        if manifest.terms.accounts:
            plan = replace(plan, takes_part=True)
        self.store.save_plan(plan)
        return plan

    def _report(self, release: Release) -> Outcome:
        """Read the history, make the batch, charge for it, and send it one lead later.

        The lead (see `compute_lead`) is long enough to make any batch. If the sync has slept in
        `wait`, the batch so leaves at the moment that was drawn. If the sync is interrupted, the
        next one reads the moment from the stored `send_at`.
        """
        manifest = release.manifest
        # Do not charge for a batch that the proxy would not accept.
        try:
            self.api.check_taken(release.signed.hash)
        except ClosedError:
            return "not open"
        # The answer may have taken so long that the epoch has ended.
        if not is_time(manifest, self.clock(), self.jitter):
            return "not open"
        began = self.monotonic()
        lead = compute_lead(manifest) if self.jitter else 0.0
        send_at = self.clock() + lead
        saved: SaveResult = "forgotten"
        while saved == "forgotten":
            generation = self.store.generation
            rows = find_reported_rows(release, self.store.history.get_moments())
            token = self._get_token(manifest) if manifest.terms.accounts else None
            batch = make_batch(release, rows, send_at, self.draw_words, self.entropy, token)
            saved = self.store.save_batch(batch, generation)
        if saved != "saved":
            return saved
        if self.jitter:
            self._sleep_until(delay_by_whole_leads(began + lead, self.monotonic(), manifest))
        return self._deliver(batch)

    def _try_to_deliver(self, batch: UnsentBatch) -> Outcome | UnavailableError | RefusedError:
        """Deliver a batch at its moment, and return the outcome.

        Errors of the proxy are returned, so that the sync can still fetch the release before it
        raises them.
        """
        seconds_left = batch.send_at - self.clock()
        is_early = 0 < seconds_left <= MAX_LEAD_SECONDS
        if is_early and self.clock() < batch.ends and not self.store.paused:
            self.sleep(seconds_left)
        try:
            return self._deliver(batch)
        except (UnavailableError, RefusedError) as error:
            return error

    def _settle(
        self, batch: UnsentBatch, attempt: Outcome | UnavailableError | RefusedError, epoch: int
    ) -> Outcome:
        """Return what became of a batch; give it up if it failed and a later epoch is published.

        Args:
            batch: A batch that an earlier sync, or another one, made.
            attempt: The result of `_try_to_deliver`. If it is an error, and the batch's epoch is
                still the current one, the error is raised.
            epoch: The current epoch.
        """
        if not isinstance(attempt, Exception):
            return attempt
        if epoch <= batch.epoch:
            raise attempt
        self.store.finish_batch(batch.epoch, "dropped")
        return "too late"

    def _deliver(self, batch: UnsentBatch) -> Outcome:
        """Send a charged batch. It is safe to repeat this, in this sync or in a later one."""
        # The owner may pause or forget at any moment, and both wait for this lock. So the results
        # of the checks below are still true when the batch leaves.
        with self.store.lock_sending():
            if self.clock() >= batch.ends:
                self.store.finish_batch(batch.epoch, "dropped")
                return "too late"
            if self.store.paused:
                return "paused"
            if not batch.matches_charge:
                raise LedgerError(
                    f"the stored batch of epoch {batch.epoch} must be the one that was charged, "
                    "but its bytes differ; it is not sent"
                )
            if self.clock() < batch.not_before:
                raise _make_postponed_error(batch, batch.not_before - self.clock())
            # `Client.forget` has deleted the batch meanwhile.
            if self.store.get_batch_state(batch.epoch) is None:
                return "already charged"
            return self._send(batch)

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
            raise _make_postponed_error(batch, error.retry_after) from error
        self.store.finish_batch(batch.epoch, "sent")
        return "sent"

    def _sleep_until(self, moment: float) -> None:
        seconds_left = moment - self.monotonic()
        if seconds_left > 0:
            self.sleep(seconds_left)

    def _make_result(self, epoch: int, outcome: Outcome, abandoned_epoch: int | None) -> SyncResult:
        sentence = OUTCOME_SENTENCES[outcome].format(epoch=epoch)
        if abandoned_epoch is not None:
            sentence += " " + OUTCOME_SENTENCES["too late"].format(epoch=abandoned_epoch)
        ledger = self.store.read_ledger()
        spent, remaining = round_up(ledger.spent), round_down(ledger.remaining)
        return SyncResult(epoch, outcome, abandoned_epoch, spent, remaining, sentence)


def _make_postponed_error(batch: UnsentBatch, seconds: float) -> UnavailableError:
    # Only the batch must wait; files may be fetched at any time.
    return UnavailableError(
        f"the proxy asked not to be sent the batch of epoch {batch.epoch} again within "
        f"{ceil(seconds)} seconds. The batch is charged already, and is kept until then or until "
        "its epoch is over; sync again later",
        seconds,
    )
