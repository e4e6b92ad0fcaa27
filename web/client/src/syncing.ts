/**
 * One sync, step by step, and why a crash or a second tab never spends twice.
 *
 * 1. A batch that an earlier sync left behind is brought to its end (steps 5 and 6).
 * 2. The manifest is fetched and must be signed by the pinned key, be no older than the last one,
 *    not differ from another one of its epoch, and keep to the terms that the owner agreed to.
 * 3. Model and catalogue are fetched, compared with their hashes, and accepted in one transaction.
 * 4. The batch is made, and stored together with its charge in one transaction (`Outbox.keep`),
 *    which looks once more whether anything speaks against it.
 * 5. The stored bytes are sent, after a random pause.
 * 6. The batch is marked as sent, and its bytes are deleted.
 *
 * A crash before 4 is complete: nothing was spent, nothing sent. A crash after it: the same bytes
 * are there and are sent again; the proxy knows them by their id. Nothing is randomised again.
 */

import { ClosedError, UnavailableError } from "./errors.js";
import type { Edition, Fetching } from "./fetching.js";
import { budgetOf } from "./ledger.js";
import { asksForReports, type Manifest } from "./manifest.js";
import type { End, Outbox, Standing, Waiting } from "./outbox.js";
import { type Outcome, sentenceOf } from "./outcome.js";
import type { HttpProxy } from "./proxy.js";
import { makeBatch, pauseBeforeSending } from "./reporting.js";
import type { BatchRow } from "./rows.js";
import type { Store } from "./store.js";
import { brokenBy, termsOf } from "./terms.js";
import type { Entropy, Words } from "./words.js";

/** What a sync came to. */
export interface Synced {
  /** Of the manifest that holds now. */
  epoch: number;
  /** What happened to this epoch's batch. */
  outcome: Outcome;
  /** An earlier epoch whose batch this sync had to give up, if there was one. */
  lost: number | null;
  /** Of the lifetime budget so far; rounded up. */
  spent: number;
  /** What is left of it; rounded down. */
  remaining: number;
  /** All of it in plain words. */
  sentence: string;
}

/** Everything that one sync works with. */
export interface Tools {
  store: Store;
  outbox: Outbox;
  fetching: Fetching;
  proxy: HttpProxy;
  clock: () => number;
  entropy: Entropy;
  words: Words;
  sleep: (seconds: number) => Promise<void>;
}

/** What a batch becomes when it is finished, said of the sync that finished it. */
const ENDS: Record<End, Outcome> = { sent: "sent", dropped: "too late" };

/** Settle, fetch, take part. */
export class Syncing {
  constructor(
    private readonly tools: Tools,
    private readonly jitter: number,
  ) {}

  async run(acceptNewTerms: boolean): Promise<Synced> {
    const { outbox, fetching } = this.tools;
    const leftOver = await outbox.waiting();
    const settled = leftOver && (await this.#deliver(leftOver.epoch));
    const edition = await fetching.refresh(acceptNewTerms);
    const { epoch } = edition.signed.manifest;
    if (settled !== undefined && leftOver?.epoch === epoch) {
      return this.#result(epoch, settled, null);
    }
    const lost = leftOver && settled === "too late" ? leftOver.epoch : null;
    return this.#result(epoch, await this.#takePart(edition), lost);
  }

  /** At most one batch in an epoch, ever: `keep` decides, this only asks. */
  async #takePart(edition: Edition): Promise<Outcome> {
    const { outbox, words, entropy } = this.tools;
    const { manifest } = edition.signed;
    const verdict = (standing: Standing) => judged(standing, manifest, this.tools.clock());
    for (;;) {
      const standing = await outbox.standing(manifest.epoch);
      const found = verdict(standing);
      if (found !== "make it") {
        return found === "deliver it" ? this.#deliver(manifest.epoch) : found;
      }
      // Not kept: something changed while it was being sealed. The next look says what.
      const made = await makeBatch(edition, standing.touched, words, entropy);
      if (await outbox.keep(made, (now) => verdict(now) === "make it")) {
        return this.#deliver(manifest.epoch);
      }
    }
  }

  /** From charged to sent; every step may be repeated, in this sync or a later one. */
  async #deliver(epoch: number): Promise<Outcome> {
    const batch = await this.#ready(epoch);
    if (typeof batch === "string") {
      return batch;
    }
    await this.#wait(batch);
    // The owner may have paused or forgotten it, or another tab may have sent it, while we slept.
    const still = await this.#ready(epoch);
    return typeof still === "string" ? still : this.#send(still);
  }

  /** The batch if it may leave now, or why it does not. */
  async #ready(epoch: number): Promise<Waiting | Outcome> {
    const { outbox, clock } = this.tools;
    const { batch, settings } = await outbox.standing(epoch);
    if (batch === undefined) {
      return "already charged";
    }
    const { state, bytes } = batch;
    if (state !== "charged" || bytes === null) {
      return state === "sent" ? "already sent" : "too late";
    }
    if (clock() >= batch.closes) {
      return ENDS[await outbox.finish(epoch, "dropped")];
    }
    if (settings.paused) {
      return "paused";
    }
    checkPatience(batch, clock());
    return { ...batch, bytes };
  }

  async #wait(batch: Waiting): Promise<void> {
    const { clock, entropy, sleep } = this.tools;
    const most = Math.min(this.jitter, batch.closes - clock());
    if (most > 0) {
      await sleep(pauseBeforeSending(most, entropy));
    }
  }

  async #send(batch: Waiting): Promise<Outcome> {
    const { proxy, outbox } = this.tools;
    try {
      await proxy.send(batch.bytes);
    } catch (error) {
      if (error instanceof ClosedError) {
        return ENDS[await outbox.finish(batch.epoch, "dropped")];
      }
      await this.#postpone(batch.epoch, error);
      throw error;
    }
    return ENDS[await outbox.finish(batch.epoch, "sent")];
  }

  /** `Retry-After` is kept with the batch, so that a reload or another tab obeys it as well. */
  async #postpone(epoch: number, error: unknown): Promise<void> {
    if (error instanceof UnavailableError && error.retryAfter !== undefined) {
      await this.tools.outbox.postpone(epoch, this.tools.clock() + error.retryAfter);
    }
  }

  async #result(epoch: number, outcome: Outcome, lost: number | null): Promise<Synced> {
    const { limit } = await this.tools.store.settings();
    const { spent, remaining } = budgetOf(limit, await this.tools.outbox.charges());
    const sentence = sentenceOf(outcome, epoch, lost);
    return { epoch, outcome, lost, spent, remaining, sentence };
  }
}

/** The one rule of whether an epoch may have a batch: asked before it is made and when it is kept. */
function judged(
  standing: Standing,
  manifest: Manifest,
  now: number,
): Outcome | "make it" | "deliver it" {
  const { settings, batch, charges, waiting } = standing;
  if (batch?.state === "sent") {
    return "already sent";
  }
  if (batch?.state === "dropped" && charges.some((charge) => charge.purpose === batch.purpose)) {
    return "too late";
  }
  if (batch?.state === "charged") {
    return "deliver it"; // another tab has made it: the same bytes, once more, count once
  }
  if (manifest.publicKey === null) {
    return "nothing asked";
  }
  if (settings.paused || waiting !== undefined) {
    return "paused"; // a batch of another epoch still waits only if its owner said so
  }
  if (settings.terms === null || brokenBy(settings.terms, termsOf(manifest)).length > 0) {
    return "paused"; // the owner was not asked yet, or agreed to better terms while this was fetched
  }
  if (!asksForReports(manifest, now)) {
    return "not open";
  }
  if (batch?.state === "dropped") {
    return "limit reached";
  }
  return charges.some((charge) => charge.epoch === manifest.epoch) ? "already charged" : "make it";
}

/** The proxy said when to come again. Until then the batch stays here, and nothing is asked. */
function checkPatience(batch: BatchRow, now: number): void {
  if (now < batch.notBefore) {
    const wait = Math.min(batch.notBefore, batch.closes) - now;
    throw new UnavailableError(
      `the proxy asked to be sent the batch of epoch ${batch.epoch} again in ${Math.ceil(wait)} ` +
        "seconds, not before; it is kept here until then",
      wait,
    );
  }
}
