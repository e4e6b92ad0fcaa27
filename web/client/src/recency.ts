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
