/** Randomness from the operating system. Tests hand in their own; nothing else in the client is random. */

import type { Bytes } from "./bytes.js";

/** Words of 64 bits in one draw. */
export const WORDS_PER_DRAW = 4;

/** The words of a batch: (reports + 1) draws of four, the last draw for ties. */
export type Words = (reports: number) => BigUint64Array;
/** So many random bytes. */
export type Entropy = (bytes: number) => Bytes;

/** `getRandomValues` gives no more at once. */
const MOST_AT_ONCE = 65_536;

/** From the operating system's generator. */
export const systemEntropy: Entropy = (bytes) => {
  const data = new Uint8Array(bytes);
  for (let at = 0; at < bytes; at += MOST_AT_ONCE) {
    crypto.getRandomValues(data.subarray(at, at + MOST_AT_ONCE));
  }
  return data;
};

/** From the operating system's generator. */
export const systemWords: Words = (reports) =>
  new BigUint64Array(systemEntropy((reports + 1) * WORDS_PER_DRAW * 8).buffer);
