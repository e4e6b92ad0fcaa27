/** Weights of the items of a history, by the order in which they were touched. */

/** Weight of the latest item. If the order is not known, every item weighs 1. */
const LATEST_WEIGHT = 10;
/** With this many later items, an item has half the weight of the latest item. */
const HALVING_ITEMS = 2;

/**
 * Return the weight of each item of a history. `moments` are order numbers; a later touch has a
 * larger number.
 *
 * The latest items predict the next choice best. The weight depends on the order and not on the age
 * of a touch: the latest item of a person who returns after a year still counts most, and a device
 * need not store times. Items with equal moments have equal weights. If all moments are equal, the
 * order is not known, and every item weighs 1.
 */
export function computeRecencyWeights(moments: readonly number[]): Float64Array {
  const counts = new Map<number, number>();
  for (const moment of moments) counts.set(moment, (counts.get(moment) ?? 0) + 1);
  const weights = new Map<number, number>();
  let later = 0;
  for (const [moment, count] of [...counts].sort(([a], [b]) => b - a)) {
    // On average, half of the other items with the same moment came later than this one.
    weights.set(moment, counts.size === 1 ? 1 : computeWeight(later + (count - 1) / 2));
    later += count;
  }
  return Float64Array.from(moments, (moment) => weights.get(moment) as number);
}

/** Return the weight of an item after which the owner touched `later` other items. */
function computeWeight(later: number): number {
  return LATEST_WEIGHT / (1 + later / HALVING_ITEMS);
}
