/** Terms, ready to be shown to whoever is asked to accept them. */

import { turnsLeft } from "./agreement.js";
import type { Charge } from "./amount.js";
import { type Explanation, explain } from "./mechanism/index.js";
import { promiseOf, promiseSentences } from "./promise.js";
import type { Terms } from "./terms.js";

/** What a server asks for, and what that means for this device. */
export interface Offer extends Explanation {
  readonly terms: Terms;
  /** What is promised, in sentences: from the terms and the ledger, and not the operator's word. */
  readonly promise: readonly string[];
  /** In how many epochs this device may still take part under them. */
  readonly turns: number;
  /** The epsilon of everything spent so far, and all that they may still cost, whatever happens. */
  readonly lifetime: number;
  /** What is left of it where the proxy mixes honestly; null where that adds nothing. */
  readonly mixed: number | null;
}

/** Takes some tenths of a second. */
export function offerOf(terms: Terms, charges: readonly Charge[]): Offer {
  const promised = promiseOf(terms, charges);
  const promise = promiseSentences(promised);
  const mixed = promised.central < promised.local ? promised.central : null;
  const turns = turnsLeft(terms, charges);
  return { ...explain(terms), terms, promise, turns, lifetime: promised.local, mixed };
}
