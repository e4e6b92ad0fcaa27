/**
 * The model that a device uses to recommend: the item matrix V and the tag matrix D, side by side.
 *
 * `W = [V | D]`. Each column of D is a tag. Its entry is 0 for items without the tag, and otherwise
 * proportional to the popularity of the item as the model estimates it. So the best-known horror
 * film stands for "horror" more than any other film. A user vector over W is solved in the same way
 * as one over V. It is never reported, and training does not use it.
 *
 * On average, the columns of D have the same length as those of V. They have a ridge of their own,
 * so that a tag counts only as far as items of the history confirm it. An item has few tags, so D
 * is never stored as a matrix.
 */

import type { Matrix } from "./model.js";
import { getItemColumns, type TagColumns } from "./tags.js";
import { factorize, solveFactorized, sumAllSquares } from "./vector.js";

/**
 * The ridge of tags is this factor times `1 + alpha` times the mean squared length of V's columns.
 */
const TAG_RIDGE_SCALE = 0.2;
/**
 * Used instead of `TAG_RIDGE_SCALE` in a training of names, where popularity now should decide a
 * list more than tags do.
 */
const TAG_RIDGE_SCALE_WITH_SHARES = 2;
/**
 * For a history of `length` items, the ridge of tags is multiplied by `1 + TAG_RIDGE_ITEMS /
 * length`.
 *
 * A short history does not show which tags its owner likes.
 */
const TAG_RIDGE_ITEMS = 60;

/** The part of the model for recommending that is the same for everybody. */
export interface WideModel {
  /** The item matrix, M x F. Rows of new items, which nobody has reported yet, are filled in. */
  readonly V: Matrix;
  /** 1 for each item that has been reported, 0 for each new item. */
  readonly learnt: Uint8Array;
  readonly tags: TagColumns;
  /** Whether the first column of V is the popularity of items now (see `buildWideModel`). */
  readonly hasShares: boolean;
  /** Popularity of each item, as the model estimates it. */
  readonly popularity: Float64Array;
  /** For each column of D, the ratio of its entries to the popularity of their items. */
  readonly scales: Float64Array;
  /** The lower triangle of `W^T W`. */
  readonly gram: Float64Array;
  readonly alpha: number;
  /** Ridge of the factors. */
  readonly regularization: number;
  /** Ridge of the tags, before the factor for the length of the history. */
  readonly tagRidge: number;
}

/** The user vector of one history over W, with parts of the equations that it solves. */
export interface UserSolution {
  readonly x: Float64Array;
  readonly factor: Float64Array;
  readonly ownRows: readonly WeightedRow[];
}

/** The parts of the score of an item. Their sum is the score. */
export interface ScoreParts {
  /**
   * One part for each item of the history, in their order: its contribution through the learnt
   * factors.
   */
  readonly ownItems: Float64Array;
  /** One part for each tag of the scored item, by column of D. */
  readonly tags: ReadonlyMap<number, number>;
  /** Contribution of the whole history through what is touched now, if the model has it. */
  readonly now: number;
}

/** The entries of one row of W that are not zero, with their columns in ascending order. */
interface SparseRow {
  readonly places: Uint16Array;
  readonly values: Float64Array;
}

interface WeightedRow {
  readonly row: SparseRow;
  readonly weight: number;
}

/**
 * Build the model for recommending from an item matrix and the tags of the catalogue.
 *
 * With `hasShares`, as in a training of names, the first column of V is the share of each item among
 * all names. Then it is the popularity.
 */
export function buildWideModel(
  manifest: Pick<WideModel, "alpha" | "regularization" | "hasShares">,
  used: Matrix,
  tags: TagColumns,
): WideModel {
  const { alpha, regularization } = manifest;
  const learnt = findLearntItems(used);
  const V = fillNewRows(used, learnt, tags);
  const hasShares = manifest.hasShares && learnt.includes(1);
  const popularity = hasShares ? getFirstColumn(V) : estimatePopularity(V);
  const squared = computeMeanSquare(V);
  const scales = computeScales(popularity, tags, squared);
  const scale = manifest.hasShares ? TAG_RIDGE_SCALE_WITH_SHARES : TAG_RIDGE_SCALE;
  const tagRidge = scale * (1 + alpha) * squared;
  const columns = { V, tags, popularity, scales, hasShares };
  return { ...columns, learnt, gram: computeGram(columns), alpha, regularization, tagRidge };
}

/** Return a matrix without columns, for a model that goes by tags alone. */
export function dropFactors({ rows }: Matrix): Matrix {
  return { values: new Float32Array(0), rows, columns: 0 };
}

/**
 * Return the mean squared length of V's columns. If V has no columns, return 1: tags then work with
 * any length.
 */
function computeMeanSquare({ values, columns }: Matrix): number {
  const sum = values.reduce((total, value) => total + value * value, 0);
  return sum === 0 ? 1 : sum / columns;
}

function computeScales(popularity: Float64Array, tags: TagColumns, squared: number): Float64Array {
  const sums = new Float64Array(tags.names.length);
  popularity.forEach((s, item) => {
    for (const column of getItemColumns(tags, item)) {
      sums[column] = (sums[column] as number) + s * s;
    }
  });
  return sums.map((sum) => (sum === 0 ? 0 : Math.sqrt(squared / sum)));
}

type Columns = Pick<WideModel, "V" | "tags" | "popularity" | "scales">;

function computeGram(columns: Columns): Float64Array {
  const { V, scales } = columns;
  const size = V.columns + scales.length;
  const gram = new Float64Array(size * size);
  const ofV = sumAllSquares(V);
  for (let f = 0; f < V.columns; f++) {
    gram.set(ofV.subarray(f * V.columns, (f + 1) * V.columns), f * size);
  }
  for (let item = 0; item < V.rows; item++) {
    addSquare(gram, getRow(columns, item), { size, times: 1, from: V.columns });
  }
  return gram;
}

function getRow({ V, tags, popularity, scales }: Columns, item: number): SparseRow {
  const columns = getItemColumns(tags, item);
  const places = new Uint16Array(V.columns + columns.length);
  const values = new Float64Array(places.length);
  for (let f = 0; f < V.columns; f++) {
    places[f] = f;
    values[f] = V.values[item * V.columns + f] as number;
  }
  columns.forEach((column, at) => {
    places[V.columns + at] = V.columns + column;
    values[V.columns + at] = (popularity[item] as number) * (scales[column] as number);
  });
  return { places, values };
}

/**
 * Add `times * W_i^T W_i` to a lower triangle, beginning with the entry `from` of the sparse row.
 */
function addSquare(
  sum: Float64Array,
  { places, values }: SparseRow,
  { size, times, from }: { size: number; times: number; from: number },
): void {
  for (let i = from; i < places.length; i++) {
    const [start, value] = [(places[i] as number) * size, times * (values[i] as number)];
    for (let j = 0; j <= i; j++) {
      const at = start + (places[j] as number);
      sum[at] = (sum[at] as number) + value * (values[j] as number);
    }
  }
}

/**
 * Solve `x = (W^T W + alpha sum w v v^T + ridge)^-1 (1 + alpha) sum w v`, with sums over the items
 * of the history.
 *
 * Here v is an item's row of W and w its weight, by default 1. A solution that is not finite is
 * replaced by zero.
 */
export function solveWideVector(
  model: WideModel,
  items: readonly number[],
  weights: Float64Array = new Float64Array(items.length).fill(1),
): UserSolution {
  const factors = model.V.columns;
  const size = factors + model.scales.length;
  const ownRows = items.map((item, at) => {
    return { row: getRow(model, item), weight: weights[at] as number };
  });
  const system = model.gram.slice();
  const right = new Float64Array(size);
  for (const { row, weight } of ownRows) {
    addSquare(system, row, { size, times: model.alpha * weight, from: 0 });
    addRow(right, row, (1 + model.alpha) * weight);
  }
  const tagRidge = model.tagRidge * (1 + TAG_RIDGE_ITEMS / Math.max(items.length, 1));
  for (let at = 0; at < size; at++) {
    const ridge = at < factors ? model.regularization : tagRidge;
    system[at * size + at] = (system[at * size + at] as number) + ridge;
  }
  const factor = factorize(system, size);
  return { x: toFinite(solveFactorized(factor, right)), factor, ownRows };
}

function addRow(sum: Float64Array, { places, values }: SparseRow, times: number): void {
  places.forEach((place, at) => {
    sum[place] = (sum[place] as number) + times * (values[at] as number);
  });
}

function toFinite(x: Float64Array): Float64Array {
  return x.every(Number.isFinite) ? x : new Float64Array(x.length);
}

function multiplyRow({ places, values }: SparseRow, x: Float64Array): number {
  let sum = 0;
  for (let at = 0; at < places.length; at++) {
    sum += (values[at] as number) * (x[places[at] as number] as number);
  }
  return sum;
}

/** Return the score of an item, `W_i x`. */
export function computeScore(model: WideModel, { x }: UserSolution, item: number): number {
  const { V, tags, popularity, scales } = model;
  const start = item * V.columns;
  let learnt = 0;
  for (let f = 0; f < V.columns; f++) {
    learnt += (V.values[start + f] as number) * (x[f] as number);
  }
  let tagSum = 0;
  for (let at = tags.starts[item] as number; at < (tags.starts[item + 1] as number); at++) {
    const column = tags.columns[at] as number;
    tagSum += (scales[column] as number) * (x[V.columns + column] as number);
  }
  return learnt + (popularity[item] as number) * tagSum;
}

/**
 * Split the score of an item into parts, which add up to it exactly.
 *
 * The part of an item of the history is its contribution through the learnt factors. The part of a
 * tag is the contribution of all items through this tag. One more part is popularity now.
 */
export function splitScore(
  model: WideModel,
  { x, factor, ownRows }: UserSolution,
  item: number,
): ScoreParts {
  const { places, values } = getRow(model, item);
  const learnt = new Float64Array(x.length);
  learnt.set(values.subarray(0, model.V.columns));
  if (model.hasShares) learnt[0] = 0;
  // Solve the equations once for all items of the history, and not once for each.
  const y = toFinite(solveFactorized(factor, learnt));
  const parts = ownRows.map(({ row, weight }) => (1 + model.alpha) * weight * multiplyRow(row, y));
  const tags = new Map<number, number>();
  for (let at = model.V.columns; at < places.length; at++) {
    const place = places[at] as number;
    tags.set(place - model.V.columns, (values[at] as number) * (x[place] as number));
  }
  const now = model.hasShares ? (values[0] as number) * (x[0] as number) : 0;
  return { ownItems: Float64Array.from(parts), tags, now };
}

function getFirstColumn({ values, rows, columns }: Matrix): Float64Array {
  return Float64Array.from({ length: rows }, (_, item) => values[item * columns] as number);
}

/**
 * Estimate the popularity of each item as `V (V^T 1)`, but at least 0.
 *
 * A device does not know how often an item was touched. But `V V^T` estimates which items are
 * touched together. The sum of one of its rows is large for an item that is touched together with
 * many others, and does not depend on the basis of the factors. A model without reports makes all
 * items equally popular.
 */
function estimatePopularity({ values, rows, columns }: Matrix): Float64Array {
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

/** Return 1 for each item that is not new, and 0 for each new item, whose row has only zeros. */
function findLearntItems({ values, rows, columns }: Matrix): Uint8Array {
  const learnt = new Uint8Array(rows);
  values.forEach((value, place) => {
    if (value !== 0) learnt[Math.floor(place / columns)] = 1;
  });
  return learnt;
}

/**
 * Return V with the rows of new items filled in.
 *
 * The row of a new item is a mean over its tags: for each tag, the mean row of the other items with
 * that tag. If no tag of the item has such items, it is the mean row of all items. So a new item is
 * as popular, and as close to a person's taste, as items with its tags are on average. If all rows
 * are zero, V is returned unchanged.
 */
function fillNewRows(V: Matrix, learnt: Uint8Array, tags: TagColumns): Matrix {
  if (!learnt.includes(0) || !learnt.includes(1)) return V;
  const learntRows = [...learnt.keys()].filter((item) => learnt[item] === 1);
  const meanByTag = tags.names.map(() => new Mean(V.columns));
  const meanOfAll = new Mean(V.columns);
  for (const item of learntRows) {
    const row = getFactors(V, item);
    meanOfAll.add(row);
    for (const column of getItemColumns(tags, item)) meanByTag[column]?.add(row);
  }
  const values = V.values.slice();
  learnt.forEach((isKnown, item) => {
    if (isKnown === 1) return;
    const mean = new Mean(V.columns);
    for (const column of getItemColumns(tags, item)) {
      const meanOfTag = meanByTag[column];
      if (meanOfTag !== undefined && meanOfTag.count > 0) mean.add(meanOfTag.getMean());
    }
    values.set((mean.count > 0 ? mean : meanOfAll).getMean(), item * V.columns);
  });
  return { ...V, values };
}

function getFactors({ values, columns }: Matrix, item: number): Float32Array {
  return values.subarray(item * columns, (item + 1) * columns);
}

/** Mean of rows that are added one by one. */
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

  getMean(): Float64Array {
    return this.#sum.map((sum) => sum / this.count);
  }
}
