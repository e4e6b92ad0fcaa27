/**
 * Syncs a device with the proxy. The steps below explain why a crash or a second tab never spends
 * budget twice.
 *
 * 1. A waiting batch of an earlier sync is delivered (steps 6 and 7). If the proxy does not accept
 *    it now, the published files are fetched anyway (steps 2 and 3). If they belong to a later
 *    epoch, the batch is dropped, because it could not be counted any more.
 * 2. The manifest is fetched. It must be signed with the trusted key, or with a successor that this
 *    key has signed. It must not be older than the last one, must not differ from another manifest
 *    of its epoch, and must keep to the terms that the owner accepted.
 * 3. The model and the catalogue are fetched, compared with their hashes, and stored in one
 *    transaction.
 * 4. The ledger, the terms and random draws decide whether the device takes part, and when it
 *    sends. The draws are stored. Shortly before the moment of sending, the manifest is fetched
 *    again, and the proxy is asked whether it would accept a batch. If the epoch is over by then,
 *    nothing is spent.
 * 5. The worker `batches` is told to make the batch (`History.make`). It reads the history, and
 *    stores the batch together with its charge in one transaction (`Outbox.keep`), which checks
 *    again that nothing forbids the batch.
 * 6. The stored bytes are sent at the moment that was drawn.
 * 7. The batch is marked as sent, and its bytes are deleted.
 *
 * If a batch needs a token, the draw of step 4 happens one epoch earlier, when the token is
 * requested. The request leaves at a random moment, in a visit that has sent no batch and sends
 * none afterwards. The page makes the request and the token (see `accounts`). The page's thread may
 * be busy with work that depends on the history, so nothing waits for it: if the request is not
 * ready at its moment, the next look tries again. A *look* begins a sync or resumes a pending one
 * (see `polling`).
 *
 * So the history does not influence whether, when and how much a device sends, nor what it requests
 * before. Nothing here waits for results that are computed from the history: at the moment of
 * sending, a batch is stored or it is not. If it is not, this is checked again one lead later, at
 * most twice. A *lead* is the longest time that making a batch takes on a slow device (see
 * `computeLead`). Computations on the history cannot fail (see `bounds`).
 *
 * After a crash before the end of step 5, nothing was spent and nothing was sent. After a later
 * crash, the same stored bytes are sent again, and the proxy recognises them by their id. Nothing
 * is randomised again.
 */

import type { TokenMaker } from "./accounts.js";
import {
  countTurnsLeft,
  formatOutcome,
  judge,
  mayRequestToken,
  type Outcome,
} from "./agreement.js";
import { isEqual } from "./bytes.js";
import type { Entropy } from "./coin.js";
import type { BatchRow } from "./database.js";
import { endOfEpoch, type Manifest } from "./epoch.js";
import {
  ClosedError,
  PostponedError,
  RefusedError,
  StoreError,
  UnavailableError,
} from "./errors.js";
import type { FetchedRelease, Fetcher, StoredState } from "./fetching.js";
import { type Grid, MIN_GAP_SECONDS, STEP_SECONDS } from "./grid.js";
import { type Charge, computeBudget } from "./ledger.js";
import type { FinalState, Outbox, SendableBatch } from "./outbox.js";
import type { HttpProxy } from "./proxy.js";
import type { Store } from "./store.js";
import {
  computeLead,
  drawPlan,
  drawToken,
  MAX_LEAD_SECONDS,
  MAX_TOKEN_WAIT_SECONDS,
  type Plan,
  TOKEN_LEAD_SECONDS,
  type Token,
} from "./timing.js";

/** The result of a sync. */
export interface SyncResult {
  /** Epoch of the current manifest. */
  epoch: number;
  /** What happened to the batch of this epoch. */
  outcome: Outcome;
  /** Epoch of an older batch that this sync abandoned, or null. */
  abandonedEpoch: number | null;
  /** Epsilon spent so far, rounded up. */
  spentEpsilon: number;
  /** Epsilon left of the owner's limit, rounded down. */
  remainingEpsilon: number;
  /** The result in plain words. */
  sentence: string;
}

/** Runs work while no other tab runs work under the same lock. */
export type Lock = <Result>(work: () => Promise<Result>) => Promise<Result>;

/** The command to make a batch, for the worker `batches`. */
export interface Job {
  /** Hash of the manifest that the batch is for. */
  hash: Uint8Array;
  /** Unix seconds of the decision. */
  now: number;
  /** Unix seconds at which the batch may leave, fixed before the history is read. */
  sendAt: number;
}

/** The tools of a sync. */
export interface SyncDependencies {
  store: Store;
  outbox: Outbox;
  fetching: Fetcher;
  proxy: HttpProxy;
  grid: Grid;
  /** Returns Unix seconds. */
  clock: () => number;
  /** Returns seconds of the monotonic clock, which nobody can set back. */
  monotonic: () => number;
  sleep: (seconds: number) => Promise<void>;
  entropy: Entropy;
  /** Length in seconds of the interval from which the moment of sending is drawn. */
  jitter: number;
  /**
   * Held by a sync, so that only one tab syncs at a time. It is not held during the long wait
   * before sending.
   */
  lock: Lock;
  /** Held by a sender, from its last check of the batch until the proxy has answered. */
  sendingLock: Lock;
  /**
   * Tells the worker `batches` to make a batch. That worker does not report back when it is done.
   */
  make: (job: Job) => void;
  /** The token maker, or null if the page has none. */
  tokenMaker: TokenMaker | null;
}

/** A sync that waits for the moment to make a batch or to request a token. */
export interface PendingSync {
  /** Hash of the manifest that the batch or the token would be for. */
  hash: Uint8Array;
  /** Epoch of an older batch that this sync abandoned, or null. */
  abandonedEpoch: number | null;
  /** Unix seconds at which to continue. */
  resumeAt: number;
  /** Result of the sync if it only waits for a token, else null. */
  result: SyncResult | null;
}

/** The outcome of a sync, by the final state of its batch. */
const FINAL_OUTCOMES: Record<FinalState, Outcome> = { sent: "sent", dropped: "too late" };
/** Number of leads to wait for the worker's batch. If it is ready later, the next look sends it. */
const MAX_LEADS_TO_WAIT = 3;
/** A moment that is closer than this counts as now. */
const ROUNDING_SECONDS = 1e-3;

/** Delivers or drops an old batch, fetches the published files, and takes part in the epoch. */
export class Synchronizer {
  /** Aborted when the owner decides that nothing may leave. */
  #permission = new AbortController();
  /**
   * Kind of request that this visit has sent. A visit never sends both: a proxy that saw both would
   * know whose batch it was.
   */
  #sentKind: "batch" | "request" | null = null;
  /**
   * Epoch of the token that this visit has requested, or 0. A page may stay open for many epochs,
   * but requests a token for only one of them.
   */
  #requestedEpoch = 0;

  constructor(private readonly tools: SyncDependencies) {}

  /** Abort the request of a batch or a token, or prevent it. */
  stop(): void {
    this.#permission.abort();
    this.#permission = new AbortController();
  }

  /** Wait until no tab is sending a batch that it has checked before this call. */
  waitForSender(): Promise<void> {
    return this.tools.sendingLock(async () => {});
  }

  /** Begin a sync. Return its result, or the moment at which it must be resumed. */
  start(): Promise<SyncResult | PendingSync> {
    return this.tools.lock(async () => this.#startSync(await this.#prepare()));
  }

  /** Resume a pending sync. If its epoch is over by now, nothing is sent and nothing was spent. */
  resume({ hash, abandonedEpoch, result }: PendingSync): Promise<SyncResult> {
    return this.tools.lock(async () => {
      const release = await this.tools.fetching.refresh(await this.#prepare());
      const { signed } = release;
      const isSame = isEqual(signed.hash, hash);
      if (isSame && result !== null) {
        const token = await this.#drawToken(release);
        if (token !== null) await this.#requestToken(token, release);
        return result;
      }
      const outcome = isSame
        ? await this.#decide(release, () => this.#makeAndSend(release))
        : "missed";
      return this.#makeResult(signed.manifest.epoch, outcome, abandonedEpoch);
    });
  }

  /** Read from the disk, before its first request, everything that this look needs. */
  async #prepare(): Promise<StoredState> {
    const { store, outbox, grid } = this.tools;
    grid.mark();
    const stored = {
      settings: await store.readSettings(),
      files: await store.listFiles(),
      waiting: await outbox.readWaitingBatch(),
    };
    for (const token of await outbox.listTokens()) this.#finalizeToken(token);
    return stored;
  }

  async #startSync(stored: StoredState): Promise<SyncResult | PendingSync> {
    const oldBatch = stored.waiting;
    const attempt = oldBatch && (await this.#tryDelivery(oldBatch.epoch));
    const release = await this.tools.fetching.refresh(stored);
    const { hash, manifest } = release.signed;
    const { epoch } = manifest;
    const oldOutcome =
      oldBatch && attempt && (await this.#settleDelivery(oldBatch.epoch, attempt, epoch));
    if (oldOutcome !== undefined && oldBatch?.epoch === epoch) {
      return this.#makeResult(epoch, oldOutcome, null);
    }
    const abandonedEpoch = oldBatch && oldOutcome === "too late" ? oldBatch.epoch : null;
    const next = await this.#decide(release, () => this.#takePartInEpoch(release));
    if (typeof next !== "string")
      return { hash, abandonedEpoch, resumeAt: next.resumeAt, result: null };
    const result = await this.#makeResult(epoch, next, abandonedEpoch);
    // Request no token after a refused batch. The batch may leave early in the next visit, so the
    // proxy could guess that both have the same sender, and refuse batches for this purpose.
    if (next === "not open" && release.refusal) return result;
    const token = await this.#drawToken(release);
    if (token === null) return result;
    const resumeAt = token.askAt;
    if (this.#shouldWait(resumeAt, release)) return { hash, abandonedEpoch, resumeAt, result };
    await this.#requestToken(token, release);
    return result;
  }

  /**
   * Return the token of the next epoch if this visit may request it, else null.
   *
   * The decision depends only on public data, the ledger and random draws.
   */
  async #drawToken({ signed: { manifest }, at, refusal }: FetchedRelease): Promise<Token | null> {
    const { tokenMaker, outbox, entropy, jitter } = this.tools;
    const { epoch, terms } = manifest;
    const hasSentNothingElse = this.#sentKind === null || this.#requestedEpoch === epoch + 1;
    const canRequest = tokenMaker && hasSentNothingElse && at.clock < endOfEpoch(manifest);
    if (!canRequest || refusal instanceof UnavailableError) return null; // a busy proxy would not answer a token request either
    if (!mayRequestToken(await outbox.readState(epoch), manifest, at.clock)) return null;
    const token = await outbox.drawToken(epoch + 1, (charges) =>
      drawToken(manifest, countTurnsLeft(terms, charges), at.clock, jitter, entropy),
    );
    return token.wanted && token.answer === null ? token : null;
  }

  /**
   * Request a token at its moment. If the page has not made the request by then, none is sent.
   *
   * The proxy answers a repeated request in the same way.
   */
  async #requestToken(token: Token, { signed: { manifest }, at }: FetchedRelease): Promise<void> {
    const { signal } = this.#permission;
    let requestBytes = null as Uint8Array | null;
    this.#makeTokenRequest(token).then(
      (bytes) => {
        requestBytes = bytes;
      },
      () => {}, // the page reports this error itself
    );
    const moment = this.tools.grid.roundUp(at.now + TOKEN_LEAD_SECONDS);
    await this.#sleepUntil(moment - STEP_SECONDS); // then check whether another tab has paused or sent a batch
    await this.tools.sendingLock(async () => {
      const standing = await this.tools.outbox.readState(manifest.epoch);
      const isAllowed = mayRequestToken(standing, manifest, at.clock);
      await this.#sleepUntil(moment - MIN_GAP_SECONDS);
      if (isAllowed && requestBytes !== null && !signal.aborted)
        await this.#sendTokenRequest(token.epoch, requestBytes, signal);
    });
  }

  async #sendTokenRequest(epoch: number, request: Uint8Array, signal: AbortSignal): Promise<void> {
    const { outbox, proxy, monotonic } = this.tools;
    this.#sentKind = "request";
    this.#requestedEpoch = epoch;
    const startTime = monotonic();
    const answer = await proxy.requestToken(request, signal);
    if (answer !== null && monotonic() - startTime > MAX_TOKEN_WAIT_SECONDS) return;
    // Null means that another device of this account requested the token first. This device does
    // not take part in that epoch.
    const updated = await outbox.updateToken(epoch, { answer, wanted: answer !== null });
    if (updated !== undefined) this.#finalizeToken(updated);
  }

  /**
   * Return the bytes of a token request; null if none can be made. The state that turns its answer
   * into a token is stored first.
   */
  async #makeTokenRequest({ epoch, id, state }: Token): Promise<Uint8Array | null> {
    const { tokenMaker, outbox } = this.tools;
    const request = await tokenMaker?.request(epoch, id, state);
    const storedState =
      request && (await outbox.updateToken(epoch, { state: request.state }))?.state;
    return request && storedState && isEqual(storedState, request.state) ? request.bytes : null;
  }

  /**
   * Let the page make a token from the proxy's answer, without waiting for it. An invalid answer
   * gives no token.
   */
  #finalizeToken({ epoch, state, answer, key, wanted, output }: Token): void {
    const { tokenMaker, outbox } = this.tools;
    if (!tokenMaker || !state || !answer || !key || !wanted || output) return;
    tokenMaker
      .finalize(state, answer, key)
      .catch(() => null)
      .then((output) => outbox.updateToken(epoch, { output, wanted: output !== null }))
      .catch(() => {}); // the next look tries again
  }

  /**
   * Deliver a batch. If the proxy does not accept it, return the error instead of throwing it.
   *
   * The caller throws the error only after it has fetched the published files.
   */
  async #tryDelivery(epoch: number): Promise<Outcome | Error> {
    try {
      return await this.#deliver(epoch, this.tools.monotonic());
    } catch (error) {
      if (error instanceof UnavailableError || error instanceof RefusedError) {
        return error;
      }
      throw error;
    }
  }

  /**
   * Return the outcome of an old batch, and drop it if a later epoch is published.
   *
   * A batch of an earlier epoch can never be counted.
   */
  async #settleDelivery(
    epoch: number,
    attempt: Outcome | Error,
    newestEpoch: number,
  ): Promise<Outcome> {
    if (!(attempt instanceof Error)) {
      return attempt;
    }
    if (newestEpoch <= epoch) {
      throw attempt;
    }
    const { outbox, clock } = this.tools;
    return FINAL_OUTCOMES[await outbox.finish(epoch, "dropped", clock())];
  }

  /**
   * Decide about the batch of this epoch; an epoch never has more than one.
   *
   * `makeIt` is called if the epoch may have a batch and has none.
   */
  async #decide<Made>(
    { signed: { manifest }, at }: FetchedRelease,
    makeIt: () => Promise<Made>,
  ): Promise<Outcome | Made> {
    const decision = await this.#judge(manifest, at.clock);
    if (decision === "make it") {
      return this.#sentKind === "request" ? "next visit" : makeIt();
    }
    return decision === "deliver it" ? this.#deliver(manifest.epoch, at.now) : decision;
  }

  async #judge(manifest: Manifest, now: number) {
    return judge(await this.tools.outbox.readState(manifest.epoch), manifest, now);
  }

  async #takePartInEpoch(release: FetchedRelease): Promise<Outcome | { resumeAt: number }> {
    const { manifest } = release.signed;
    const plan = await this.#drawPlan(manifest, release.at.clock);
    if (!plan.takesPart) {
      return "sitting out";
    }
    const resumeAt = plan.sendAt - computeLead(manifest);
    return this.#shouldWait(resumeAt, release) ? { resumeAt } : this.#makeAndSend(release);
  }

  /**
   * Return whether the given moment must be waited for.
   *
   * A moment that is over needs no wait. A moment further away than `jitter` seconds was drawn
   * before the system clock was set back, so it is not waited for either.
   */
  #shouldWait(moment: number, { at }: FetchedRelease): boolean {
    const seconds = moment - at.clock;
    return seconds > ROUNDING_SECONDS && seconds <= this.tools.jitter;
  }

  #drawPlan(manifest: Manifest, now: number): Promise<Plan> {
    const { outbox, entropy, jitter } = this.tools;
    return outbox.drawPlan(manifest.epoch, (charges: readonly Charge[]) => {
      const plan = drawPlan(
        manifest,
        countTurnsLeft(manifest.terms, charges),
        now,
        jitter,
        entropy,
      );
      // With accounts, the draw for the token has already decided that the device takes part.
      return { ...plan, takesPart: plan.takesPart || manifest.terms.accounts };
    });
  }

  /**
   * Let the worker make the batch, and send it at its moment.
   *
   * Requests leave only at the steps of a grid (see `grid`). The moment of the batch is the first
   * step that is at least one lead after the proxy's last answer, by the monotonic clock. It is
   * fixed before the history is read, and before any disk access that another thread may delay. If
   * the batch is not stored by then, the next check is one lead later. So the proxy can see a slow
   * computation only in steps of one lead, and never its exact duration.
   */
  async #makeAndSend({
    signed: { manifest, hash },
    at,
    refusal,
  }: FetchedRelease): Promise<Outcome> {
    const { clock, grid, make } = this.tools;
    if (refusal instanceof ClosedError || refusal instanceof UnavailableError) {
      return "not open"; // not an error: the next look comes at the usual time
    }
    if (refusal !== null) {
      throw refusal;
    }
    const leadTime = computeLead(manifest);
    make({ hash, now: at.clock, sendAt: at.clock + leadTime });
    for (let leads = 1; leads <= MAX_LEADS_TO_WAIT; leads += 1) {
      const moment = grid.roundUp(at.now + leads * leadTime);
      await this.#sleepUntil(moment - STEP_SECONDS); // leaves time to read the batch
      const decision = await this.#judge(manifest, leads === 1 ? at.clock : clock());
      if (decision !== "make it") {
        return decision === "deliver it" ? this.#send(manifest.epoch, moment) : decision;
      }
    }
    throw new StoreError(
      `the batch of epoch ${manifest.epoch} was not ready in time; wait for the next look`,
    );
  }

  async #sleepUntil(moment: number): Promise<void> {
    const seconds = moment - this.tools.monotonic();
    if (seconds > 0) {
      await this.tools.sleep(seconds);
    }
  }

  /** Send a batch of an earlier sync, but not before its moment. */
  async #deliver(epoch: number, startTime: number): Promise<Outcome> {
    const batch = await this.#loadSendable(epoch);
    if (typeof batch === "string") {
      return batch;
    }
    const seconds = batch.sendAt - this.tools.clock();
    const waitSeconds = seconds > 0 && seconds <= MAX_LEAD_SECONDS ? seconds : 0;
    const moment = this.tools.grid.roundUp(startTime + waitSeconds);
    await this.#sleepUntil(moment - STEP_SECONDS);
    return this.#send(epoch, moment);
  }

  /** Return the batch if it may leave now, else the outcome that explains why not. */
  async #loadSendable(epoch: number): Promise<SendableBatch | Outcome> {
    const { outbox, clock } = this.tools;
    const { batch, settings } = await outbox.readState(epoch);
    if (batch === undefined) {
      return "already charged";
    }
    const { state, bytes } = batch;
    if (state !== "charged" || bytes === null) {
      return state === "sent" ? "already sent" : "too late";
    }
    // The batch would leave at the next step of the grid, when its epoch is over.
    if (clock() + STEP_SECONDS >= batch.ends) {
      return FINAL_OUTCOMES[await outbox.finish(epoch, "dropped", clock())];
    }
    if (settings.paused) {
      return "paused";
    }
    if (this.#sentKind === "request") {
      return "next visit"; // another tab has made the batch, but this visit must not send both
    }
    checkPatience(batch, clock());
    return { ...batch, bytes };
  }

  /**
   * Send a charged batch at a moment, or whole steps later if reading it takes too long.
   *
   * It is not sent if the owner has paused or forgotten it, or another tab has sent it.
   */
  #send(epoch: number, moment: number): Promise<Outcome> {
    return this.tools.sendingLock(() => this.#sendNow(epoch, moment));
  }

  async #sendNow(epoch: number, moment: number): Promise<Outcome> {
    const { proxy, outbox, clock } = this.tools;
    const { signal } = this.#permission;
    const batch = await this.#loadSendable(epoch);
    if (typeof batch === "string") {
      return batch;
    }
    await this.#sleepUntil(moment - MIN_GAP_SECONDS);
    this.#sentKind = "batch";
    try {
      await proxy.sendBatch(batch.bytes, signal);
    } catch (error) {
      if (signal.aborted) {
        const current = await this.#loadSendable(epoch);
        return typeof current === "string" ? current : "paused"; // after the pause, the next look sends it
      }
      if (error instanceof ClosedError) {
        return FINAL_OUTCOMES[await outbox.finish(epoch, "dropped", clock())];
      }
      throw await this.#postpone(batch, error);
    }
    return FINAL_OUTCOMES[await outbox.finish(epoch, "sent", clock())];
  }

  /** Store `Retry-After` with the batch, so that it also holds after a reload and in other tabs. */
  async #postpone(batch: BatchRow, error: unknown): Promise<unknown> {
    if (!(error instanceof UnavailableError) || error.retryAfter === undefined) {
      return error;
    }
    await this.tools.outbox.postpone(batch.epoch, this.tools.clock() + error.retryAfter);
    return createPostponedError(batch, error.retryAfter);
  }

  async #makeResult(
    epoch: number,
    outcome: Outcome,
    abandonedEpoch: number | null,
  ): Promise<SyncResult> {
    const { limit } = await this.tools.store.readSettings();
    const { spentEpsilon, remainingEpsilon } = computeBudget(
      limit,
      await this.tools.outbox.listCharges(),
    );
    const sentence = formatOutcome(outcome, epoch, abandonedEpoch);
    return { epoch, outcome, abandonedEpoch, spentEpsilon, remainingEpsilon, sentence };
  }
}

/** Throw a `PostponedError` if the proxy does not want the batch yet. */
function checkPatience(batch: BatchRow, now: number): void {
  if (now < batch.notBefore) {
    throw createPostponedError(batch, batch.notBefore - now);
  }
}

/**
 * Return an error that concerns only this batch. Published files may still be fetched at any time.
 */
function createPostponedError(batch: BatchRow, seconds: number): PostponedError {
  return new PostponedError(
    `the proxy asked to be sent the batch of epoch ${batch.epoch} again in ${Math.ceil(seconds)} ` +
      "seconds, not before. Its cost is charged already. It stays here until then, or until its " +
      "epoch is over",
    seconds,
  );
}
