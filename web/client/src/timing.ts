/**
 * When a device asks the proxy, when it takes part, and when it sends: from public numbers, a clock and its
 * own coins, before any history is read. Computing takes longer for a longer history, so the moment of
 * sending leaves time for it, and what is ready earlier waits.
 */

import type { Entropy } from "./coin.js";
import { asksForReports, endOf, type Manifest } from "./manifest.js";
import type { Timer } from "./options.js";

/**
 * Seconds over which the moment of sending is drawn. Short, since a visit is: an installed client takes an
 * hour, which hides when its device woke, but a page shows its visit to the proxy by asking for news.
 */
export const JITTER = 5;
/** Beyond the lead of any shape: a batch that would wait longer was made before a clock was set back. */
export const MOST_LEAD = 1_200;
/** Seconds before a token is asked for, in which the page finds out whether somebody is logged in. */
export const ASK_LEAD = 5;
/**
 * Seconds from asking for a token to an answer that is used. A proxy that could keep one back until all
 * others are spent would know whose batch comes last.
 */
export const MOST_PATIENCE = 60;
/** Random bytes that name a batch. */
export const BATCH_ID = 16;

export interface Plan {
  readonly epoch: number;
  readonly takesPart: boolean;
  /** Unix seconds. */
  readonly sendAt: number;
}

/** What the coins said of an epoch's token, and what is known of it. */
export interface Token {
  /** In which it is spent. */
  readonly epoch: number;
  /** That it is made with: the manifest before names it. */
  readonly key: Uint8Array | null;
  /** Random: of the batch that it is for. */
  readonly id: Uint8Array;
  /** Whether to have one; no more, once it is known that there is none. */
  readonly wanted: boolean;
  /** Unix seconds. */
  readonly askAt: number;
  /** What makes a token of the answer; kept before the proxy is asked, so that it can be asked again. */
  readonly state: Uint8Array | null;
  readonly answer: Uint8Array | null;
  /** What a batch shows. */
  readonly output: Uint8Array | null;
}

/** Whether to take part, and when to send: two coins, whatever the chance. */
export function drawnPlan(
  manifest: Manifest,
  turnsLeft: number,
  now: number,
  jitter: number,
  entropy: Entropy,
): Plan {
  const takesPart = uniform(entropy) < chance(manifest, turnsLeft);
  const step = lead(manifest);
  const earliest = now + step;
  const until = earliest + step < manifest.closes ? manifest.closes : endOf(manifest);
  const span = Math.max(Math.min(jitter, until - step - earliest), 0);
  return { epoch: manifest.epoch, takesPart, sendAt: earliest + span * uniform(entropy) };
}

/**
 * By which a device takes part in this epoch; from 1 on it does for certain.
 *
 * In a training that ends: turns left over epochs left. Then everybody has all of their turns, and
 * every epoch is as likely as any other. By a share of 1/20 one device in three would never have its
 * only turn in 20 epochs. Without an end: the share of the terms.
 *
 * It depends on public numbers and on earlier coins, never on the history. A server that lies about
 * `epochsLeft` makes devices spend their turns sooner, and never more of them.
 */
export function chance({ terms, epochsLeft }: Manifest, turnsLeft: number): number {
  return epochsLeft > 0 ? turnsLeft / epochsLeft : terms.share;
}

/**
 * By which a device asks for a token for the epoch after this one: `chance`, one epoch ahead. With accounts
 * that is its coin: whoever has a token takes part.
 */
export function tokenChance(manifest: Manifest, turnsLeft: number): number {
  const { epochsLeft, publicKey } = manifest;
  const then = epochsLeft && Math.max(epochsLeft - Number(publicKey !== null), 1);
  return chance({ ...manifest, epochsLeft: then }, turnsLeft);
}

/** Whether to ask for one, and when: two coins, whatever the chance. */
export function drawnToken(
  manifest: Manifest,
  turnsLeft: number,
  now: number,
  jitter: number,
  entropy: Entropy,
): Token {
  const wanted = uniform(entropy) < tokenChance(manifest, turnsLeft);
  const askAt = now + jitter * uniform(entropy);
  const [epoch, key, id] = [manifest.epoch + 1, manifest.nextTokenKey, entropy(BATCH_ID)];
  return { epoch, key, id, wanted, askAt, state: null, answer: null, output: null };
}

/** Seconds from the end of a batch to a request for a token, at least. */
export function apart({ opens, closes }: Manifest): number {
  return Math.min(3_600, (closes - opens) / 4);
}

/**
 * Seconds that making a batch takes at most, on a slow device: of public numbers alone. Five for a
 * history of `MOST_TOUCHED` items. Each item of the catalogue costs F^2 for the normal equations, and
 * as much as 256 of these for all else, such as ranking its row. Everything may have been touched.
 */
export function lead({ items, terms }: Pick<Manifest, "items" | "terms">): number {
  return 5 + (items * (terms.factors ** 2 + 256)) / 2 ** 23 + terms.reports / 200;
}

/**
 * Whether a batch that is begun now can still be sent in time: only then it may be paid for. Two leads: it
 * is made within one, and the last one of an epoch is for devices that are late.
 */
export function isTime(manifest: Manifest, now: number): boolean {
  return asksForReports(manifest, now) && asksForReports(manifest, now + 2 * lead(manifest));
}

function uniform(entropy: Entropy): number {
  const random = entropy(8);
  const view = new DataView(random.buffer, random.byteOffset, random.byteLength);
  return Number(view.getBigUint64(0, true) >> 11n) * 2 ** -53;
}

/** Seconds between two moments at which a request may leave. */
export const STEP = 0.5;
/** Seconds from an answer to the next request, at least: what is read from the disk between them takes less. */
export const MIN_GAP = STEP / 2;
/** Seconds after a step at which a request still leaves; where a thread was busy for longer, at the next step. */
const MAX_LATENESS = 0.02;
/** Steps that are tried: a browser that delays every timer must not keep a request back for ever. */
const MAX_TRIES = 4;

/**
 * The moments at which requests leave: whole steps from the beginning of a visit's first look. The step of
 * a request is fixed when the answer before it arrives, or when its look begins. Whatever reads a disk that
 * another thread keeps busy comes after that: it delays a request by whole steps or not at all.
 */
export class Grid {
  #origin: number | null = null;
  /** When the last look began or the last answer arrived. */
  #last = 0;

  constructor(private readonly timer: Pick<Timer, "now" | "sleep">) {}

  /** Note that a look begins or an answer has arrived. */
  mark(): void {
    this.#last = this.timer.now();
    this.#origin ??= this.#last;
  }

  /** Return the first step that is not before a moment. */
  roundUp(moment: number): number {
    const origin = this.#origin ?? moment;
    return origin + Math.ceil((moment - origin) / STEP - ROUNDING) * STEP;
  }

  /** Wait for the step of the next request; after `MIN_GAP`, for the first one that is left. */
  async waitForStep(): Promise<void> {
    const { now, sleep } = this.timer;
    const earliest = this.#last + MIN_GAP;
    for (let tries = 0; tries < MAX_TRIES; tries += 1) {
      const step = this.roundUp(Math.max(earliest, now()));
      await sleep(Math.max(step - now(), 0));
      if (now() - step < MAX_LATENESS) return;
    }
  }
}

/**
 * When the proxy is asked.
 *
 * Looks happen at whole ticks, counted from the first one of a visit, and nowhere else: whatever wakes
 * the schedule (the owner, the network, a page that comes into sight) moves the next look to the next
 * tick. How many ticks it waits otherwise depends on the page's conditions and on the proxy's answers.
 * `Retry-After` counts from the arrival of the answer, and is rounded up to whole ticks.
 *
 * Every request of a look waits for a step of the `Grid`.
 */

/** What the page says of itself. */
export interface Conditions {
  visible: boolean;
  online: boolean;
}

export interface Looked {
  isWell: boolean;
  /** Seconds that the proxy asked to be left alone for, from now on. */
  retryAfter: number;
}

/** Seconds between two moments at which there can be a look. */
export const TICK = 5;
/** Seconds: no proxy keeps a device away for longer. */
const MOST_RETRY = 86_400;
/** Ticks between two looks of a page that nobody sees, and after many failures, at least. */
const SELDOM = 60 / TICK;

export class Schedule {
  /** Until the page has said what the world is like, there is nothing to look at. */
  #conditions: Conditions = { visible: false, online: false };
  #first: number | null = null;
  /** The tick, counted from the first look, at which the last one was. */
  #last = -1;
  /** The tick before which the proxy wants no other one. */
  #least = 0;
  #failures = 0;
  #handle: number | null = null;
  #isLooking = false;
  #isWanted = false;

  /** Ticks between two looks while the page is seen. */
  readonly #usual: number;

  constructor(
    pace: number,
    private readonly look: () => Promise<Looked>,
    private readonly timer: Timer,
  ) {
    this.#usual = Math.ceil(pace / TICK);
  }

  /** The page came into sight or went out of it, or the network did. */
  meet(conditions: Conditions): void {
    const { visible, online } = this.#conditions;
    const isBetter = (conditions.online && !online) || (conditions.visible && !visible);
    this.#conditions = conditions;
    this.#isWanted ||= isBetter;
    this.#plan();
  }

  wake(): void {
    this.#isWanted = true;
    this.#plan();
  }

  #plan(): void {
    if (this.#handle !== null) this.timer.stop(this.#handle);
    this.#handle = null;
    if (this.#isLooking || !this.#conditions.online) return;
    const now = this.timer.now(); // once: a later one would be a tick too late
    this.#first ??= now;
    const soonest = Math.max(this.#last + 1, Math.ceil((now - this.#first - ROUNDING) / TICK));
    const next = Math.max(this.#isWanted ? 0 : this.#last + this.#ticks(), this.#least, soonest);
    const wait = this.#first + next * TICK - now;
    this.#handle = this.timer.start(Math.max(0, wait), () => this.#lookAt(next));
  }

  /** Between two looks: more when hidden, and after failures. */
  #ticks(): number {
    const seldom = Math.max(SELDOM, this.#usual);
    const patient = this.#usual * 2 ** Math.max(0, this.#failures - 1);
    return Math.min(seldom, this.#conditions.visible ? patient : seldom);
  }

  async #lookAt(at: number): Promise<void> {
    this.#handle = null;
    this.#isLooking = true;
    this.#isWanted = false;
    const { isWell, retryAfter: asked } = await this.look();
    const retryAfter = Math.min(asked, MOST_RETRY);
    const since = this.timer.now() + retryAfter - (this.#first ?? 0);
    this.#least = retryAfter > 0 ? Math.ceil((since - ROUNDING) / TICK) : 0;
    this.#failures = isWell ? 0 : this.#failures + 1;
    this.#last = at;
    this.#isLooking = false;
    this.#plan();
  }
}

/** Seconds: a moment that is nearer is the same. */
const ROUNDING = 1e-6;
