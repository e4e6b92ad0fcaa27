/** Recommending, on the device and without a network: x is solved here and never leaves. */

import type { Catalogue, Item } from "./catalogue.js";
import { type Edition, rowsOf } from "./fetching.js";
import { contributions, type Matrix, scores, userVector } from "./user.js";

/** An own item that speaks for a recommendation. */
export interface Reason {
  id: string;
  title: string;
  /** Its part of all that speaks for the recommendation, 0..1. */
  share: number;
}

/** One item that the owner has not touched yet. */
export interface Recommendation extends Item {
  /** How well it fits; to compare within one list only. */
  score: number;
  /** The own items that speak for it most, two at most; empty if none does. */
  because: Reason[];
}

const MOST_REASONS = 2;

/** The n best items that were not touched, best first; among equals the catalogue's order holds. */
export function recommendations(
  edition: Edition,
  touched: readonly string[],
  n: number,
): Recommendation[] {
  const { catalogue } = edition;
  const own = rowsOf(catalogue, touched);
  const score = scoreItems(edition, own);
  const unseen = withoutRows(score.length, own);
  unseen.sort((a, b) => at(score, b) - at(score, a) || a - b);
  return unseen.slice(0, n).map((row) => ({
    ...itemAt(catalogue, row),
    score: at(score, row),
    because: reasons(edition, own, row),
  }));
}

/**
 * `V x`, or for somebody without a history how well each item goes with all others.
 *
 * The zero vector scores everything 0, and a device knows no popularity. But `V V^T` is the model's
 * idea of which items are touched together, so the row sums `V (V^T 1)` say which items are touched
 * together with many: the most popular ones come first, in any basis of the factors.
 */
export function scoreItems(edition: Edition, own: readonly number[]): Float32Array {
  const { alpha, regularization } = edition.signed.manifest;
  return own.length === 0
    ? togetherness(edition.V)
    : scores(edition.V, userVector(edition.V, own, alpha, regularization));
}

function togetherness(V: Matrix): Float32Array {
  const sums = new Float64Array(V.columns);
  V.values.forEach((value, place) => {
    sums[place % V.columns] = at(sums, place % V.columns) + value;
  });
  return Float32Array.from({ length: V.rows }, (_, row) => {
    const values = V.values.subarray(row * V.columns, (row + 1) * V.columns);
    return values.reduce((sum, value, column) => sum + value * at(sums, column), 0);
  });
}

/**
 * Exact, not a guess: the score is a sum over the own items, and these are its largest positive
 * terms, each as a part of all positive ones.
 */
function reasons(edition: Edition, own: readonly number[], row: number): Reason[] {
  if (own.length === 0) {
    return [];
  }
  const { alpha, regularization } = edition.signed.manifest;
  const parts = contributions(edition.V, own, row, alpha, regularization);
  const speaking = own
    .map((item, place) => ({ item, part: at(parts, place) }))
    .filter(({ part }) => part > 0);
  const all = speaking.reduce((sum, { part }) => sum + part, 0);
  if (!Number.isFinite(all)) {
    return []; // no usable solution: the score is 0, and nothing speaks for it
  }
  speaking.sort((a, b) => b.part - a.part);
  return speaking.slice(0, MOST_REASONS).map(({ item, part }) => {
    const { id, title } = itemAt(edition.catalogue, item);
    return { id, title, share: part / all };
  });
}

function withoutRows(rows: number, own: readonly number[]): number[] {
  const touched = new Set(own);
  return Array.from({ length: rows }, (_, row) => row).filter((row) => !touched.has(row));
}

function at(values: Float32Array | Float64Array, place: number): number {
  return values[place] ?? Number.NaN;
}

function itemAt(catalogue: Catalogue, row: number): Item {
  const item = catalogue.items[row];
  if (item === undefined) {
    throw new RangeError(`the catalogue has no row ${row}`);
  }
  return item;
}
