/**
 * Public bounds within which nothing that a device computes from a history can fail.
 *
 * A device that stopped on a value that is not finite would answer by its silence: a server that
 * chooses V, alpha and lambda could make exactly those fall silent who touched one item. So whatever
 * depends on a history must have a result. Two rules are enough:
 *
 * 1. What a server chooses is held against the bounds below, from public bytes alone, before any
 *    history is read.
 * 2. A user vector with an entry that is not finite or beyond `MOST_USER_ENTRY` becomes zero: then
 *    its reports are those of somebody without a history (`usable`).
 *
 * From there every value is finite, in float32: with |v| <= 2^20, |x| <= 2^40, alpha <= 2^10,
 * F <= 2^8 and M <= 2^24 a prediction is below 2^68, a residual below 2^79, a gradient entry below
 * 2^120, a row of a block below 2^89. Float32 ends at 2^128.
 */

import { ProtocolError } from "./errors.js";

export const MOST_ITEMS = 2 ** 24;
export const MOST_FACTORS = 2 ** 8;
/** Items that a history holds, the latest: `lead` leaves time for reading so many. */
export const MOST_TOUCHED = 100_000;
/** M F: a model file of 256 MiB. */
const MOST_ENTRIES = 2 ** 26;
/** M F^2: multiplications for the normal equations, some seconds; the memory needed is M F. */
const MOST_PRODUCTS = 2 ** 32;
export const MOST_ALPHA = 2 ** 10;
export const LEAST_RIDGE = 1e-12;
export const MOST_RIDGE = 1e6;
/** Of |V|, where it is not 0: neither an entry nor a product of two is subnormal in float32. */
const LEAST_ENTRY = 2 ** -60;
const MOST_ENTRY = 2 ** 20;
const MOST_USER_ENTRY = 2 ** 40;

/** Refuse a model for which a device would need too much memory or time. */
export function checkShape(items: number, factors: number): void {
  if (items * factors > MOST_ENTRIES || items * factors ** 2 > MOST_PRODUCTS) {
    throw new ProtocolError(
      `manifest: ${items} items with ${factors} factors are too many for a device: at most ` +
        `${MOST_ENTRIES} entries, and ${MOST_PRODUCTS} products of two factors of an item`,
    );
  }
}

/** Whether an entry of the item matrix is 0 or of a size that devices can work with. */
export function isWithinBounds(entry: number): boolean {
  const size = Math.abs(entry);
  return size === 0 || (size >= LEAST_ENTRY && size <= MOST_ENTRY); // a NaN is not
}

/** A user vector, or zero in its place where it is not finite or too long. */
export function usable(x: Float32Array): Float32Array {
  const isFine = x.every((entry) => Math.abs(entry) <= MOST_USER_ENTRY); // a NaN is not
  return isFine ? x : new Float32Array(x.length);
}
