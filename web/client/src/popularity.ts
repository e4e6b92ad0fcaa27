/** How popular each item is as far as a model knows. */

import type { Matrix } from "./user.js";

/**
 * `V (V^T 1)`, never below 0.
 *
 * A device knows no counts. But `V V^T` is the model's idea of which items are touched together, so
 * its row sums say which are touched together with many, in any basis of the factors. A model that
 * knows nothing takes all items for equally popular.
 */
export function popularityOf({ values, rows, columns }: Matrix): Float64Array {
  if (values.every((value) => value === 0)) return new Float64Array(rows).fill(1);
  const sums = new Float64Array(columns);
  values.forEach((value, place) => {
    sums[place % columns] = (sums[place % columns] as number) + value;
  });
  return Float64Array.from({ length: rows }, (_, item) => {
    let sum = 0;
    for (let f = 0; f < columns; f++) {
      sum += (values[item * columns + f] as number) * (sums[f] as number);
    }
    return Math.max(0, sum);
  });
}
