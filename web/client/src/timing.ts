/**
 * When a device takes part and when it sends: decided by its own coins, before any history is read.
 *
 * Whatever can be seen from outside (whether it takes part, the moment of sending) is then a function
 * of public numbers and these coins. Computing takes longer for a longer history, so the moment leaves
 * time for it, and what is ready earlier waits.
 */

import { asksForReports, endOf, type Manifest } from "./manifest.js";
import type { Entropy } from "./words.js";

/** Seconds over which devices spread what they send, or what is left of the epoch. */
export const JITTER = 3_600;
/** Beyond the lead of any shape: a batch that would wait longer was made before a clock was set back. */
export const MOST_LEAD = 1_200;

/** What the coins said of one epoch. */
export interface Plan {
  readonly epoch: number;
  readonly takesPart: boolean;
  /** Unix seconds. */
  readonly sendAt: number;
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
  const earliest = now + lead(manifest);
  const until = earliest < manifest.closes ? manifest.closes : endOf(manifest);
  const span = Math.max(Math.min(jitter, until - earliest), 0);
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
 * Seconds that making a batch takes at most, on a slow device: of public numbers alone. Five for a
 * history of `MOST_TOUCHED` items. Each item of the catalogue costs F^2 for the normal equations, and
 * as much as 256 of these for all else, such as ranking its row. Everything may have been touched.
 */
export function lead({ items, terms }: Manifest): number {
  return 5 + (items * (terms.factors ** 2 + 256)) / 2 ** 23 + terms.reports / 200;
}

/** Whether a batch that is begun now can still be sent in time: only then it may be paid for. */
export function isTime(manifest: Manifest, now: number): boolean {
  return asksForReports(manifest, now) && asksForReports(manifest, now + lead(manifest));
}

/** In [0, 1). */
function uniform(entropy: Entropy): number {
  const random = entropy(8);
  const view = new DataView(random.buffer, random.byteOffset, random.byteLength);
  return Number(view.getBigUint64(0, true) >> 11n) * 2 ** -53;
}
