/**
 * What somebody did last says most about what they do next: a weight for each own item.
 *
 * By order and not by age: who comes back after a year still has a latest item. So a device needs to
 * remember no time at all, only what came after what.
 */

/** After so many later items a weight has halved. */
const HALF = 12;
/** What is left of an item's weight, however many came later. */
const LEAST = 0.03;

/**
 * The weights of one history, whose items were touched at these moments (later is larger). What was
 * touched at the same moment has the same weight.
 */
export function recency(moments: readonly number[]): Float64Array {
  const latestFirst = Float64Array.from(moments).sort().reverse();
  const later = new Map<number, number>();
  latestFirst.forEach((moment, before) => {
    if (!later.has(moment)) later.set(moment, before);
  });
  return Float64Array.from(moments, (moment) => weight(later.get(moment) as number));
}

/** By how many own items came later. */
function weight(later: number): number {
  return LEAST + (1 - LEAST) * 2 ** (-later / HALF);
}
