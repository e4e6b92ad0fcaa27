/** Terms, ready to be shown to whoever is asked to accept them. */

import { type Explanation, explain } from "./mechanism/index.js";
import { promiseOf, promiseSentences } from "./promise.js";
import type { Terms } from "./terms.js";

/** What a server asks for, and what that means. */
export interface Offer extends Explanation {
  readonly terms: Terms;
  /** What is promised, in sentences: computed here from the terms, and not the operator's word. */
  readonly promise: readonly string[];
  /** The epsilon of a whole lifetime, whatever happens. */
  readonly lifetime: number;
  /** What is left of it where the proxy mixes honestly; null where that adds nothing. */
  readonly mixed: number | null;
}

/** Takes some tenths of a second. */
export function offerOf(terms: Terms): Offer {
  const promised = promiseOf(terms);
  const promise = promiseSentences(promised);
  const mixed = promised.central < promised.local ? promised.central : null;
  return { ...explain(terms), terms, promise, lifetime: promised.local, mixed };
}
