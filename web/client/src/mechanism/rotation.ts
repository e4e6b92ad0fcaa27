/**
 * The rotated directions that `hadamard` and `loudest` share.
 *
 * A gradient `g = -2 e x^T` is rotated on both axes: direction (r, q) is the +-1 matrix
 * `s_i H[r, i] * t_f H'[q, f]`, with H the Walsh-Hadamard matrix of size R = 2^m >= M, H' that of
 * size Q = 2^n >= F, and public signs s, t. The gradient's share along it factorises into
 * `-2 a_r b_q` with `a_r = sum_i s_i H[r, i] e_i` and `b_q = sum_f t_f H'[q, f] x_f`.
 */

import type { Manifest } from "../manifest.js";
import { dot, type Matrix } from "../user.js";
import type { Person } from "./draws.js";
import { hadamardSign, nextPowerOfTwo, publicSigns, transform } from "./walsh.js";

const { fround } = Math;
/** `allRows` adds items within blocks of this size one by one, then blocks by butterflies. */
const BLOCK = 128;

/** One person's gradient, rotated. */
export interface Rotated {
  /** R. */
  readonly rows: number;
  /** Q. */
  readonly columns: number;
  /** b, of length Q. */
  readonly b: Float32Array;
  /** `H (s * V)`, R rows of F: what everybody's `-V x` looks like when rotated. */
  readonly W: Float32Array;
  /** What each touched item adds to that, in the order of the own items. */
  readonly weights: Float32Array;
}

/** R Q. */
export function rotatedDirections({ items, terms }: Manifest): number {
  return nextPowerOfTwo(items) * nextPowerOfTwo(terms.factors);
}

/** Everything that the two mechanisms need of a person. */
export async function rotated(person: Person): Promise<Rotated> {
  const { V, own, x, manifest } = person;
  const seed = manifest.terms.parameters.directions_seed as number;
  const itemSigns = await publicSigns(seed, "items", V.rows);
  const factorSigns = await publicSigns(seed, "factors", V.columns);
  const b = new Float32Array(nextPowerOfTwo(V.columns));
  b.set(x.map((value, f) => value * (factorSigns[f] as number)));
  transform(b);
  const alpha = fround(manifest.alpha);
  const weights = Float32Array.from(own, (item) => {
    const share = fround(alpha * dot(x, V.values, item * V.columns));
    return (itemSigns[item] as number) * fround(fround(1 + alpha) - share);
  });
  return { rows: nextPowerOfTwo(V.rows), columns: b.length, b, W: itemRows(V, itemSigns), weights };
}

/** In float64, rounded to float32 once; column by column, so that one of them alone is wide. */
function itemRows(V: Matrix, signs: Int8Array): Float32Array {
  const rows = nextPowerOfTwo(V.rows);
  const W = new Float32Array(rows * V.columns);
  for (let column = 0; column < V.columns; column++) {
    const wide = new Float64Array(rows);
    for (let row = 0; row < V.rows; row++) {
      wide[row] = (signs[row] as number) * (V.values[row * V.columns + column] as number);
    }
    transform(wide);
    for (let row = 0; row < rows; row++) W[row * V.columns + column] = wide[row] as number;
  }
  return W;
}

/** `a` at one row, item after item. */
export function oneRow(person: Person, rotation: Rotated, row: number): number {
  let own = 0;
  person.own.forEach((item, number) => {
    own = fround(own + (rotation.weights[number] as number) * hadamardSign(row, item));
  });
  return share(person, rotation, row, own);
}

/** `a` at every row, by one transform. */
export function allRows(person: Person, rotation: Rotated): Float32Array {
  const own = new Float32Array(rotation.rows);
  const block = Math.min(BLOCK, rotation.rows);
  person.own.forEach((item, number) => {
    const start = item - (item % block);
    for (let column = 0; column < block; column++) {
      const signed = (rotation.weights[number] as number) * hadamardSign(item % block, column);
      own[start + column] = (own[start + column] as number) + signed;
    }
  });
  transform(own, block);
  return own.map((sum, row) => share(person, rotation, row, sum));
}

function share(person: Person, rotation: Rotated, row: number, own: number): number {
  return fround(own - dot(person.x, rotation.W, row * person.V.columns));
}
