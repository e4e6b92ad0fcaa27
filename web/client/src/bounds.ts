/** Public bounds within which nothing that a device computes from a history can fail. */

import { ProtocolError } from "./errors.js";

// A device that fails on a value that is not finite would reveal something by its silence: a server
// chooses V, alpha and lambda, so it could silence exactly the people who touched a certain item.
// So every computation on a history must have a result. Two rules are enough:
//
// 1. Everything that a server chooses is compared with the bounds below. This uses public bytes
// only, and happens before the history is read.
//
// 2. A user vector with an entry that is not finite, or larger than `MAX_USER_ENTRY`, is replaced
// by zero (`toUsable`). Its reports are then those of a person without a history.
//
// So all later values are finite in float32, whose largest number is just below 2^128. Let v be an
// entry of V, x an entry of a user vector, F the number of factors and M the number of items. With
// |v| <= 2^20, |x| <= 2^40, alpha <= 2^10, F <= 2^8 and M <= 2^24, a prediction is below 2^68, a
// residual below 2^79, a gradient entry below 2^120, and the value `a_r` of a row below 2^89.

export const MAX_ITEMS = 2 ** 24;
export const MAX_FACTORS = 2 ** 8;
/**
 * Maximum number of items of a history. A longer history loses its earliest items. The lead (see
 * `computeLead`) is long enough to read a history of this length.
 */
export const MAX_HISTORY_ITEMS = 100_000;
/** Maximum of M F; the model file then has 128 MiB. */
const MAX_MATRIX_ENTRIES = 2 ** 26;
/**
 * Maximum of M F^2, the number of multiplications for the normal equations. They take some seconds.
 */
const MAX_PRODUCTS = 2 ** 32;
export const MAX_ALPHA = 2 ** 10;
export const MIN_RIDGE = 1e-12;
export const MAX_RIDGE = 1e6;
/**
 * Smallest magnitude of an entry of V other than 0. With it, neither an entry nor a product of two
 * entries is subnormal in float32.
 */
const MIN_ENTRY = 2 ** -60;
const MAX_ENTRY = 2 ** 20;
const MAX_USER_ENTRY = 2 ** 40;

/** Check that a device has enough memory and time for a model of this shape. */
export function checkShape(items: number, factors: number): void {
  if (items * factors > MAX_MATRIX_ENTRIES || items * factors ** 2 > MAX_PRODUCTS) {
    throw new ProtocolError(
      `manifest: ${items} items with ${factors} factors are too many for a device: at most ` +
        `${MAX_MATRIX_ENTRIES} entries and ${MAX_PRODUCTS} products of factors are possible`,
    );
  }
}

/** Check that an entry of the item matrix is 0 or of a size that devices can work with. */
export function isWithinBounds(entry: number): boolean {
  const size = Math.abs(entry);
  return size === 0 || (size >= MIN_ENTRY && size <= MAX_ENTRY); // false for NaN
}

/** Return the user vector, or a vector of zeros if an entry is not finite or too large. */
export function toUsable(x: Float32Array): Float32Array {
  const isUsable = x.every((entry) => Math.abs(entry) <= MAX_USER_ENTRY); // false for NaN
  return isUsable ? x : new Float32Array(x.length);
}
