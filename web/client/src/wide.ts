/**
 * The model as a device uses it to recommend: the item matrix next to the tags, and weights.
 *
 * `W = [V | D]`. A column of D is a tag: 0 for items without it, else the item's popularity as the
 * model estimates it, so that the best known horror film stands for "horror" more than any other. A
 * user vector over W is solved as over V; it is never reported, and training does not use it.
 *
 * The columns of D are as long as V's on average, and have a ridge of their own, so a tag counts
 * only as far as own items confirm it. An item has few tags: D is never stored as a matrix.
 */

import type { Manifest } from "./epoch.js";
import type { Matrix } from "./model.js";
import { getItemColumns, type TagColumns } from "./tags.js";
import { factorize, solveFactorized, sumAllSquares } from "./vector.js";

/** Ridge of a tag in squared lengths of a column, times `1 + alpha`: as strong as the own items. */
const TAG_RIDGE_SCALE = 0.2;
/**
 * With this many own items the ridge is doubled, with half as many it is three times as large.
 *
 * A few items do not show which tags their owner likes.
 */
const TAG_RIDGE_ITEMS = 60;

/** The part of the model that is the same for everybody. */
export interface WideModel {
  /** M x F, with a row for items that nobody has reported yet. */
  readonly V: Matrix;
  /** By row: 1 for items that are not new. */
  readonly learnt: Uint8Array;
  readonly tags: TagColumns;
  /** Popularity of each item, as the model estimates it. */
  readonly popularity: Float64Array;
  /** By column of D: the factor of the popularity of an item with the tag. */
  readonly scales: Float64Array;
  /** The lower triangle of `W^T W`. */
  readonly gram: Float64Array;
  readonly alpha: number;
  /** Ridge of the factors. */
  readonly regularization: number;
  /** Ridge of the tags for a person with a long history. */
  readonly tagRidge: number;
}

/** The user vector of one history over W, and the equations that it solves. */
export interface UserSolution {
  readonly x: Float64Array;
  readonly factor: Float64Array;
  readonly ownRows: readonly WeightedRow[];
}

/** The parts that a score is the sum of. */
export interface ScoreParts {
  /** A part of each own item, in their order: what they say through the learnt factors. */
  readonly ownItems: Float64Array;
  /** A part of each tag of the item, by column. */
  readonly tags: ReadonlyMap<number, number>;
}

/** One row of W where it is not zero; ascending. */
interface SparseRow {
  readonly places: Uint16Array;
  readonly values: Float64Array;
}

interface WeightedRow {
  readonly row: SparseRow;
  readonly weight: number;
}

/**
 * Build the model for recommending from a published one and a catalogue's tags.
 *
 * Before the first reports V is the server's noise and is not used.
 */
export function buildWideModel(
  manifest: Pick<Manifest, "alpha" | "regularization" | "reportsBehind">,
  published: Matrix,
  tags: TagColumns,
): WideModel {
  const { alpha, regularization, reportsBehind } = manifest;
  const used = reportsBehind > 0 ? published : dropFactors(published);
  const learnt = findLearntItems(used);
  const V = fillNewRows(used, learnt, tags);
  const popularity = estimatePopularity(V);
  const squared = computeMeanSquare(V);
  const scales = computeScales(popularity, tags, squared);
  const tagRidge = TAG_RIDGE_SCALE * (1 + alpha) * squared;
  const columns = { V, tags, popularity, scales };
  return { ...columns, learnt, gram: computeGram(columns), alpha, regularization, tagRidge };
}

function dropFactors({ rows }: Matrix): Matrix {
  return { values: new Float32Array(0), rows, columns: 0 };
}

/**
 * Return the mean squared length of V's columns, or 1 if there are none: then any length works for
 * tags.
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

/** Add `times` times `W_i^T W_i` to the lower triangle, for its rows from `from` on. */
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
 * Solve `x = (W^T W + alpha sum w v v^T + ridge)^-1 (1 + alpha) sum w v` over the own items.
 *
 * Each item has its weight, by default 1. A solution that is not finite becomes zero.
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

/** Return how well an item fits: `W_i x`. */
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
 * Return the exact parts that the score of an item is the sum of.
 *
 * What own items say through the learnt factors belongs to the items; what they say through a tag
 * belongs to the tag.
 */
export function splitScore(
  model: WideModel,
  { x, factor, ownRows }: UserSolution,
  item: number,
): ScoreParts {
  const { places, values } = getRow(model, item);
  const learnt = new Float64Array(x.length);
  learnt.set(values.subarray(0, model.V.columns));
  // One solution for all own items, instead of one for each of them.
  const y = toFinite(solveFactorized(factor, learnt));
  const parts = ownRows.map(({ row, weight }) => (1 + model.alpha) * weight * multiplyRow(row, y));
  const tags = new Map<number, number>();
  for (let at = model.V.columns; at < places.length; at++) {
    const place = places[at] as number;
    tags.set(place - model.V.columns, (values[at] as number) * (x[place] as number));
  }
  return { ownItems: Float64Array.from(parts), tags };
}

/**
 * Return `V (V^T 1)`, never below 0.
 *
 * A device has no counts. But `V V^T` estimates which items are touched together, so its row sums
 * show which are touched together with many others, in any basis of the factors. A model without
 * reports makes all items equally popular.
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

/** Return which items are not new, by row; a new one has a row of zeros. */
function findLearntItems({ values, rows, columns }: Matrix): Uint8Array {
  const learnt = new Uint8Array(rows);
  values.forEach((value, place) => {
    if (value !== 0) learnt[Math.floor(place / columns)] = 1;
  });
  return learnt;
}

/**
 * Return V with rows for new items.
 *
 * A new row is the mean over the item's tags of the mean row of the tag's items, or without such a
 * tag the mean row of all items. So a new item is as popular, and as close to a person's taste, as
 * items with its tags are on average. A matrix of zeros stays as it is.
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
