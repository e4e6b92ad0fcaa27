/**
 * Linear equations with a symmetric, positive definite matrix.
 *
 * The order of every sum is that of docs/protocol.md, so that every client gets the same bits where
 * they matter. A matrix that is not positive definite gives values that are not finite.
 */

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
