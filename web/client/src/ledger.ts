/**
 * What was spent. The ledger is the `charges` of the database: one row for each batch, never changed
 * and never deleted. `amount` has the exact sums and the one rule, as in every other client.
 */

import {
  type Charge,
  decide,
  isWithin,
  remaining,
  roundedDown,
  roundedUp,
  spent,
} from "./amount.js";

export { type Charge, isWithin };

/** How much of a lifetime's budget is gone. */
export interface Budget {
  limit: number;
  /** Rounded up. */
  spent: number;
  /** Rounded down, and never below 0, also when the limit was lowered. */
  remaining: number;
}

/** Where the ledger stands. */
export function budgetOf(limit: number, charges: readonly Charge[]): Budget {
  return {
    limit,
    spent: roundedUp(spent(charges)),
    remaining: roundedDown(remaining(limit, charges)),
  };
}

/** Whether this charge may be added: it is new, and within the limit. */
export function allows(limit: number, charges: readonly Charge[], next: Charge): boolean {
  return decide(limit, charges, next) === "charged";
}
