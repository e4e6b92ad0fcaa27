/** The Walsh-Hadamard transform and the public signs that randomise it. */

import { concat, sha256, utf8 } from "../bytes.js";

const SIGNS_PER_BLOCK = 256;

/** The least power of two that is at least `n`. */
export function nextPowerOfTwo(n: number): number {
  let power = 1;
  while (power < n) power *= 2;
  return power;
}

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
export async function publicSigns(
  seed: number,
  axis: "items" | "factors",
  n: number,
): Promise<Int8Array> {
  const prefix = concat(utf8(`sottovoce directions v1\0${axis}\0`), littleEndian(seed, 8));
  const blocks = Array.from({ length: Math.ceil(n / SIGNS_PER_BLOCK) }, (_, block) =>
    sha256(concat(prefix, littleEndian(block, 4))),
  );
  const stream = concat(...(await Promise.all(blocks)));
  return new Int8Array(n).map((_, at) => (((stream[at >> 3] as number) >> (at & 7)) & 1 ? -1 : 1));
}

function littleEndian(value: number, bytes: 4 | 8): Uint8Array {
  const view = new DataView(new ArrayBuffer(8));
  view.setBigUint64(0, BigInt(value), true);
  return new Uint8Array(view.buffer, 0, bytes);
}
