/**
 * The directions of the mechanism `loudest`: Hadamard rows inside blocks of items, times single
 * factors.
 *
 * A public permutation arranges the M items in blocks of b places, where b is a power of two. The
 * last places of the last block may be empty. Each place has a row, so there are R = b ceil(M / b)
 * rows. H is the Hadamard matrix with b rows. The direction (r, f), with index `r F + f`, is an
 * M x F matrix. In its column f, the entry of each item i in the block of row r is
 * `s_i H[r mod b, place of i in its block]`, where s_i is a public sign. All other entries are 0.
 *
 * A person's gradient is `-2 e x^T`, where e has a residual for each item and x is the user vector.
 * Its inner product with the direction is `-2 a_r x_f`, with
 * `a_r = sum_i s_i H[r mod b, place of i in its block] e_i` over the items of the block.
 */

import { concatenate, encodeUtf8, hashSha256 } from "../bytes.js";
import type { Manifest } from "../epoch.js";
import { orderAscending } from "../sorting.js";
import { multiplyVectors } from "../vector.js";
import type { Person } from "./base.js";
import { sliceRange } from "./slices.js";

const { fround } = Math;

/**
 * Each item is added to this many rows one by one. If a block has more rows, `transform` then
 * computes all of them from these.
 */
const ROWS_ADDED_SINGLY = 128;
/** Numbers that are computed in one slice of work, which takes some milliseconds. */
const NUMBERS_PER_SLICE = 2 ** 18;

/** The public order and signs of the items, the same for everybody. */
interface Layout {
  /** The sign s of each item. */
  readonly signs: Int8Array;
  /** The item at each place of the order. */
  readonly items: Uint32Array;
  /** The place of each item in the order. */
  readonly places: Uint32Array;
}

function getBlockSize({ terms }: Manifest): number {
  return terms.parameters.block as number;
}

function countRows(manifest: Manifest): number {
  const block = getBlockSize(manifest);
  return Math.ceil(manifest.items / block) * block;
}

/** Return the number of directions, n = R F. */
export function countDirections(manifest: Manifest): number {
  return countRows(manifest) * manifest.terms.factors;
}

/**
 * Return `a_r` for every row.
 *
 * `a_r` is the sum over the touched items, minus `x.W_r`, where `W = H (s * V)`. Only one block of
 * W is in memory at a time.
 */
export async function computeRowWeights(person: Person): Promise<Float32Array> {
  const { V, x, manifest } = person;
  const size = getBlockSize(manifest);
  const layout = await computeLayout(manifest);
  const a = await computeHistoryRows(person, layout);
  const wide = new Float64Array(size * V.columns);
  const W = new Float32Array(wide.length);
  const some = Math.ceil(NUMBERS_PER_SLICE / wide.length);
  for await (const [first, end] of sliceRange(a.length / size, some)) {
    for (let start = first * size; start < end * size; start += size) {
      fillBlock(wide, person, layout, start);
      transform(wide, V.columns);
      W.set(wide);
      for (let row = 0; row < size; row++) {
        a[start + row] = (a[start + row] as number) - multiplyVectors(x, W, row * V.columns);
      }
    }
  }
  return a;
}

/**
 * Compute the public order and the public signs of the items. The order is random, so neighbours
 * in the catalogue are separated.
 */
async function computeLayout(manifest: Manifest): Promise<Layout> {
  const seed = manifest.terms.parameters.directions_seed as number;
  const n = manifest.items;
  const bytes = await computePublicBytes(seed, "order", 4 * n);
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  const items = orderAscending(new Uint32Array(n).map((_, item) => view.getUint32(4 * item, true)));
  const places = new Uint32Array(n);
  items.forEach((item, place) => {
    places[item] = place;
  });
  return { signs: await computeSigns(seed, n), items, places };
}

/** Write one block of `s * V`, whose first place is `start`. Places without an item are zero. */
function fillBlock(wide: Float64Array, { V }: Person, layout: Layout, start: number): void {
  wide.fill(0);
  for (let at = 0, place = start; at < wide.length && place < layout.items.length; place++) {
    const item = layout.items[place] as number;
    const sign = layout.signs[item] as number;
    for (let source = item * V.columns, end = source + V.columns; source < end; source++, at++) {
      wide[at] = sign * (V.values[source] as number);
    }
  }
}

/** Return `H` times the weights of the touched items, block by block. */
async function computeHistoryRows(
  person: Person,
  { signs, places }: Layout,
): Promise<Float32Array> {
  const size = getBlockSize(person.manifest);
  const inner = Math.min(ROWS_ADDED_SINGLY, size);
  const innerSigns = makeSignTable(inner);
  const rows = new Float32Array(countRows(person.manifest));
  for await (const [first, end] of sliceRange(
    person.own.length,
    NUMBERS_PER_SLICE / ROWS_ADDED_SINGLY,
  )) {
    for (const item of person.own.slice(first, end)) {
      const weight = (signs[item] as number) * computeHistoryWeight(person, item);
      const column = (places[item] as number) % inner;
      const start = (places[item] as number) - column;
      for (let row = 0; row < inner; row++) {
        const signedWeight = weight * (innerSigns[column * inner + row] as number);
        rows[start + row] = (rows[start + row] as number) + signedWeight;
      }
    }
  }
  for (let start = 0; start < rows.length; start += size) {
    transform(rows.subarray(start, start + size), inner);
  }
  return rows;
}

/**
 * Return `(1 + alpha) - alpha x.v_i`, the weight of a touched item. The residual `e_i` is this
 * weight, or 0 for an item that was not touched, minus `x.v_i`.
 */
function computeHistoryWeight({ manifest, V, x }: Person, item: number): number {
  const alpha = fround(manifest.alpha);
  const share = fround(alpha * multiplyVectors(x, V.values, item * V.columns));
  return fround(fround(1 + alpha) - share);
}

/** Return the Hadamard matrix `H` with `size` rows. */
function makeSignTable(size: number): Int8Array {
  return new Int8Array(size * size).map((_, at) =>
    computeHadamardSign(Math.floor(at / size), at % size),
  );
}

const DIGEST_BYTES = 32;
/** Number of digests that are computed at the same time. */
const DIGESTS_PER_BATCH = 256;

/**
 * Multiply each column of a matrix with `width` columns by `H`, in place.
 *
 * The number of rows must be a power of two. For the distances 1, 2, 4, ... each pair of rows (u,
 * v) at that distance becomes (u + v, u - v). Each result is rounded once, when it is stored, to
 * the float32 or float64 of the array.
 */
function transform(values: Float32Array | Float64Array, width = 1): void {
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

/**
 * Return `H[row, column]`: -1 to the power of the number of one bits that row and column have in
 * common.
 */
function computeHadamardSign(row: number, column: number): 1 | -1 {
  let bits = row & column;
  for (const shift of [16, 8, 4, 2, 1]) bits ^= bits >>> shift;
  return (bits & 1) === 1 ? -1 : 1;
}

/** Compute `n` public signs from the seed in the manifest; a one bit means -1. */
async function computeSigns(seed: number, n: number): Promise<Int8Array> {
  const bytes = await computePublicBytes(seed, "signs", Math.ceil(n / 8));
  return new Int8Array(n).map((_, at) => (((bytes[at >> 3] as number) >> (at & 7)) & 1 ? -1 : 1));
}

/**
 * Compute public bytes: the concatenated SHA-256 digests of a label, the use, the seed and a
 * counter.
 */
async function computePublicBytes(
  seed: number,
  use: "signs" | "order",
  size: number,
): Promise<Uint8Array> {
  const prefix = concatenate([
    encodeUtf8(`sottovoce directions v2\0${use}\0`),
    toLittleEndian(seed, 8),
  ]);
  const digests = Math.ceil(size / DIGEST_BYTES);
  const bytes = new Uint8Array(digests * DIGEST_BYTES);
  for (let first = 0; first < digests; first += DIGESTS_PER_BATCH) {
    const numbers = Array.from(
      { length: Math.min(DIGESTS_PER_BATCH, digests - first) },
      (_, i) => first + i,
    );
    const hashBlock = (number: number) =>
      hashSha256(concatenate([prefix, toLittleEndian(number, 4)]));
    const results = await Promise.all(numbers.map(hashBlock));
    results.forEach((bytesOfDigest, i) => {
      bytes.set(bytesOfDigest, (first + i) * DIGEST_BYTES);
    });
  }
  return bytes.subarray(0, size);
}

function toLittleEndian(value: number, bytes: 4 | 8): Uint8Array {
  const view = new DataView(new ArrayBuffer(8));
  view.setBigUint64(0, BigInt(value), true);
  return new Uint8Array(view.buffer, 0, bytes);
}
