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
 *    sends; the coins are kept. Shortly before that moment the manifest is asked for once more, and
 *    whether a batch would be taken: an epoch that is over by then costs nothing.
 * 5. The other worker is told to make the batch (`History.make`). It alone reads the history, and
 *    stores the batch together with its charge in one transaction (`Outbox.keep`), which looks once
 *    more whether anything speaks against it.
 * 6. The stored bytes are sent, at the moment that was drawn.
 * 7. The batch is marked as sent, and its bytes are deleted.
 *
 * Where a batch needs a token, the coin of 4 is tossed an epoch before, when the token is asked for: at a
 * moment that was drawn, by a visit that has sent no batch and sends none afterwards. The page makes the
 * request and the token (`accounts`). Its thread may be busy with what depends on a history, so it is not
 * waited for: at the moment the request is there, or it is left to the next look.
 *
 * So whether a device sends, when, how much and what it asks for before is decided without looking at
 * the history. Nothing here waits for what is computed from it: at the moment of sending a batch is
 * there or not, and if not, the next look is whole leads later. And nothing that is computed from the
 * history can fail (`bounds`).
 *
 * A crash before 5 is complete: nothing was spent, nothing sent. A crash after it: the same bytes
 * are there and are sent again; the proxy knows them by their id. Nothing is randomised again.
 */

import type { Account } from "./accounts.js";
import { judged, mayAsk, type Outcome, sentenceOf, turnsLeft } from "./agreement.js";
import { equal } from "./bytes.js";
import type { Entropy } from "./coin.js";
import type { BatchRow } from "./database.js";
import { endOf, type Manifest } from "./epoch.js";
import {
  ClosedError,
  PostponedError,
  RefusedError,
  StoreError,
  UnavailableError,
} from "./errors.js";
import type { Fetched, Fetching, Known } from "./fetching.js";
import { budgetOf, type Charge } from "./ledger.js";
import type { End, Outbox, Waiting } from "./outbox.js";
import type { HttpProxy } from "./proxy.js";
import { type Grid, MIN_GAP, STEP } from "./schedule.js";
import type { Store } from "./store.js";
import {
  ASK_LEAD,
  drawnPlan,
  drawnToken,
  lead,
  MOST_LEAD,
  MOST_PATIENCE,
  type Plan,
  type Token,
} from "./timing.js";

export interface Synced {
  /** Of the manifest that holds now. */
  epoch: number;
  /** What happened to this epoch's batch. */
  outcome: Outcome;
  /** An earlier epoch whose batch this sync had to give up, if there was one. */
  lost: number | null;
  /** Of the limit so far; rounded up. */
  spent: number;
  /** What is left of it; rounded down. */
  remaining: number;
  /** All of it in plain words. */
  sentence: string;
}

export type Lock = <Result>(work: () => Promise<Result>) => Promise<Result>;

/** A batch to be made by the worker that reads the history. */
export interface Job {
  /** Of the manifest that it is for. */
  hash: Uint8Array;
  /** When it was decided. */
  now: number;
  /** When it may leave: fixed before the history is read. */
  sendAt: number;
}

export interface Tools {
  store: Store;
  outbox: Outbox;
  fetching: Fetching;
  proxy: HttpProxy;
  grid: Grid;
  /** Unix seconds. */
  clock: () => number;
  /** Seconds that no one can set back. */
  monotonic: () => number;
  sleep: (seconds: number) => Promise<void>;
  entropy: Entropy;
  /** Seconds over which the moment of sending is drawn. */
  jitter: number;
  /** One tab at a time; the long pause is outside of it. */
  lock: Lock;
  /** Held from the last look at a batch until the proxy has answered. */
  sending: Lock;
  /** Tells the other worker. It never says when it is done. */
  make: (job: Job) => void;
  /** The page's side of tokens; null: it has none. */
  account: Account | null;
}

/** It is not yet time to make the batch, or to ask for a token. */
export interface Early {
  /** Of the manifest that it would be for. */
  hash: Uint8Array;
  lost: number | null;
  /** Unix seconds. */
  until: number;
  /** What the sync came to, where it is a token that is waited for. */
  synced: Synced | null;
}

/** What a batch becomes when it is finished, said of the sync that finished it. */
const ENDS: Record<End, Outcome> = { sent: "sent", dropped: "too late" };
/** Leads after which a batch that is still not there is left to the next look. */
const MOST_LEADS = 3;
/** Seconds: a moment that is nearer is now. */
const ROUNDING = 1e-3;

/** Settle, fetch, take part. */
export class Syncing {
  /** Aborted when the owner says that nothing may leave. */
  #permission = new AbortController();
  /** What this visit has sent. Never both: whoever sees both would know whose batch it was. */
  #said: "batch" | "request" | null = null;
  /** For which epoch it has asked. A later one's token would be lost, too, in a page that stays open. */
  #asked = 0;

  constructor(private readonly tools: Tools) {}

  /** End the request of a batch or a token that is on its way, or keep it from leaving. */
  stop(): void {
    this.#permission.abort();
    this.#permission = new AbortController();
  }

  /** Wait until no tab is sending a batch that it looked up before now. */
  waitForSender(): Promise<void> {
    return this.tools.sending(async () => {});
  }

  /** Until it is known when to go on, or that there is nothing more to do. */
  begin(): Promise<Synced | Early> {
    return this.tools.lock(async () => this.#begin(await this.#prepared()));
  }

  /** The epoch may be over by now: what is not made yet costs nothing. */
  goOn({ hash, lost, synced }: Early): Promise<Synced> {
    return this.tools.lock(async () => {
      const fetched = await this.tools.fetching.refresh(await this.#prepared());
      const { signed } = fetched;
      const isSame = equal(signed.hash, hash);
      if (isSame && synced !== null) {
        const token = await this.#wanted(fetched);
        if (token !== null) await this.#ask(token, fetched);
        return synced;
      }
      const outcome = isSame ? await this.#decided(fetched, () => this.#report(fetched)) : "missed";
      return this.#result(signed.manifest.epoch, outcome, lost);
    });
  }

  /** Begin a look, and read all that its next requests need of what is stored. */
  async #prepared(): Promise<Known> {
    const { store, outbox, grid } = this.tools;
    grid.mark();
    const known = {
      settings: await store.settings(),
      names: await store.fileNames(),
      waiting: await outbox.waiting(),
    };
    for (const token of await outbox.tokens()) this.#finish(token);
    return known;
  }

  async #begin(known: Known): Promise<Synced | Early> {
    const leftOver = known.waiting;
    const tried = leftOver && (await this.#tried(leftOver.epoch));
    const fetched = await this.tools.fetching.refresh(known);
    const { hash, manifest } = fetched.signed;
    const { epoch } = manifest;
    const settled = leftOver && tried && (await this.#settled(leftOver.epoch, tried, epoch));
    if (settled !== undefined && leftOver?.epoch === epoch) {
      return this.#result(epoch, settled, null);
    }
    const lost = leftOver && settled === "too late" ? leftOver.epoch : null;
    const next = await this.#decided(fetched, () => this.#takePart(fetched));
    if (typeof next !== "string") return { hash, lost, until: next.until, synced: null };
    const synced = await this.#result(epoch, next, lost);
    const token = await this.#wanted(fetched);
    if (token === null) return synced;
    const until = token.askAt;
    if (this.#waits(until, fetched)) return { hash, lost, until, synced };
    await this.#ask(token, fetched);
    return synced;
  }

  /** The token of the next epoch, if this visit may ask for it: from public data, the ledger and coins. */
  async #wanted({ signed: { manifest }, at, untaken }: Fetched): Promise<Token | null> {
    const { account, outbox, entropy, jitter } = this.tools;
    const { epoch, terms } = manifest;
    const isFirst = this.#said === null || this.#asked === epoch + 1;
    const isAble = account && isFirst && at.clock < endOf(manifest);
    if (!isAble || untaken instanceof UnavailableError) return null; // it gives no tokens either
    if (!mayAsk(await outbox.standing(epoch), manifest, at.clock)) return null;
    const token = await outbox.token(epoch + 1, (charges) =>
      drawnToken(manifest, turnsLeft(terms, charges), at.clock, jitter, entropy),
    );
    return token.wanted && token.answer === null ? token : null;
  }

  /** At its moment, whatever the page does meanwhile. The same again is answered again. */
  async #ask(token: Token, { signed: { manifest }, at }: Fetched): Promise<void> {
    const { signal } = this.#permission;
    let request = null as Uint8Array | null;
    this.#requested(token).then(
      (bytes) => {
        request = bytes;
      },
      () => {}, // the page knows why
    );
    const moment = this.tools.grid.roundUp(at.now + ASK_LEAD);
    await this.#sleepUntil(moment - STEP); // time to look whether a tab has paused or sent meanwhile
    await this.tools.sending(async () => {
      const standing = await this.tools.outbox.standing(manifest.epoch);
      const may = mayAsk(standing, manifest, at.clock);
      await this.#sleepUntil(moment - MIN_GAP);
      if (may && request !== null && !signal.aborted)
        await this.#askNow(token.epoch, request, signal);
    });
  }

  async #askNow(epoch: number, request: Uint8Array, signal: AbortSignal): Promise<void> {
    const { outbox, proxy, monotonic } = this.tools;
    this.#said = "request";
    this.#asked = epoch;
    const begun = monotonic();
    const answer = await proxy.token(request, signal);
    if (answer !== null && monotonic() - begun > MOST_PATIENCE) return;
    // Without one another device of this account was first: this one sits that epoch out.
    const known = await outbox.learn(epoch, { answer, wanted: answer !== null });
    if (known !== undefined) this.#finish(known);
  }

  /** What to send; what makes a token of the answer is on disk then. */
  async #requested({ epoch, id, state }: Token): Promise<Uint8Array | null> {
    const { account, outbox } = this.tools;
    const made = await account?.request(epoch, id, state);
    const kept = made && (await outbox.learn(epoch, { state: made.state }))?.state;
    return made && kept && equal(kept, made.state) ? made.bytes : null;
  }

  /** Makes a token of the proxy's answer, whenever the page comes to it; one that is false is none. */
  #finish({ epoch, state, answer, key, wanted, output }: Token): void {
    const { account, outbox } = this.tools;
    if (!account || !state || !answer || !key || !wanted || output) return;
    account
      .finalize(state, answer, key)
      .catch(() => null)
      .then((made) => outbox.learn(epoch, { output: made, wanted: made !== null }))
      .catch(() => {}); // at the next look
  }

  /** Deliver it, or hear why not: that is said after what is published was fetched. */
  async #tried(epoch: number): Promise<Outcome | Error> {
    try {
      return await this.#deliver(epoch, this.tools.monotonic());
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
    const { outbox, clock } = this.tools;
    return ENDS[await outbox.finish(epoch, "dropped", clock())];
  }

  /** At most one batch in an epoch, ever: `makeIt` where it may have one and has none. */
  async #decided<Made>(
    { signed: { manifest }, at }: Fetched,
    makeIt: () => Promise<Made>,
  ): Promise<Outcome | Made> {
    const found = await this.#judged(manifest, at.clock);
    if (found === "make it") {
      return this.#said === "request" ? "next visit" : makeIt();
    }
    return found === "deliver it" ? this.#deliver(manifest.epoch, at.now) : found;
  }

  async #judged(manifest: Manifest, now: number) {
    return judged(await this.tools.outbox.standing(manifest.epoch), manifest, now);
  }

  async #takePart(fetched: Fetched): Promise<Outcome | { until: number }> {
    const { manifest } = fetched.signed;
    const plan = await this.#plan(manifest, fetched.at.clock);
    if (!plan.takesPart) {
      return "sitting out";
    }
    const until = plan.sendAt - lead(manifest);
    return this.#waits(until, fetched) ? { until } : this.#report(fetched);
  }

  /** What would wait longer was drawn before a clock was set back: it waits no more. */
  #waits(until: number, { at }: Fetched): boolean {
    const left = until - at.clock;
    return left > ROUNDING && left <= this.tools.jitter;
  }

  #plan(manifest: Manifest, now: number): Promise<Plan> {
    const { outbox, entropy, jitter } = this.tools;
    return outbox.plan(manifest.epoch, (charges: readonly Charge[]) => {
      const plan = drawnPlan(manifest, turnsLeft(manifest.terms, charges), now, jitter, entropy);
      // With accounts the coin was tossed for the token.
      return { ...plan, takesPart: plan.takesPart || manifest.terms.accounts };
    });
  }

  /**
   * Has the batch made, and sends it when it is time: at the first step a lead after the last answer of the
   * proxy, by a clock that nobody sets. That moment was fixed before the history is read, and before any disk that
   * another thread may hold up. What is not there by then is looked for whole leads later: so a
   * computation that took too long shows in steps of seconds and never in how long it took.
   */
  async #report({ signed: { manifest, hash }, at, untaken }: Fetched): Promise<Outcome> {
    const { clock, grid, make } = this.tools;
    if (untaken instanceof ClosedError || untaken instanceof UnavailableError) {
      return "not open"; // no error: looks go on at their pace, however long there is no room
    }
    if (untaken !== null) {
      throw untaken;
    }
    const step = lead(manifest);
    make({ hash, now: at.clock, sendAt: at.clock + step });
    for (let leads = 1; leads <= MOST_LEADS; leads += 1) {
      const moment = grid.roundUp(at.now + leads * step);
      await this.#sleepUntil(moment - STEP); // time to look
      const found = await this.#judged(manifest, leads === 1 ? at.clock : clock());
      if (found !== "make it") {
        return found === "deliver it" ? this.#send(manifest.epoch, moment) : found;
      }
    }
    throw new StoreError(
      `The batch of epoch ${manifest.epoch} was not made in time; it is tried again.`,
    );
  }

  async #sleepUntil(moment: number): Promise<void> {
    const seconds = moment - this.tools.monotonic();
    if (seconds > 0) {
      await this.tools.sleep(seconds);
    }
  }

  /** A batch of an earlier sync, not before its moment. */
  async #deliver(epoch: number, begun: number): Promise<Outcome> {
    const batch = await this.#ready(epoch);
    if (typeof batch === "string") {
      return batch;
    }
    const left = batch.sendAt - this.tools.clock();
    const wait = left > 0 && left <= MOST_LEAD ? left : 0;
    const moment = this.tools.grid.roundUp(begun + wait);
    await this.#sleepUntil(moment - STEP);
    return this.#send(epoch, moment);
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
    // It leaves at the next step.
    if (clock() + STEP >= batch.ends) {
      return ENDS[await outbox.finish(epoch, "dropped", clock())];
    }
    if (settings.paused) {
      return "paused";
    }
    if (this.#said === "request") {
      return "next visit"; // another tab has made it
    }
    checkPatience(batch, clock());
    return { ...batch, bytes };
  }

  /**
   * From charged to sent, at a moment, or whole steps later if it took so long to look it up. Unless
   * the owner has paused or forgotten it, or another tab has sent it.
   */
  #send(epoch: number, moment: number): Promise<Outcome> {
    return this.tools.sending(() => this.#sendNow(epoch, moment));
  }

  async #sendNow(epoch: number, moment: number): Promise<Outcome> {
    const { proxy, outbox, clock } = this.tools;
    const { signal } = this.#permission;
    const batch = await this.#ready(epoch);
    if (typeof batch === "string") {
      return batch;
    }
    await this.#sleepUntil(moment - MIN_GAP);
    this.#said = "batch";
    try {
      await proxy.send(batch.bytes, signal);
    } catch (error) {
      if (signal.aborted) {
        const still = await this.#ready(epoch);
        return typeof still === "string" ? still : "paused"; // a pause that is over: at the next look
      }
      if (error instanceof ClosedError) {
        return ENDS[await outbox.finish(epoch, "dropped", clock())];
      }
      throw await this.#postponed(batch, error);
    }
    return ENDS[await outbox.finish(epoch, "sent", clock())];
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
      "seconds, not before. Its cost is charged already. It is kept here until then or until its " +
      "epoch is over",
    seconds,
  );
}
