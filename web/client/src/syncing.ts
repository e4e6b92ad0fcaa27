/**
 * One sync, step by step, and why a crash or a second tab never spends twice.
 *
 * 1. A batch that an earlier sync left behind is brought to its end (steps 6 and 7). If
 *    the proxy does not take it now, what is published is fetched all the same (2 and 3), and the
 *    batch is given up when that is a later epoch's: it could not be counted any more.
 * 2. The manifest is fetched and must be signed by the trusted key, or by one that this key has
 *    named, be no older than the last one, not differ from another one of its epoch, and keep to the
 *    terms that the owner accepted.
 * 3. Model and catalogue are fetched, compared with their hashes, and kept in one transaction.
 * 4. Ledger, terms and the device's own coins decide whether it takes part, and at which moment it
 *    sends; the coins are kept. It sleeps until shortly before, and asks for the manifest once more:
 *    an epoch that is over by then costs nothing.
 * 5. Only now the history is read. The batch is made, and stored together with its charge in one
 *    transaction (`Outbox.keep`), which looks once more whether anything speaks against it.
 * 6. The stored bytes are sent, at the moment that was drawn.
 * 7. The batch is marked as sent, and its bytes are deleted.
 *
 * So whether a device sends, when, how much and what it asks for before is decided without looking at
 * the history, and nothing that is computed from the history can fail (`bounds`).
 *
 * A crash before 5 is complete: nothing was spent, nothing sent. A crash after it: the same bytes
 * are there and are sent again; the proxy knows them by their id. Nothing is randomised again.
 */

import { turnsLeft } from "./agreement.js";
import { equal } from "./bytes.js";
import type { Edition } from "./edition.js";
import { ClosedError, PostponedError, RefusedError, UnavailableError } from "./errors.js";
import type { Fetching } from "./fetching.js";
import { judged } from "./judging.js";
import { budgetOf, type Charge } from "./ledger.js";
import type { Manifest } from "./manifest.js";
import type { Sleep } from "./options.js";
import type { End, Outbox, Standing, Waiting } from "./outbox.js";
import { type Outcome, sentenceOf } from "./outcome.js";
import type { HttpProxy } from "./proxy.js";
import { makeBatch } from "./reporting.js";
import type { BatchRow } from "./rows.js";
import type { Store } from "./store.js";
import { drawnPlan, lead, notBefore, type Plan } from "./timing.js";
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
  sleep: Sleep;
}

/** How this sync waits. */
export interface Waits {
  /** Seconds over which the moment of sending is drawn; 0 sends as soon as the batch is made. */
  jitter: number;
  /** Ends the long pause: nothing is lost, the next sync goes on from the stored plan. */
  signal: AbortSignal | undefined;
  /** Told that the long pause begins. */
  asleep: (() => void) | undefined;
  /** One tab at a time; the long pause is outside of it. */
  lock: <Result>(work: () => Promise<Result>) => Promise<Result>;
}

/** It is not yet time to make the batch of this edition. */
interface Early {
  edition: Edition;
  lost: number | null;
  /** Unix seconds. */
  until: number;
}

/** What a batch becomes when it is finished, said of the sync that finished it. */
const ENDS: Record<End, Outcome> = { sent: "sent", dropped: "too late" };

/** Settle, fetch, take part. */
export class Syncing {
  constructor(
    private readonly tools: Tools,
    private readonly waits: Waits,
  ) {}

  async run(): Promise<Synced> {
    const { clock, sleep } = this.tools;
    const begun = await this.waits.lock(() => this.#begin());
    if ("outcome" in begun) {
      return begun;
    }
    const nap = sleep(begun.until - clock(), this.waits.signal);
    this.waits.asleep?.();
    await nap;
    return this.waits.lock(() => this.#goOn(begun));
  }

  /** Until it is known when to go on, or that there is nothing more to do. */
  async #begin(): Promise<Synced | Early> {
    const { outbox, fetching } = this.tools;
    const leftOver = await outbox.waiting();
    const tried = leftOver && (await this.#tried(leftOver.epoch));
    const edition = await fetching.refresh();
    const { epoch } = edition.signed.manifest;
    const settled = leftOver && tried && (await this.#settled(leftOver.epoch, tried, epoch));
    if (settled !== undefined && leftOver?.epoch === epoch) {
      return this.#result(epoch, settled, null);
    }
    const lost = leftOver && settled === "too late" ? leftOver.epoch : null;
    const next = await this.#takePart(edition);
    return typeof next === "string"
      ? this.#result(epoch, next, lost)
      : { edition, lost, until: next.until };
  }

  /** Deliver it, or hear why not: that is said after what is published was fetched. */
  async #tried(epoch: number): Promise<Outcome | Error> {
    try {
      return await this.#deliver(epoch);
    } catch (error) {
      if (error instanceof UnavailableError || error instanceof RefusedError) {
        return error;
      }
      throw error;
    }
  }

  /** Once a later epoch is published a batch that waits can never be counted. */
  async #settled(epoch: number, tried: Outcome | Error, newest: number): Promise<Outcome> {
    if (!(tried instanceof Error)) {
      return tried;
    }
    if (newest <= epoch) {
      throw tried;
    }
    return ENDS[await this.tools.outbox.finish(epoch, "dropped")];
  }

  /** It may be over by now: what is not made yet costs nothing. */
  async #goOn({ edition, lost }: Early): Promise<Synced> {
    const now = await this.tools.fetching.refresh();
    const { epoch } = now.signed.manifest;
    const isSame = equal(now.signed.hash, edition.signed.hash);
    const outcome = isSame ? await this.#report(now, await this.#plan(now)) : "missed";
    return this.#result(epoch, outcome, lost);
  }

  /** At most one batch in an epoch, ever. Nothing before `#report` knows the history. */
  async #takePart(edition: Edition): Promise<Outcome | { until: number }> {
    const { manifest } = edition.signed;
    const found = this.#judged(await this.#standing(manifest), manifest, this.tools.clock());
    if (found === "make it") {
      const plan = await this.#plan(edition);
      if (!plan.takesPart) {
        return "sitting out";
      }
      const until = plan.sendAt - lead(manifest);
      if (this.waits.jitter > 0 && until > this.tools.clock()) {
        return { until };
      }
      return this.#report(edition, plan);
    }
    return found === "deliver it" ? this.#deliver(manifest.epoch) : found;
  }

  #judged(standing: Standing, manifest: Manifest, now: number) {
    return judged(standing, manifest, now, this.waits.jitter);
  }

  #standing({ epoch }: Manifest): Promise<Standing> {
    return this.tools.outbox.standing(epoch);
  }

  #plan(edition: Edition): Promise<Plan> {
    const { outbox, clock, entropy } = this.tools;
    const { manifest } = edition.signed;
    const draw = (charges: readonly Charge[]) => {
      const turns = turnsLeft(manifest.terms, charges);
      return drawnPlan(manifest, turns, clock(), this.waits.jitter, entropy);
    };
    return outbox.plan(manifest.epoch, draw);
  }

  /** Read the history, make the batch, charge for it; then send, when it is time. */
  async #report(edition: Edition, plan: Plan): Promise<Outcome> {
    const { store, outbox, clock } = this.tools;
    const { manifest } = edition.signed;
    const moments = this.#moments(plan, manifest); // before the history is read, and once
    const verdict = (standing: Standing) => this.#judged(standing, manifest, moments.now);
    for (;;) {
      const found = verdict(await this.#standing(manifest));
      if (found !== "make it") {
        return found === "deliver it" ? this.#deliver(manifest.epoch) : found;
      }
      const made = await makeBatch(edition, await store.touched(), moments, this.tools);
      // Not kept: something changed while it was being sealed. The next look says what.
      if (await outbox.keep(made, (now) => verdict(now) === "make it")) {
        if (this.waits.jitter > 0) {
          await this.#waitUntil(notBefore(moments.sendAt, clock(), manifest));
        }
        return this.#deliver(manifest.epoch);
      }
    }
  }

  /** When it is made, and when it leaves. */
  #moments(plan: Plan, manifest: Manifest): { now: number; sendAt: number } {
    const now = this.tools.clock();
    const sendAt = this.waits.jitter > 0 ? Math.max(plan.sendAt, now + lead(manifest)) : now;
    return { now, sendAt };
  }

  async #waitUntil(moment: number): Promise<void> {
    const left = moment - this.tools.clock();
    if (left > 0) {
      await this.tools.sleep(left);
    }
  }

  /** From charged to sent; every step may be repeated, in this sync or a later one. */
  async #deliver(epoch: number): Promise<Outcome> {
    const batch = await this.#ready(epoch);
    if (typeof batch === "string") {
      return batch;
    }
    await this.#waitUntil(batch.sendAt);
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
    if (clock() >= batch.ends) {
      return ENDS[await outbox.finish(epoch, "dropped")];
    }
    if (settings.paused) {
      return "paused";
    }
    checkPatience(batch, clock());
    return { ...batch, bytes };
  }

  async #send(batch: Waiting): Promise<Outcome> {
    const { proxy, outbox } = this.tools;
    try {
      await proxy.send(batch.bytes);
    } catch (error) {
      if (error instanceof ClosedError) {
        return ENDS[await outbox.finish(batch.epoch, "dropped")];
      }
      throw await this.#postponed(batch, error);
    }
    return ENDS[await outbox.finish(batch.epoch, "sent")];
  }

  /** `Retry-After` is kept with the batch, so that a reload or another tab obeys it as well. */
  async #postponed(batch: BatchRow, error: unknown): Promise<unknown> {
    if (!(error instanceof UnavailableError) || error.retryAfter === undefined) {
      return error;
    }
    await this.tools.outbox.postpone(batch.epoch, this.tools.clock() + error.retryAfter);
    return postponed(batch, error.retryAfter);
  }

  async #result(epoch: number, outcome: Outcome, lost: number | null): Promise<Synced> {
    const { limit } = await this.tools.store.settings();
    const { spent, remaining } = budgetOf(limit, await this.tools.outbox.charges());
    const sentence = sentenceOf(outcome, epoch, lost);
    return { epoch, outcome, lost, spent, remaining, sentence };
  }
}

/** The proxy said when to come again. Until then the batch stays here. */
function checkPatience(batch: BatchRow, now: number): void {
  if (now < batch.notBefore) {
    throw postponed(batch, batch.notBefore - now);
  }
}

/** It concerns this batch alone: what is published may be fetched at any time. */
function postponed(batch: BatchRow, seconds: number): PostponedError {
  return new PostponedError(
    `the proxy asked to be sent the batch of epoch ${batch.epoch} again in ${Math.ceil(seconds)} ` +
      "seconds, not before; its cost is charged already, and it is kept here until then or until " +
      "its epoch is over",
    seconds,
  );
}
