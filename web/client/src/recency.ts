/** Weights of own items by their order in the history. */

/** Weight of the latest item, where the order is known; an item of no known order weighs 1. */
const LATEST_WEIGHT = 10;
/** This many later items halve a weight. */
const HALVING_ITEMS = 2;

/**
 * Return the weights of a history whose items were touched at these moments (later is larger).
 *
 * The last choices predict the next one best. Weights depend on order and not on age: a person who
 * returns after a year still has a latest item, and a device need not store a time. Items of one
 * moment have the same weight. If all are of one moment, there is no order, and each weighs 1.
 */
export function computeRecencyWeights(moments: readonly number[]): Float64Array {
  const counts = new Map<number, number>();
  for (const moment of moments) counts.set(moment, (counts.get(moment) ?? 0) + 1);
  const weights = new Map<number, number>();
  let later = 0;
  for (const [moment, count] of [...counts].sort(([a], [b]) => b - a)) {
    // Of the others at its own moment, on average half came later.
    weights.set(moment, counts.size === 1 ? 1 : computeWeight(later + (count - 1) / 2));
    later += count;
  }
  return Float64Array.from(moments, (moment) => weights.get(moment) as number);
}

/** Return the weight of an item by the number of own items that came later. */
function computeWeight(later: number): number {
  return LATEST_WEIGHT / (1 + later / HALVING_ITEMS);
}
