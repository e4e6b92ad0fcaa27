/**
 * What somebody did last says most about what they do next: a weight for each own item.
 *
 * By order and not by age: who comes back after a year still has a latest item, and who chooses fifty
 * films in an hour has one too. So a device needs to remember no time, only what came after what.
 */

/** After so many later items a weight has halved. */
const HALF = 10;
/** What is left of a weight, however many came later. */
const LEAST = 0.03;

/**
 * The weights of one history, whose items were touched at these moments (later is larger). What was
 * touched at the same moment has the same weight; the latest weighs 1.
 */
export function recency(moments: readonly number[]): Float64Array {
  const counts = new Map<number, number>();
  for (const moment of moments) counts.set(moment, (counts.get(moment) ?? 0) + 1);
  const kept = new Map<number, number>();
  let later = 0;
  for (const [moment, count] of [...counts].sort(([a], [b]) => b - a)) {
    // Of the others at its own moment, on average half came later.
    kept.set(moment, weight(later + (count - 1) / 2));
    later += count;
  }
  const largest = [...kept.values()].reduce((most, each) => Math.max(most, each), 0);
  return Float64Array.from(moments, (moment) => (kept.get(moment) as number) / largest);
}

/** By how many own items came later. */
function weight(later: number): number {
  return LEAST + (1 - LEAST) * 2 ** (-later / HALF);
}
