/**
 * The user vector in closed form, and what follows from it. It never leaves the device.
 *
 * The order of every sum is that of docs/protocol.md (items ascending, factors ascending, one
 * rounding for each operation), so that every client gets the same bits. Plain arithmetic is
 * float64; `Math.fround` marks where it is float32.
 */

import { usable } from "./bounds.js";
import { factorized, solve } from "./cholesky.js";
import { SettingsError } from "./errors.js";

/** Row by row. */
export interface Matrix {
  readonly values: Float32Array;
  readonly rows: number;
  readonly columns: number;
}

const { fround } = Math;

/** The rows that somebody touched: ascending, each once, all of them in the matrix. */
export function ascending(own: readonly number[], rows: number): number[] {
  if (!own.every((item) => Number.isInteger(item) && item >= 0 && item < rows)) {
    throw new SettingsError(`item numbers must be from 0 to ${rows - 1}`);
  }
  return [...new Set(own)].sort((a, b) => a - b);
}

/**
 * `x = (V^T V + alpha sum v v^T + lambda I)^-1 (1 + alpha) sum v`, sums over the own items; zero
 * where that has no usable solution (`bounds`). Whatever was touched, there is a result.
 */
export function userVector(
  V: Matrix,
  own: readonly number[],
  alpha: number,
  regularization: number,
): Float32Array {
  const items = ascending(own, V.rows);
  const right = sumOfRows(V, items).map((z) => (1 + alpha) * z);
  return usable(Float32Array.from(solve(normalFactor(V, items, alpha, regularization), right)));
}

/** `x.v` in float32, factor after factor, with the row of `values` that begins at `start`. */
export function dot(x: Float32Array, values: Float32Array, start: number): number {
  let total = fround((x[0] as number) * (values[start] as number));
  for (let f = 1; f < x.length; f++) {
    total = fround(total + fround((x[f] as number) * (values[start + f] as number)));
  }
  return total;
}

function entry(V: Matrix, row: number, column: number): number {
  return V.values[row * V.columns + column] as number;
}

function sumOfRows(V: Matrix, items: readonly number[]): Float64Array {
  const sum = new Float64Array(V.columns);
  for (const item of items) {
    for (let f = 0; f < V.columns; f++) sum[f] = (sum[f] as number) + entry(V, item, f);
  }
  return sum;
}

/** The lower triangle of the sum of `v v^T` over some rows, F x F. */
function sumOfSquares(V: Matrix, items: Iterable<number>): Float64Array {
  const { values, columns } = V;
  const sum = new Float64Array(columns * columns);
  for (const item of items) {
    const start = item * columns;
    for (let i = 0; i < columns; i++) {
      const v = values[start + i] as number;
      for (let j = 0; j <= i; j++) {
        const at = i * columns + j;
        sum[at] = (sum[at] as number) + v * (values[start + j] as number);
      }
    }
  }
  return sum;
}

function* allRows(rows: number): Generator<number> {
  for (let row = 0; row < rows; row++) yield row;
}

/**
 * The lower triangle of `V^T V`: the same for everybody and every question, so it is worked out once.
 * That can take seconds, so it is to be done when a matrix is taken in: done at the first question
 * about a history it would show who has one.
 */
export function sumOfAllSquares(V: Matrix): Float64Array {
  const known = squares.get(V) ?? sumOfSquares(V, allRows(V.rows));
  squares.set(V, known);
  return known;
}

const squares = new WeakMap<Matrix, Float64Array>();

/** The Cholesky factor of the normal equations, lower triangle. */
function normalFactor(V: Matrix, items: number[], alpha: number, lambda: number): Float64Array {
  const own = sumOfSquares(V, items);
  const system = sumOfAllSquares(V).map((g, at) => g + alpha * (own[at] as number));
  for (let f = 0; f < V.columns; f++) {
    const at = f * V.columns + f;
    system[at] = (system[at] as number) + lambda;
  }
  return factorized(system, V.columns);
}
