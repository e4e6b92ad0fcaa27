/** How popular each item is as far as a model knows. */

import { columnsOf, type Tags } from "./tags.js";
import type { Matrix } from "./user.js";

/**
 * `V (V^T 1)`, never below 0.
 *
 * A device knows no counts. But `V V^T` is the model's idea of which items are touched together, so
 * its row sums say which are touched together with many, in any basis of the factors.
 *
 * Of an item with a row of zeros nobody has reported anything yet. It counts as popular as the items
 * that share its tags are on average; if no item is known, all count alike.
 */
export function popularityOf(V: Matrix, tags: Tags): Float64Array {
  const known = new Uint8Array(V.rows);
  V.values.forEach((value, place) => {
    if (value !== 0) known[Math.floor(place / V.columns)] = 1;
  });
  const popularity = togetherness(V);
  if (known.includes(0)) fillIn(popularity, known, tags);
  return popularity;
}

function togetherness({ values, rows, columns }: Matrix): Float64Array {
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

/** Those that are not known, by the means of their tags. */
function fillIn(popularity: Float64Array, known: Uint8Array, tags: Tags): void {
  const ofKnown = popularity.filter((_, item) => known[item] === 1);
  const overall = ofKnown.length === 0 ? 1 : mean(ofKnown);
  const means = meansOf(popularity, known, tags).map((one) => (Number.isNaN(one) ? overall : one));
  known.forEach((isKnown, item) => {
    if (isKnown === 1) return;
    const columns = columnsOf(tags, item);
    const ofTags = Float64Array.from(columns, (column) => means[column] as number);
    popularity[item] = ofTags.length === 0 ? overall : mean(ofTags);
  });
}

/** Of each tag over its known items; a NaN if it has none. */
function meansOf(popularity: Float64Array, known: Uint8Array, tags: Tags): Float64Array {
  const sums = new Float64Array(tags.names.length);
  const counts = new Float64Array(tags.names.length);
  known.forEach((isKnown, item) => {
    if (isKnown === 0) return;
    for (const column of columnsOf(tags, item)) {
      sums[column] = (sums[column] as number) + (popularity[item] as number);
      counts[column] = (counts[column] as number) + 1;
    }
  });
  return sums.map((sum, column) => sum / (counts[column] as number));
}

function mean(values: Float64Array): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
