/** The user vector in closed form. It never leaves the device. */

import { toUsable } from "./bounds.js";
import { SettingsError } from "./errors.js";
import type { Matrix } from "./model.js";

const { fround } = Math;

/**
 * Return the touched rows in ascending order without repetitions. Throws a `SettingsError` if a row
 * is not in the matrix.
 */
export function sortRows(own: readonly number[], rows: number): number[] {
  if (!own.every((item) => Number.isInteger(item) && item >= 0 && item < rows)) {
    throw new SettingsError(`item numbers must be from 0 to ${rows - 1}`);
  }
  return [...new Set(own)].sort((a, b) => a - b);
}

/**
 * Solve `x = (V^T V + alpha sum v v^T + lambda I)^-1 (1 + alpha) sum v`, with sums over the items
 * of the history.
 *
 * If the equations have no usable solution, the result is zero. So every history has a result (see
 * `bounds`).
 */
export function solveUserVector(
  V: Matrix,
  own: readonly number[],
  alpha: number,
  regularization: number,
): Float32Array {
  const items = sortRows(own, V.rows);
  const right = sumRows(V, items).map((z) => (1 + alpha) * z);
  return toUsable(
    Float32Array.from(solveFactorized(factorizeNormal(V, items, alpha, regularization), right)),
  );
}

/**
 * Return the scalar product of x and the row of `values` that begins at `start`. It is summed in
 * float32, factor after factor.
 */
export function multiplyVectors(x: Float32Array, values: Float32Array, start: number): number {
  let total = fround((x[0] as number) * (values[start] as number));
  for (let f = 1; f < x.length; f++) {
    total = fround(total + fround((x[f] as number) * (values[start + f] as number)));
  }
  return total;
}

function getEntry(V: Matrix, row: number, column: number): number {
  return V.values[row * V.columns + column] as number;
}

function sumRows(V: Matrix, items: readonly number[]): Float64Array {
  const sum = new Float64Array(V.columns);
  for (const item of items) {
    for (let f = 0; f < V.columns; f++) sum[f] = (sum[f] as number) + getEntry(V, item, f);
  }
  return sum;
}

/** Return the lower triangle of the sum of `v v^T` over these rows, F x F. */
function sumSquares(V: Matrix, items: Iterable<number>): Float64Array {
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

function* listRows(rows: number): Generator<number> {
  for (let row = 0; row < rows; row++) yield row;
}

/**
 * Return the lower triangle of `V^T V`. It is the same for all histories, so it is cached.
 *
 * Computing it can take seconds, so it must be done when a matrix is loaded. If it were done for
 * the first question about a history, the delay would show who has one.
 */
export function sumAllSquares(V: Matrix): Float64Array {
  const sum = cachedSquares.get(V) ?? sumSquares(V, listRows(V.rows));
  cachedSquares.set(V, sum);
  return sum;
}

const cachedSquares = new WeakMap<Matrix, Float64Array>();

/** Return the Cholesky factor of the normal equations, a lower triangle. */
function factorizeNormal(V: Matrix, items: number[], alpha: number, lambda: number): Float64Array {
  const ownSquares = sumSquares(V, items);
  const system = sumAllSquares(V).map((g, at) => g + alpha * (ownSquares[at] as number));
  for (let f = 0; f < V.columns; f++) {
    const at = f * V.columns + f;
    system[at] = (system[at] as number) + lambda;
  }
  return factorize(system, V.columns);
}

/**
 * Replace a symmetric matrix, of which the lower triangle is given, by its Cholesky factor. Both
 * are stored row by row.
 */
export function factorize(lower: Float64Array, size: number): Float64Array {
  const at = (i: number, j: number) => lower[i * size + j] as number;
  for (let j = 0; j < size; j++) {
    for (let i = j; i < size; i++) {
      let value = at(i, j);
      for (let m = 0; m < j; m++) value -= at(i, m) * at(j, m);
      lower[i * size + j] = i === j ? Math.sqrt(value) : value / at(j, j);
    }
  }
  return lower;
}

/** Solve a system from its Cholesky factor, by forward and back substitution. */
export function solveFactorized(lower: Float64Array, right: Float64Array): Float64Array {
  const size = right.length;
  const x = right.slice();
  const at = (i: number, j: number) => lower[i * size + j] as number;
  const reduce = (i: number, m: number, factor: number) => {
    x[i] = (x[i] as number) - factor * (x[m] as number);
  };
  for (let i = 0; i < size; i++) {
    for (let m = 0; m < i; m++) reduce(i, m, at(i, m));
    x[i] = (x[i] as number) / at(i, i);
  }
  for (let i = size - 1; i >= 0; i--) {
    for (let m = i + 1; m < size; m++) reduce(i, m, at(m, i));
    x[i] = (x[i] as number) / at(i, i);
  }
  return x;
}
