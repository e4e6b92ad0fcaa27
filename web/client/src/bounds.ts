/** Public bounds within which nothing that a device computes from a history can fail. */

import { ProtocolError } from "./errors.js";

// A device that failed on a value that is not finite would answer by its silence: a server that
// chooses V, alpha and lambda could silence exactly the people who touched one item. So every
// computation on a history must have a result. Two rules are enough:
//
// 1. What a server chooses is compared with the bounds below, from public bytes only, before any
//    history is read.
// 2. A user vector with an entry that is not finite or beyond `MAX_USER_ENTRY` becomes zero: then
//    its reports are those of a person without a history (`toUsable`).
//
// From there every value is finite, in float32: with |v| <= 2^20, |x| <= 2^40, alpha <= 2^10,
// F <= 2^8 and M <= 2^24 a prediction is below 2^68, a residual below 2^79, a gradient entry below
// 2^120, a row of a block below 2^89. Float32 ends at 2^128.

export const MAX_ITEMS = 2 ** 24;
export const MAX_FACTORS = 2 ** 8;
/** Items of a history, the latest ones: `leadSeconds` leaves time to read that many. */
export const MAX_HISTORY_ITEMS = 100_000;
/** Bound of M F: a model file of 256 MiB. */
const MAX_MATRIX_ENTRIES = 2 ** 26;
/** Bound of M F^2: multiplications for the normal equations, some seconds; their memory is M F. */
const MAX_PRODUCTS = 2 ** 32;
export const MAX_ALPHA = 2 ** 10;
export const MIN_RIDGE = 1e-12;
export const MAX_RIDGE = 1e6;
/** Least |V| other than 0: neither an entry nor a product of two is subnormal in float32. */
const MIN_ENTRY = 2 ** -60;
const MAX_ENTRY = 2 ** 20;
const MAX_USER_ENTRY = 2 ** 40;

/** Refuse a model for which a device would need too much memory or time. */
export function checkShape(items: number, factors: number): void {
  if (items * factors > MAX_MATRIX_ENTRIES || items * factors ** 2 > MAX_PRODUCTS) {
    throw new ProtocolError(
      `manifest: ${items} items with ${factors} factors are too many for a device; at most ` +
        `${MAX_MATRIX_ENTRIES} entries, and ${MAX_PRODUCTS} products of two factors of an item`,
    );
  }
}

/** Check that an entry of the item matrix is 0 or of a size that devices can work with. */
export function isWithinBounds(entry: number): boolean {
  const size = Math.abs(entry);
  return size === 0 || (size >= MIN_ENTRY && size <= MAX_ENTRY); // a NaN is not
}

/** Return a user vector, or zero if it is not finite or too long. */
export function toUsable(x: Float32Array): Float32Array {
  const isUsable = x.every((entry) => Math.abs(entry) <= MAX_USER_ENTRY); // a NaN is not
  return isUsable ? x : new Float32Array(x.length);
}
