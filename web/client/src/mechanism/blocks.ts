/**
 * The directions of `loudest`: Hadamard rows inside blocks of items, times single factors.
 *
 * Items are laid by a public permutation into blocks of b, a power of two; R = b ceil(M / b) rows. The
 * direction (r, f), index `r F + f`, is the matrix with `s_i H[r mod b, place of i in its block]` in
 * column f for the items of row r's block, and 0 elsewhere; s are public signs. A gradient `-2 e x^T`
 * agrees with it by `-2 a_r x_f`, with `a_r = sum_i s_i H[r mod b, place of i] e_i` over the block.
 */

import type { Manifest } from "../manifest.js";
import { slices } from "../slices.js";
import { ascendingOrder } from "../sorting.js";
import { dot } from "../user.js";
import type { Person } from "./draws.js";
import { hadamardSign, publicBytes, publicSigns, transform } from "./walsh.js";

const { fround } = Math;
export const MOST_BLOCK = 1024;
/** Items are added within so many rows one by one, the rest of a block by butterflies. */
const ONE_BY_ONE = 128;
/** Numbers that are worked on at once: some milliseconds. */
const SLICE = 2 ** 18;

/** Where the items lie, and with which sign: the same for everybody. */
interface Layout {
  /** s, one for each item. */
  readonly signs: Int8Array;
  /** The item at each place. */
  readonly items: Uint32Array;
  /** The place of each item. */
  readonly places: Uint32Array;
}

/** b. */
function blockOf({ terms }: Manifest): number {
  return terms.parameters.block as number;
}

/** R. */
function rowsOf(manifest: Manifest): number {
  const block = blockOf(manifest);
  return Math.ceil(manifest.items / block) * block;
}

/** n = R F. */
export function blockDirections(manifest: Manifest): number {
  return rowsOf(manifest) * manifest.terms.factors;
}

/**
 * `a` at every row: what touched items add, item after item, less everybody's part `x.W_r`, with
 * `W = H (s * V)`. Of W there is never more than a block.
 */
export async function allRows(person: Person): Promise<Float32Array> {
  const { V, x, manifest } = person;
  const size = blockOf(manifest);
  const layout = await publicLayout(manifest);
  const a = await historyRows(person, layout);
  const wide = new Float64Array(size * V.columns);
  const W = new Float32Array(wide.length);
  const some = Math.ceil(SLICE / wide.length);
  for await (const [first, end] of slices(a.length / size, some)) {
    for (let start = first * size; start < end * size; start += size) {
      fillBlock(wide, person, layout, start);
      transform(wide, V.columns);
      W.set(wide);
      for (let row = 0; row < size; row++) {
        a[start + row] = (a[start + row] as number) - dot(x, W, row * V.columns);
      }
    }
  }
  return a;
}

/** Neighbours in a catalogue are none here: items lie in the order of public numbers. */
async function publicLayout(manifest: Manifest): Promise<Layout> {
  const seed = manifest.terms.parameters.directions_seed as number;
  const n = manifest.items;
  const bytes = await publicBytes(seed, "order", 4 * n);
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  const items = ascendingOrder(new Uint32Array(n).map((_, item) => view.getUint32(4 * item, true)));
  const places = new Uint32Array(n);
  items.forEach((item, place) => {
    places[item] = place;
  });
  return { signs: await publicSigns(seed, n), items, places };
}

/** `s * V` at the places from `start` on; those without an item are zero. */
function fillBlock(wide: Float64Array, { V }: Person, layout: Layout, start: number): void {
  wide.fill(0);
  for (let at = 0, place = start; at < wide.length && place < layout.items.length; place++) {
    const item = layout.items[place] as number;
    const sign = layout.signs[item] as number;
    for (let from = item * V.columns, end = from + V.columns; from < end; from++, at++) {
      wide[at] = sign * (V.values[from] as number);
    }
  }
}

/** `H` times the sparse weights of the touched items, block by block. */
async function historyRows(person: Person, { signs, places }: Layout): Promise<Float32Array> {
  const size = blockOf(person.manifest);
  const inner = Math.min(ONE_BY_ONE, size);
  const innerSigns = signTable(inner);
  const rows = new Float32Array(rowsOf(person.manifest));
  for await (const [first, end] of slices(person.own.length, SLICE / ONE_BY_ONE)) {
    for (const item of person.own.slice(first, end)) {
      const weight = (signs[item] as number) * historyWeight(person, item);
      const column = (places[item] as number) % inner;
      const start = (places[item] as number) - column;
      for (let row = 0; row < inner; row++) {
        const signed = weight * (innerSigns[column * inner + row] as number);
        rows[start + row] = (rows[start + row] as number) + signed;
      }
    }
  }
  for (let start = 0; start < rows.length; start += size) {
    transform(rows.subarray(start, start + size), inner);
  }
  return rows;
}

/** `(1 + alpha) - alpha x.v_i`: e is dense only through `-V x`; this is what a touched item adds. */
function historyWeight({ manifest, V, x }: Person, item: number): number {
  const alpha = fround(manifest.alpha);
  const share = fround(alpha * dot(x, V.values, item * V.columns));
  return fround(fround(1 + alpha) - share);
}

/** `H` of so many rows. */
function signTable(size: number): Int8Array {
  return new Int8Array(size * size).map((_, at) => hadamardSign(Math.floor(at / size), at % size));
}
