/**
 * Randomness: words from the operating system, and the biased coins that are decided by them.
 *
 * Only this module turns epsilon into a probability, by comparing a 64-bit random word with an
 * integer threshold. So every probability is an exact multiple of 2^-64 and the same on all
 * machines. It is rounded so that epsilon is never exceeded. Random words are never converted to
 * floats here, so floating-point attacks have no target. Tests pass their own words; nothing else
 * here is random.
 */

import type { Bytes } from "./bytes.js";
import { SettingsError } from "./errors.js";

/** Number of 64-bit words in one draw. */
export const WORDS_PER_DRAW = 4;

/** Returns the random words of a batch: four for each report, and four more for ties. */
export type Words = (reports: number) => BigUint64Array;
/** Returns random bytes. */
export type Entropy = (bytes: number) => Bytes;

/** Largest number of bytes that `getRandomValues` gives in one call. */
const MAX_RANDOM_BYTES = 65_536;

/** Random bytes of the operating system. */
export const drawSystemEntropy: Entropy = (bytes) => {
  const data = new Uint8Array(bytes);
  for (let at = 0; at < bytes; at += MAX_RANDOM_BYTES) {
    crypto.getRandomValues(data.subarray(at, at + MAX_RANDOM_BYTES));
  }
  return data;
};

/** Random words of the operating system. */
export const drawSystemWords: Words = (reports) =>
  new BigUint64Array(drawSystemEntropy((reports + 1) * WORDS_PER_DRAW * 8).buffer);

/**
 * Largest epsilon. For much larger ones, the threshold would be below 1, which no 64-bit word can
 * express, and rounding would break the guarantee.
 */
export const MAX_EPSILON = 40;
const WORD_RANGE = 1n << 64n;
/**
 * Binary places of e^epsilon in fixed point. The error stays below 2^-250: more than 70 decimal
 * digits are correct.
 */
const BINARY_PLACES = 320;
const FIXED_ONE = 1n << BigInt(BINARY_PLACES);

/**
 * Return `floor(word * n / 2^64)`: a uniform integer below `n`. The probabilities of two integers
 * differ by at most 2^-64.
 */
export function pickBelow(word: bigint, n: bigint | number): number {
  return Number((word * BigInt(n)) >> 64n);
}

/** Return the threshold `ceil(2^64 / (1 + e^epsilon))`. A word below it flips the sign. */
export function computeFlipThreshold(epsilon: number): bigint {
  return divideRoundingUp(WORD_RANGE * FIXED_ONE, FIXED_ONE + computeExp(epsilon));
}

/**
 * Return the threshold below which a word names a uniform one of `2 n` signed directions.
 *
 * All other words name a loud direction. Words cannot be divided exactly among `loud` or `2 n`
 * directions, so some directions are slightly likelier. The threshold is computed for the likeliest
 * loud direction and the least likely other one, and rounded up. So no ratio of probabilities
 * exceeds e^epsilon.
 */
export function computeUniformThreshold(epsilon: number, loud: number, n: number): bigint {
  const likeliest = divideRoundingUp(WORD_RANGE, BigInt(loud)) * FIXED_ONE;
  const odds = (computeExp(epsilon) - FIXED_ONE) * (WORD_RANGE / (2n * BigInt(n)));
  return divideRoundingUp(WORD_RANGE * likeliest, odds + likeliest);
}

/**
 * Return e^epsilon in units of 2^-320, for the exact value of this float.
 *
 * All terms of the power series are positive, and each is rounded down. So the result is too small
 * rather than too large, and signs are flipped more often.
 */
function computeExp(epsilon: number): bigint {
  if (!(epsilon > 0 && epsilon <= MAX_EPSILON)) {
    throw new SettingsError(`epsilon must be above 0 and at most ${MAX_EPSILON}, got ${epsilon}`);
  }
  const x = BigInt(Math.floor(epsilon * 2 ** BINARY_PLACES));
  let sum = 0n;
  for (let n = 1n, term = FIXED_ONE; term > 0n; n++) {
    sum += term;
    term = (term * x) / (n * FIXED_ONE);
  }
  return sum;
}

function divideRoundingUp(numerator: bigint, denominator: bigint): bigint {
  return (numerator + denominator - 1n) / denominator;
}
