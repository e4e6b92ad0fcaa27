/** Lifetime limits, counted in epochs: exactly, because the ledger counts exactly. */

/** What one epoch costs. */
export interface Price {
  epsilon: number;
  reports: number;
}

/** So many epochs are offered to begin with. */
export const DEFAULT_EPOCHS = 10;

/** Every float is a fraction with a power of two below the line. */
function fraction(value: number): { over: bigint; under: bigint } {
  let under = 1n;
  let over = value;
  while (!Number.isInteger(over)) {
    over *= 2;
    under *= 2n;
  }
  return { over: BigInt(over), under };
}

/** How many more epochs fit between what was spent and the limit. */
export function epochsWithin(limit: number, spent: number, { epsilon, reports }: Price): number {
  if (!(limit > spent)) return 0;
  const [most, gone, each] = [fraction(limit), fraction(spent), fraction(epsilon)];
  const left = most.over * gone.under - gone.over * most.under;
  const price = each.over * BigInt(reports) * most.under * gone.under;
  return Number((left * each.under) / price);
}

/** The least float that pays for so many epochs: ten times 0.1 is more than 1. */
export function limitFor(epochs: number, price: Price): number {
  const product = price.epsilon * price.reports * epochs;
  const enough = epochsWithin(product, 0, price) >= epochs;
  return enough ? product : product + product * Number.EPSILON;
}
