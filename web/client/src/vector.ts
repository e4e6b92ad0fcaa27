import { SettingsError } from "./errors.js";
import { type Matrix, usable } from "./model.js";

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

/** The Cholesky factor by columns, in place; both are lower triangles, row by row. */
export function factorized(lower: Float64Array, size: number): Float64Array {
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

/** The solution, from the factor: forward, then back substitution. */
export function solve(lower: Float64Array, right: Float64Array): Float64Array {
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

/** Bits by which numbers are put in order at once: three passes for all 32. */
const DIGIT = 11;
const MASK = (1 << DIGIT) - 1;

/**
 * Where the keys are, in ascending order of the keys; of equal ones the lower place first. Sorted by
 * counting: the same steps are done whatever the order of the numbers.
 */
export function ascendingOrder(keys: Uint32Array): Uint32Array {
  const order = new Uint32Array(keys.length);
  for (let place = 0; place < order.length; place++) order[place] = place;
  return reordered(keys, order);
}

/** Where the numbers are, the largest first; of equal ones the lower place first. */
export function descendingOrder(numbers: Float64Array): Uint32Array {
  const [low, high] = [new Uint32Array(numbers.length), new Uint32Array(numbers.length)];
  const view = new DataView(new ArrayBuffer(8));
  for (let place = 0; place < numbers.length; place++) {
    view.setFloat64(0, (numbers[place] as number) + 0); // -0 is 0
    const [upper, lower] = [view.getUint32(0), view.getUint32(4)];
    // As a whole number, the bits of a float64 fall as it falls, but rise for negative ones.
    const flip = upper >>> 31 === 1 ? 0 : 0xffff_ffff;
    high[place] = upper ^ (flip & 0x7fff_ffff);
    low[place] = lower ^ flip;
  }
  return reordered(high, ascendingOrder(low));
}

/** By the keys; those in which they are the same stay as they were. */
function reordered(keys: Uint32Array, before: Uint32Array): Uint32Array {
  let order = before;
  for (let shift = 0; shift < 32; shift += DIGIT) order = byDigit(keys, order, shift);
  return order;
}

/** Ordered by one digit; those in which it is the same stay as they were. */
function byDigit(keys: Uint32Array, order: Uint32Array, shift: number) {
  const digitAt = (place: number) => ((keys[place] as number) >>> shift) & MASK;
  const next = new Uint32Array(MASK + 2);
  for (let place = 0; place < keys.length; place++) {
    const after = digitAt(place) + 1;
    next[after] = (next[after] as number) + 1;
  }
  for (let digit = 1; digit <= MASK; digit++) {
    next[digit] = (next[digit] as number) + (next[digit - 1] as number);
  }
  const sorted = new Uint32Array(order.length);
  for (const place of order) {
    const digit = digitAt(place);
    const to = next[digit] as number;
    sorted[to] = place;
    next[digit] = to + 1;
  }
  return sorted;
}
