/**
 * Randomness: words from the operating system, and the coins that they toss.
 *
 * The coins are the only place where epsilon becomes a probability. A 64-bit random word is compared with
 * an integer threshold, so every probability is an exact multiple of 2^-64, the same on every machine, and
 * rounded so that epsilon is never exceeded. No float touches the word: there is nothing for a
 * floating-point attack to hold on to. Tests hand in their own words; nothing else here is random.
 */

import type { Bytes } from "./bytes.js";
import { SettingsError } from "./errors.js";

/** Words of 64 bits in one draw. */
export const WORDS_PER_DRAW = 4;

/** The words of a batch: (reports + 1) draws of four, the last draw for ties. */
export type Words = (reports: number) => BigUint64Array;
export type Entropy = (bytes: number) => Bytes;

/** `getRandomValues` gives no more at once. */
const MOST_AT_ONCE = 65_536;

export const systemEntropy: Entropy = (bytes) => {
  const data = new Uint8Array(bytes);
  for (let at = 0; at < bytes; at += MOST_AT_ONCE) {
    crypto.getRandomValues(data.subarray(at, at + MOST_AT_ONCE));
  }
  return data;
};

export const systemWords: Words = (reports) =>
  new BigUint64Array(systemEntropy((reports + 1) * WORDS_PER_DRAW * 8).buffer);

/** Beyond this a 64-bit word cannot flip even once: the guarantee would be rounded away. */
export const MAX_EPSILON = 40;
const WORD = 1n << 64n;
/** Binary places of e^epsilon here. Its error stays below 2^-250: more than 70 decimal digits. */
const PLACES = 320;
const ONE = 1n << BigInt(PLACES);

/** `floor(word * n / 2^64)`: a uniform integer below `n`, to within one word in 2^64. */
export function pick(word: bigint, n: bigint | number): number {
  return Number((word * BigInt(n)) >> 64n);
}

/** A word below this flips the sign: `ceil(2^64 / (1 + e^epsilon))`. */
export function flipThreshold(epsilon: number): bigint {
  return ceilingOf(WORD * ONE, ONE + expEpsilon(epsilon));
}

/**
 * A word below this names a uniform one of `2 n` signed directions instead of a loud one.
 *
 * A word cannot be shared out among `loud` or `2 n` to the last unit, so it is rounded up with the
 * likeliest loud place and the least likely uniform one in mind: no ratio exceeds e^epsilon.
 */
export function uniformThreshold(epsilon: number, loud: number, n: number): bigint {
  const likeliest = ceilingOf(WORD, BigInt(loud)) * ONE;
  const odds = (expEpsilon(epsilon) - ONE) * (WORD / (2n * BigInt(n)));
  return ceilingOf(WORD * likeliest, odds + likeliest);
}

/**
 * e^epsilon in units of 2^-320, for the very float that was given: its power series, all of whose
 * terms are positive. Every term is rounded down, which errs towards flipping more often.
 */
function expEpsilon(epsilon: number): bigint {
  if (!(epsilon > 0 && epsilon <= MAX_EPSILON)) {
    throw new SettingsError(`epsilon must be above 0 and at most ${MAX_EPSILON}, got ${epsilon}`);
  }
  const x = BigInt(Math.floor(epsilon * 2 ** PLACES));
  let sum = 0n;
  for (let n = 1n, term = ONE; term > 0n; n++) {
    sum += term;
    term = (term * x) / (n * ONE);
  }
  return sum;
}

function ceilingOf(numerator: bigint, denominator: bigint): bigint {
  return (numerator + denominator - 1n) / denominator;
}
