/** The Walsh-Hadamard transform and the public signs that randomise it. */

import { concat, sha256, utf8 } from "../bytes.js";

const DIGEST = 32;
/** Digests that are asked for at once. */
const TOGETHER = 256;

/**
 * `H` times each column of a matrix with `width` columns and a power of two rows, in place.
 *
 * Each pair of rows (u, v) at distance 1, 2, 4, ... becomes (u + v, u - v). A result is rounded when
 * it is stored: once, to float32 or float64, whichever the array holds.
 */
export function transform(values: Float32Array | Float64Array, width = 1): void {
  for (let half = width; half < values.length; half *= 2) {
    for (let start = 0; start < values.length; start += 2 * half) {
      for (let low = start; low < start + half; low++) {
        const u = values[low] as number;
        const v = values[low + half] as number;
        values[low] = u + v;
        values[low + half] = u - v;
      }
    }
  }
}

/** `H[row, column]`: -1 to the number of ones that the two have in common. */
export function hadamardSign(row: number, column: number): 1 | -1 {
  let bits = row & column;
  for (const shift of [16, 8, 4, 2, 1]) bits ^= bits >>> shift;
  return (bits & 1) === 1 ? -1 : 1;
}

/** `n` signs that everybody can compute from the seed in the manifest; a set bit is -1. */
export async function publicSigns(seed: number, n: number): Promise<Int8Array> {
  const bytes = await publicBytes(seed, "signs", Math.ceil(n / 8));
  return new Int8Array(n).map((_, at) => (((bytes[at >> 3] as number) >> (at & 7)) & 1 ? -1 : 1));
}

/** Bytes that everybody can compute: digests of label, use, seed and number, one after the other. */
export async function publicBytes(
  seed: number,
  use: "signs" | "order",
  size: number,
): Promise<Uint8Array> {
  const prefix = concat([utf8(`sottovoce directions v2\0${use}\0`), littleEndian(seed, 8)]);
  const digests = Math.ceil(size / DIGEST);
  const bytes = new Uint8Array(digests * DIGEST);
  for (let first = 0; first < digests; first += TOGETHER) {
    const numbers = Array.from(
      { length: Math.min(TOGETHER, digests - first) },
      (_, i) => first + i,
    );
    const digest = (number: number) => sha256(concat([prefix, littleEndian(number, 4)]));
    const found = await Promise.all(numbers.map(digest));
    found.forEach((each, i) => {
      bytes.set(each, (first + i) * DIGEST);
    });
  }
  return bytes.subarray(0, size);
}

function littleEndian(value: number, bytes: 4 | 8): Uint8Array {
  const view = new DataView(new ArrayBuffer(8));
  view.setBigUint64(0, BigInt(value), true);
  return new Uint8Array(view.buffer, 0, bytes);
}
