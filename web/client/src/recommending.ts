/** Recommending on the device, without a network. The results never leave the device. */

import { type Catalogue, findRows, type Item } from "./catalogue.js";
import { computeRecencyWeights } from "./recency.js";
import type { Release } from "./release.js";
import { orderDescending } from "./sorting.js";
import { type Band, getItemColumns } from "./tags.js";
import { computeScore, solveWideVector, splitScore, type UserSolution } from "./wide.js";

/** An item of the history that supports a recommendation. */
export interface ItemReason {
  kind: "item";
  id: string;
  title: string;
  /** Share of this reason in all that supports the recommendation, 0..1. */
  share: number;
}

/** A tag of items in the history that supports a recommendation. */
export interface TagReason {
  kind: "tag";
  /** Kind of the tag: `genre`, `year` ... */
  tag: string;
  /** The label, or the band of a number: "1990 to 1994". */
  name: string;
  /** The edges of the band, to name it in other words; null for a label. */
  band: Band | null;
  /** Share of this reason in all that supports the recommendation, 0..1. */
  share: number;
}

/** A reason that does not depend on single items of the history: many people touch the item now. */
export interface NowReason {
  kind: "now";
  /** Share of this reason in all that supports the recommendation, 0..1. */
  share: number;
}

/** A reason for a recommendation. */
export type Reason = ItemReason | TagReason | NowReason;

/** One item that the owner has not touched yet. */
export interface Recommendation extends Item {
  /** Score of the item; comparable within one list only. */
  score: number;
  /**
   * The strongest reasons, at most three, strongest first; empty if no part of the history supports
   * the item.
   */
  reasons: Reason[];
}

const MAX_REASONS = 3;
/** Only this many of the latest items of the history are used, to limit the time for a list. */
const MAX_OWN_ITEMS = 1000;

/**
 * Return the n best items that are not in the history, best first; equal items stay in the
 * catalogue's order.
 *
 * `touched` contains the moment of each item of the history; a later moment is larger.
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
  return describe(personal, scores, findBest(scores, Math.min(n, scores.length - own.length)));
}

/**
 * Return the n items that are most like one item, best first; none for an unknown item.
 *
 * The list is the one of a person who touched this item only, without what is touched now. It is
 * the same for everybody, and its only reasons are tags.
 */
export function listSimilar(release: Release, id: string, n: number): Recommendation[] {
  const { catalogue, wide } = release;
  const own = catalogue.rowsById.get(id);
  if (own === undefined) return [];
  const personal = personalize(release, new Map([[id, 0]]));
  if (wide.hasShares) personal.solution.x[0] = 0;
  const scores = computeScores(personal);
  scores[own] = 0;
  const rows = findBest(scores, n).filter((row) => (scores[row] as number) > 0);
  return describe(personal, scores, rows).map((item) => ({
    ...item,
    reasons: item.reasons.filter(({ kind }) => kind === "tag"),
  }));
}

/** Return the scores of items for a person; null for an unknown item. */
export function scoreItems(
  release: Release,
  touched: ReadonlyMap<string, number>,
  ids: readonly string[],
): (number | null)[] {
  const scores = computeScores(personalize(release, touched));
  return ids.map((id) => scores[release.catalogue.rowsById.get(id) ?? -1] ?? null);
}

/** Return the items of these rows with their scores and reasons. */
function describe(
  personal: PersonalModel,
  scores: Float64Array,
  rows: readonly number[],
): Recommendation[] {
  return rows.map((row) => ({
    ...getItem(personal.release.catalogue, row),
    score: scores[row] as number,
    reasons: findReasons(personal, row),
  }));
}

/** A release with the solution for one person's history. */
export interface PersonalModel {
  readonly release: Release;
  /** Rows of the items of the history that are used, ascending. */
  readonly rows: readonly number[];
  /** Columns of the tags that these items have. */
  readonly columns: ReadonlySet<number>;
  readonly solution: UserSolution;
}

/** Solve for the user vector of a person. */
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

/** Return the score of every item. For an empty history it is the popularity. */
export function computeScores({ release: { wide }, rows, solution }: PersonalModel): Float64Array {
  if (rows.length === 0) return wide.popularity.slice();
  return wide.popularity.map((_, row) => computeScore(wide, solution, row));
}

/**
 * Return the n items that most people touch, as the model estimates it. The list is the same for
 * everybody.
 */
export function listPopular({ catalogue, wide }: Release, n: number): Item[] {
  return findBest(wide.popularity, n).map((row) => getItem(catalogue, row));
}

/**
 * Return the rows of the n largest scores.
 *
 * All scores are sorted by radix sort. A sort by comparison takes longer for some orders than for
 * others, and a server that chooses the model could choose the order.
 */
function findBest(scores: Float64Array, n: number): number[] {
  return [...orderDescending(scores).subarray(0, n)];
}

/**
 * Return the reasons with the largest positive parts. Only tags that items of the history have are
 * reasons.
 */
function findReasons(personal: PersonalModel, row: number): Reason[] {
  const { manifest } = personal.release.signed;
  const positive = [...listParts(personal, row)].filter(({ share }) => share > 0);
  const total = positive.reduce((sum, { share }) => sum + share, 0);
  positive.sort((a, b) => b.share - a.share);
  return (
    positive
      .slice(0, MAX_REASONS)
      .map((reason) => ({ ...reason, share: reason.share / total }))
      // Without reports, nobody knows what is touched now: a start is about the past.
      .filter(({ kind }) => kind !== "now" || manifest.reportsBehind > 0)
  );
}

/**
 * Yield all possible reasons for an item: popularity now, items of the history, tags. `share` is
 * the part of the item's score; the caller divides it by the sum of all positive parts.
 *
 * The model has no learnt relation between a new item and the history, so only tags can be reasons
 * for a new item.
 */
function* listParts(personal: PersonalModel, row: number): Generator<Reason> {
  const { release, rows, columns, solution } = personal;
  const { catalogue, wide } = release;
  const parts = splitScore(wide, solution, row);
  const isLearnt = wide.learnt[row] === 1;
  if (isLearnt) yield { kind: "now", share: parts.now };
  for (const [at, ownRow] of isLearnt ? rows.entries() : []) {
    const { id, title } = getItem(catalogue, ownRow);
    yield { kind: "item", id, title, share: parts.ownItems[at] as number };
  }
  for (const [column, share] of parts.tags) {
    const { kind, name, band = null } = catalogue.tags.names[column] ?? { kind: "", name: "" };
    if (columns.has(column)) yield { kind: "tag", tag: kind, name, band, share };
  }
}

function getItem(catalogue: Catalogue, row: number): Item {
  const item = catalogue.items[row];
  if (item === undefined) {
    throw new RangeError(`row ${row} must be in the catalogue`);
  }
  return item;
}
