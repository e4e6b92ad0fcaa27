/** Rows of V for items that nobody has reported yet: those of the items that share their tags. */

import { columnsOf, type Tags } from "./tags.js";
import type { Matrix } from "./user.js";

/** Which items are not new, by row; a new one has a row of zeros. */
export function learntItems({ values, rows, columns }: Matrix): Uint8Array {
  const learnt = new Uint8Array(rows);
  values.forEach((value, place) => {
    if (value !== 0) learnt[Math.floor(place / columns)] = 1;
  });
  return learnt;
}

/**
 * V with rows for new items: the mean over an item's tags of the mean row of the tag's items, or
 * without such a tag the mean row of all items. So a new item is as popular, and as near to
 * somebody's taste, as those that share its tags are on average. Nothing is made of zeros alone.
 */
export function withCompanions(V: Matrix, learnt: Uint8Array, tags: Tags): Matrix {
  if (!learnt.includes(0) || !learnt.includes(1)) return V;
  const known = [...learnt.keys()].filter((item) => learnt[item] === 1);
  const byTag = tags.names.map(() => new Mean(V.columns));
  const ofAll = new Mean(V.columns);
  for (const item of known) {
    const row = rowOf(V, item);
    ofAll.add(row);
    for (const column of columnsOf(tags, item)) byTag[column]?.add(row);
  }
  const values = V.values.slice();
  learnt.forEach((isKnown, item) => {
    if (isKnown === 1) return;
    const mean = new Mean(V.columns);
    for (const column of columnsOf(tags, item)) {
      const ofTag = byTag[column];
      if (ofTag !== undefined && ofTag.count > 0) mean.add(ofTag.value());
    }
    values.set((mean.count > 0 ? mean : ofAll).value(), item * V.columns);
  });
  return { ...V, values };
}

function rowOf({ values, columns }: Matrix, item: number): Float32Array {
  return values.subarray(item * columns, (item + 1) * columns);
}

/** Of rows that come one by one. */
class Mean {
  readonly #sum: Float64Array;
  count = 0;

  constructor(columns: number) {
    this.#sum = new Float64Array(columns);
  }

  add(row: ArrayLike<number>): void {
    this.count += 1;
    for (let f = 0; f < row.length; f++) {
      this.#sum[f] = (this.#sum[f] as number) + (row[f] as number);
    }
  }

  value(): Float64Array {
    return this.#sum.map((sum) => sum / this.count);
  }
}
