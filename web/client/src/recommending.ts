/** Recommending on the device, without a network: what is computed here never leaves. */

import { type Catalogue, findRows, type Item } from "./catalogue.js";
import { computeRecencyWeights } from "./recency.js";
import type { Release } from "./release.js";
import { orderDescending } from "./sorting.js";
import { getItemColumns } from "./tags.js";
import { computeScore, solveWideVector, splitScore, type UserSolution } from "./wide.js";

/** An own item that supports a recommendation. */
export interface ItemReason {
  kind: "item";
  id: string;
  title: string;
  /** Its part of everything that supports the recommendation, 0..1. */
  share: number;
}

/** A tag of own items that supports a recommendation. */
export interface TagReason {
  kind: "tag";
  /** Kind of the tag: `genre`, `year` ... */
  tag: string;
  /** The label, or the band of a number: "1990 to 1994". */
  name: string;
  /** Its part of everything that supports the recommendation, 0..1. */
  share: number;
}

/** What supports a recommendation. */
export type Reason = ItemReason | TagReason;

/** One item that the owner has not touched yet. */
export interface Recommendation extends Item {
  /** How well it fits; comparable within one list only. */
  score: number;
  /**
   * What supports it most, at most three reasons, the largest first; empty if nothing of theirs
   * does.
   */
  because: Reason[];
}

const MAX_REASONS = 3;
/** Own items that a list is made from, the latest: a longer history must not take longer. */
const MAX_OWN_ITEMS = 1000;

/**
 * Return the n best items that were not touched, best first; equals stay in the catalogue's order.
 *
 * `touched` has own items with the moments of their touches; a later moment is larger.
 */
export function recommend(
  release: Release,
  touched: ReadonlyMap<string, number>,
  n: number,
): Recommendation[] {
  const { catalogue } = release;
  const personal = personalize(release, touched);
  const scores = computeScores(personal);
  const own = findRows(catalogue, touched.keys());
  for (const row of own) scores[row] = Number.NEGATIVE_INFINITY;
  return findBest(scores, Math.min(n, scores.length - own.length)).map((row) => ({
    ...getItem(catalogue, row),
    score: scores[row] as number,
    because: findReasons(personal, row),
  }));
}

/** The model of a release for a person with these items. */
export interface PersonalModel {
  readonly release: Release;
  /** The own items that count, ascending. */
  readonly rows: readonly number[];
  /** The tags that they have, by column. */
  readonly columns: ReadonlySet<number>;
  readonly solution: UserSolution;
}

/** Solve for the vector of a person. */
export function personalize(release: Release, touched: ReadonlyMap<string, number>): PersonalModel {
  const { catalogue, wide } = release;
  const getMoment = (row: number) => touched.get(getItem(catalogue, row).id) as number;
  const latest = findRows(catalogue, touched.keys()).sort(
    (a, b) => getMoment(b) - getMoment(a) || a - b,
  );
  const rows = latest.slice(0, MAX_OWN_ITEMS).sort((a, b) => a - b);
  const moments = rows.map(getMoment);
  const columns = new Set(rows.flatMap((row) => [...getItemColumns(catalogue.tags, row)]));
  return {
    release,
    rows,
    columns,
    solution: solveWideVector(wide, rows, computeRecencyWeights(moments)),
  };
}

/** Return the score of every item; without a history, its popularity. */
export function computeScores({ release: { wide }, rows, solution }: PersonalModel): Float64Array {
  if (rows.length === 0) return wide.popularity.slice();
  return wide.popularity.map((_, row) => computeScore(wide, solution, row));
}

/** Return the n items that are touched most, as the model estimates it; the same for everybody. */
export function listPopular({ catalogue, wide }: Release, n: number): Item[] {
  return findBest(wide.popularity, n).map((row) => getItem(catalogue, row));
}

/**
 * Return the rows of the n largest scores.
 *
 * All are sorted digit by digit: a sort by comparison takes longer for some orders than for others,
 * and a server that chooses the model could choose the order.
 */
function findBest(scores: Float64Array, n: number): number[] {
  return [...orderDescending(scores).subarray(0, n)];
}

/** Return the largest positive parts; among tags only those of own items. */
function findReasons(personal: PersonalModel, row: number): Reason[] {
  const positive = [...listParts(personal, row)].filter(({ share }) => share > 0);
  const total = positive.reduce((sum, { share }) => sum + share, 0);
  positive.sort((a, b) => b.share - a.share);
  return positive
    .slice(0, MAX_REASONS)
    .map((reason) => ({ ...reason, share: reason.share / total }));
}

/**
 * Yield the parts of own items, then of tags; `share` is the part itself, not divided yet.
 *
 * Own items have no learnt relation to a new item: there only tags are reasons.
 */
function* listParts(personal: PersonalModel, row: number): Generator<Reason> {
  const { release, rows, columns, solution } = personal;
  const { catalogue, wide } = release;
  const parts = splitScore(wide, solution, row);
  for (const [at, ownRow] of wide.learnt[row] === 1 ? rows.entries() : []) {
    const { id, title } = getItem(catalogue, ownRow);
    yield { kind: "item", id, title, share: parts.ownItems[at] as number };
  }
  for (const [column, share] of parts.tags) {
    const { kind, name } = catalogue.tags.names[column] ?? { kind: "", name: "" };
    if (columns.has(column)) yield { kind: "tag", tag: kind, name, share };
  }
}

function getItem(catalogue: Catalogue, row: number): Item {
  const item = catalogue.items[row];
  if (item === undefined) {
    throw new RangeError(`the catalogue has no row ${row}`);
  }
  return item;
}
