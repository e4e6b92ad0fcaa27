/** Terms, ready to be shown. */
import { explain, promiseOf, promiseSentences, type Terms } from "sottovoce-client";
import type { Offer } from "../messages.js";

/** Those in force and those asked for; a promise takes some tenths of a second to work out. */
const known = new Map<string, Offer>();
const MOST_KNOWN = 4;

/** Worked out once for the same terms. */
export function offerOf(terms: Terms): Offer {
  const name = JSON.stringify(terms);
  const offer = known.get(name) ?? worked(terms);
  if (known.size >= MOST_KNOWN && !known.has(name)) known.clear();
  known.set(name, offer);
  return offer;
}

function worked(terms: Terms): Offer {
  const promised = promiseOf(terms);
  const promise = promiseSentences(promised);
  const mixed = promised.central < promised.local ? promised.central : null;
  return { ...explain(terms), terms, promise, lifetime: promised.local, mixed };
}
