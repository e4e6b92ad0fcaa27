/**
 * When a device asks the proxy, when it takes part, and when it sends: from public numbers, a clock and its
 * own coins, before any history is read. Computing takes longer for a longer history, so the moment of
 * sending leaves time for it, and what is ready earlier waits.
 */

import type { Entropy } from "./coin.js";
import { asksForReports, endOf, type Manifest } from "./epoch.js";

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
