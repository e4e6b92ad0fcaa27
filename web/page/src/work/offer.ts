/** Terms, ready to be shown. */
import { explain, promiseOf, promiseSentences, type Terms } from "sottovoce-client";
import type { Offer } from "../messages.js";

let last: { name: string; offer: Offer } | null = null;

/** Worked out once for the same terms: a promise takes some tenths of a second. */
export function offerOf(terms: Terms): Offer {
  const name = JSON.stringify(terms);
  if (last?.name !== name) last = { name, offer: worked(terms) };
  return last.offer;
}

function worked(terms: Terms): Offer {
  const promised = promiseOf(terms);
  const promise = promiseSentences(promised);
  return { ...explain(terms), terms, promise, lifetime: promised.local };
}
