/**
 * Recommending, on the device and without a network: what is computed here never leaves.
 */

import { type Catalogue, type Item, rowsOf } from "./catalogue.js";
import type { Release } from "./release.js";
import { columnsOf } from "./tags.js";
import { descendingOrder } from "./vector.js";
import { partsOf, type Solution, scoreOf, solution } from "./wide.js";

/** An own item that speaks for a recommendation. */
export interface ItemReason {
  kind: "item";
  id: string;
  title: string;
  /** Its part of all that speaks for the recommendation, 0..1. */
  share: number;
}

/** A tag that own items have, and that speaks for a recommendation. */
export interface TagReason {
  kind: "tag";
  /** `genre`, `year` ... */
  tag: string;
  /** The label, or the band of a number: "1990 to 1994". */
  name: string;
  /** Its part of all that speaks for the recommendation, 0..1. */
  share: number;
}

/** What speaks for a recommendation. */
export type Reason = ItemReason | TagReason;

/** One item that the owner has not touched yet. */
export interface Recommendation extends Item {
  /** How well it fits; to compare within one list only. */
  score: number;
  /** What speaks for it most, three at most, the largest first; empty if nothing of theirs does. */
  because: Reason[];
}

const MOST_REASONS = 3;
/** Own items that a list is made from, the latest: a longer history must not take longer. */
const MOST_OWN = 1000;

/**
 * The n best items that were not touched, best first; among equals the catalogue's order holds.
 * `touched`: own items, and the moments at which they were, a later one larger.
 */
export function recommendations(
  release: Release,
  touched: ReadonlyMap<string, number>,
  n: number,
): Recommendation[] {
  const { catalogue } = release;
  const personal = personalOf(release, touched);
  const scores = scoresOf(personal);
  const own = rowsOf(catalogue, touched.keys());
  for (const row of own) scores[row] = Number.NEGATIVE_INFINITY;
  return best(scores, Math.min(n, scores.length - own.length)).map((row) => ({
    ...itemAt(catalogue, row),
    score: scores[row] as number,
    because: reasons(personal, row),
  }));
}

/** The model of a release for somebody with these items. */
export interface Personal {
  readonly release: Release;
  /** The own items that count, ascending. */
  readonly rows: readonly number[];
  /** The tags that they have, by column. */
  readonly columns: ReadonlySet<number>;
  readonly solved: Solution;
}

/** Solves for somebody's vector. */
export function personalOf(release: Release, touched: ReadonlyMap<string, number>): Personal {
  const { catalogue, wide } = release;
  const at = (row: number) => touched.get(itemAt(catalogue, row).id) as number;
  const latest = rowsOf(catalogue, touched.keys()).sort((a, b) => at(b) - at(a) || a - b);
  const rows = latest.slice(0, MOST_OWN).sort((a, b) => a - b);
  const moments = rows.map(at);
  const columns = new Set(rows.flatMap((row) => [...columnsOf(catalogue.tags, row)]));
  return { release, rows, columns, solved: solution(wide, rows, recency(moments)) };
}

/** Of every item. For somebody without a history: how popular it is. */
export function scoresOf({ release: { wide }, rows, solved }: Personal): Float64Array {
  if (rows.length === 0) return wide.popularity.slice();
  return wide.popularity.map((_, row) => scoreOf(wide, solved, row));
}

/** The n items that are touched most, as the model knows it, whoever asks. */
export function popular({ catalogue, wide }: Release, n: number): Item[] {
  return best(wide.popularity, n).map((row) => itemAt(catalogue, row));
}

/**
 * The rows of the n largest. All are put in order, digit by digit: a sort that compares takes longer
 * for some orders than for others, and a server that chooses the model could choose which.
 */
function best(scores: Float64Array, n: number): number[] {
  return [...descendingOrder(scores).subarray(0, n)];
}

/** The largest positive parts; of tags those alone that an own item has. */
function reasons(personal: Personal, row: number): Reason[] {
  const speaking = [...speakingFor(personal, row)].filter(({ share }) => share > 0);
  const total = speaking.reduce((sum, { share }) => sum + share, 0);
  speaking.sort((a, b) => b.share - a.share);
  return speaking.slice(0, MOST_REASONS).map((each) => ({ ...each, share: each.share / total }));
}

/**
 * Own items, then tags; `share` is the part itself, not divided yet. What own items have to do with a
 * new item nobody has learnt: there tags alone are reasons.
 */
function* speakingFor(personal: Personal, row: number): Generator<Reason> {
  const { release, rows, columns, solved } = personal;
  const { catalogue, wide } = release;
  const parts = partsOf(wide, solved, row);
  for (const [at, own] of wide.learnt[row] === 1 ? rows.entries() : []) {
    const { id, title } = itemAt(catalogue, own);
    yield { kind: "item", id, title, share: parts.own[at] as number };
  }
  for (const [column, share] of parts.tags) {
    const { kind, name } = catalogue.tags.names[column] ?? { kind: "", name: "" };
    if (columns.has(column)) yield { kind: "tag", tag: kind, name, share };
  }
}

function itemAt(catalogue: Catalogue, row: number): Item {
  const item = catalogue.items[row];
  if (item === undefined) {
    throw new RangeError(`the catalogue has no row ${row}`);
  }
  return item;
}

/**
 * What somebody did last says most about what they do next: a weight for each own item.
 *
 * By order and not by age: who comes back after a year still has a latest item, and who chooses fifty
 * films in an hour has one too. So a device needs to remember no time, only what came after what.
 */

/** What the latest item weighs, where the order is known; an item of no known order weighs 1. */
const LATEST = 10;
/** So many later items halve a weight; it falls on as one over their number. */
const HALVING = 2;

/**
 * The weights of one history, whose items were touched at these moments (later is larger). What was
 * touched at the same moment has the same weight. If all was, there is no order, and all weighs 1.
 */
export function recency(moments: readonly number[]): Float64Array {
  const counts = new Map<number, number>();
  for (const moment of moments) counts.set(moment, (counts.get(moment) ?? 0) + 1);
  const kept = new Map<number, number>();
  let later = 0;
  for (const [moment, count] of [...counts].sort(([a], [b]) => b - a)) {
    // Of the others at its own moment, on average half came later.
    kept.set(moment, counts.size === 1 ? 1 : weight(later + (count - 1) / 2));
    later += count;
  }
  return Float64Array.from(moments, (moment) => kept.get(moment) as number);
}

/** By how many own items came later. */
function weight(later: number): number {
  return LATEST / (1 + later / HALVING);
}
