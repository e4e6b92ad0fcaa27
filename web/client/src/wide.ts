/**
 * The model as a device uses it to recommend: the item matrix beside the tags, and weights.
 *
 * `W = [V | D]`. A column of D is a tag: 0 for items without it, else the item's popularity as the
 * model knows it, so that the best known horror film stands for "horror" more than any other. A user
 * vector over W is solved as over V alone; nothing of it is reported, and training does not know it.
 *
 * The columns of D are as long as V's on average, and have a ridge of their own, so that a tag is
 * believed only as far as the own items bear it out. An item has few tags: D is never made whole.
 */

import type { Manifest } from "./epoch.js";
import type { Matrix } from "./model.js";
import { columnsOf, type Tags } from "./tags.js";
import { factorized, solve, sumOfAllSquares } from "./vector.js";

/**
 * In squared lengths of a column, times `1 + alpha`: a tag is held back by as much as the own items
 * push it.
 */
const TAG_RIDGE = 0.2;
/**
 * So many own items double the ridge, half as many make it three times as large: from a few items
 * nobody can tell which tags their owner likes.
 */
const SURE_AFTER = 60;

/** What is the same for everybody. */
export interface WideModel {
  /** M x F, with a row for items that nobody has reported yet. */
  readonly V: Matrix;
  /** By row: 1 for items that are not new. */
  readonly learnt: Uint8Array;
  readonly tags: Tags;
  /** Of each item, as the model knows it. */
  readonly popularity: Float64Array;
  /** By column of D: what the popularity of an item with the tag is multiplied by. */
  readonly scales: Float64Array;
  /** The lower triangle of `W^T W`. */
  readonly gram: Float64Array;
  readonly alpha: number;
  /** Ridge of the factors. */
  readonly regularization: number;
  /** Ridge of the tags, of somebody with a long history. */
  readonly tagRidge: number;
}

/** The user vector of one history over W, and the equations that it solves. */
export interface Solution {
  readonly x: Float64Array;
  readonly factor: Float64Array;
  readonly own: readonly Weighted[];
}

export interface Parts {
  /** A part of each own item, in their order: what they say through the learnt factors. */
  readonly own: Float64Array;
  /** A part of each tag that the item has, by column. */
  readonly tags: ReadonlyMap<number, number>;
}

/** One row of W, where it is not zero; ascending. */
interface Row {
  readonly places: Uint16Array;
  readonly values: Float64Array;
}

interface Weighted {
  readonly row: Row;
  readonly weight: number;
}

/**
 * A model as published, with a catalogue's tags.
 *
 * Before the first reports V is the server's noise: it says nothing, and tags alone do.
 */
export function wideModel(
  manifest: Pick<Manifest, "alpha" | "regularization" | "reportsBehind">,
  published: Matrix,
  tags: Tags,
): WideModel {
  const { alpha, regularization, reportsBehind } = manifest;
  const known = reportsBehind > 0 ? published : withoutFactors(published);
  const learnt = learntItems(known);
  const V = withCompanions(known, learnt, tags);
  const popularity = popularityOf(V);
  const squared = squaredLength(V);
  const scales = scalesOf(popularity, tags, squared);
  const tagRidge = TAG_RIDGE * (1 + alpha) * squared;
  const columns = { V, tags, popularity, scales };
  return { ...columns, learnt, gram: gramOf(columns), alpha, regularization, tagRidge };
}

function withoutFactors({ rows }: Matrix): Matrix {
  return { values: new Float32Array(0), rows, columns: 0 };
}

/** Of the mean column; a model that knows nothing yet leaves any length to the tags. */
function squaredLength({ values, columns }: Matrix): number {
  const sum = values.reduce((total, value) => total + value * value, 0);
  return sum === 0 ? 1 : sum / columns;
}

function scalesOf(popularity: Float64Array, tags: Tags, squared: number): Float64Array {
  const sums = new Float64Array(tags.names.length);
  popularity.forEach((s, item) => {
    for (const column of columnsOf(tags, item)) {
      sums[column] = (sums[column] as number) + s * s;
    }
  });
  return sums.map((sum) => (sum === 0 ? 0 : Math.sqrt(squared / sum)));
}

type Columns = Pick<WideModel, "V" | "tags" | "popularity" | "scales">;

function gramOf(columns: Columns): Float64Array {
  const { V, scales } = columns;
  const size = V.columns + scales.length;
  const gram = new Float64Array(size * size);
  const ofV = sumOfAllSquares(V);
  for (let f = 0; f < V.columns; f++) {
    gram.set(ofV.subarray(f * V.columns, (f + 1) * V.columns), f * size);
  }
  for (let item = 0; item < V.rows; item++) {
    addSquare(gram, rowOf(columns, item), { size, times: 1, from: V.columns });
  }
  return gram;
}

function rowOf({ V, tags, popularity, scales }: Columns, item: number): Row {
  const columns = columnsOf(tags, item);
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

/** Adds so many times `W_i^T W_i` to the lower triangle, as far as it lies in rows `from` on. */
function addSquare(
  sum: Float64Array,
  { places, values }: Row,
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
 * `x = (W^T W + alpha sum w v v^T + ridge)^-1 (1 + alpha) sum w v`, sums over the own items, each
 * with its weight (1, if nothing is said). Zero where that is not finite: such a model says nothing.
 */
export function solution(
  model: WideModel,
  items: readonly number[],
  weights: Float64Array = new Float64Array(items.length).fill(1),
): Solution {
  const factors = model.V.columns;
  const size = factors + model.scales.length;
  const own = items.map((item, at) => {
    return { row: rowOf(model, item), weight: weights[at] as number };
  });
  const system = model.gram.slice();
  const right = new Float64Array(size);
  for (const { row, weight } of own) {
    addSquare(system, row, { size, times: model.alpha * weight, from: 0 });
    addRow(right, row, (1 + model.alpha) * weight);
  }
  const tagRidge = model.tagRidge * (1 + SURE_AFTER / Math.max(items.length, 1));
  for (let at = 0; at < size; at++) {
    const ridge = at < factors ? model.regularization : tagRidge;
    system[at * size + at] = (system[at * size + at] as number) + ridge;
  }
  const factor = factorized(system, size);
  return { x: finite(solve(factor, right)), factor, own };
}

function addRow(sum: Float64Array, { places, values }: Row, times: number): void {
  places.forEach((place, at) => {
    sum[place] = (sum[place] as number) + times * (values[at] as number);
  });
}

function finite(x: Float64Array): Float64Array {
  return x.every(Number.isFinite) ? x : new Float64Array(x.length);
}

function product({ places, values }: Row, x: Float64Array): number {
  let sum = 0;
  for (let at = 0; at < places.length; at++) {
    sum += (values[at] as number) * (x[places[at] as number] as number);
  }
  return sum;
}

/** How well an item fits: `W_i x`. */
export function scoreOf(model: WideModel, { x }: Solution, item: number): number {
  const { V, tags, popularity, scales } = model;
  const start = item * V.columns;
  let learnt = 0;
  for (let f = 0; f < V.columns; f++) {
    learnt += (V.values[start + f] as number) * (x[f] as number);
  }
  let ofTags = 0;
  for (let at = tags.starts[item] as number; at < (tags.starts[item + 1] as number); at++) {
    const column = tags.columns[at] as number;
    ofTags += (scales[column] as number) * (x[V.columns + column] as number);
  }
  return learnt + (popularity[item] as number) * ofTags;
}

/**
 * What the score of an item is the sum of. Exact: it is how the score came about, not a guess at it.
 * What own items say through the learnt factors is theirs; what they say through a tag is the tag's.
 */
export function partsOf(model: WideModel, { x, factor, own }: Solution, item: number): Parts {
  const { places, values } = rowOf(model, item);
  const learnt = new Float64Array(x.length);
  learnt.set(values.subarray(0, model.V.columns));
  // The own items' vectors are not made one by one: that would be as many solutions.
  const y = finite(solve(factor, learnt));
  const parts = own.map(({ row, weight }) => (1 + model.alpha) * weight * product(row, y));
  const tags = new Map<number, number>();
  for (let at = model.V.columns; at < places.length; at++) {
    const place = places[at] as number;
    tags.set(place - model.V.columns, (values[at] as number) * (x[place] as number));
  }
  return { own: Float64Array.from(parts), tags };
}

/**
 * `V (V^T 1)`, never below 0.
 *
 * A device knows no counts. But `V V^T` is the model's idea of which items are touched together, so
 * its row sums say which are touched together with many, in any basis of the factors. A model that
 * knows nothing takes all items for equally popular.
 */
function popularityOf({ values, rows, columns }: Matrix): Float64Array {
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

/** Which items are not new, by row; a new one has a row of zeros. */
function learntItems({ values, rows, columns }: Matrix): Uint8Array {
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
function withCompanions(V: Matrix, learnt: Uint8Array, tags: Tags): Matrix {
  if (!learnt.includes(0) || !learnt.includes(1)) return V;
  const known = [...learnt.keys()].filter((item) => learnt[item] === 1);
  const byTag = tags.names.map(() => new Mean(V.columns));
  const ofAll = new Mean(V.columns);
  for (const item of known) {
    const row = factorsOf(V, item);
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

function factorsOf({ values, columns }: Matrix, item: number): Float32Array {
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
