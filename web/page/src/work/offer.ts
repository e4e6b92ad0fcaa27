/** Terms, ready to be shown. */
import {
  type Charge,
  explain,
  promiseOf,
  promiseSentences,
  type Terms,
  turnsLeft,
} from "sottovoce-client";
import type { Offer } from "../messages.js";

/** Those in force and those asked for; a promise takes some tenths of a second to work out. */
const known = new Map<string, Offer>();
const MOST_KNOWN = 4;

/** Worked out once for the same terms after the same charges. */
export function offerOf(terms: Terms, charges: readonly Charge[]): Offer {
  const name = JSON.stringify([terms, charges.map(({ purpose }) => purpose)]);
  const offer = known.get(name) ?? worked(terms, charges);
  if (known.size >= MOST_KNOWN && !known.has(name)) known.clear();
  known.set(name, offer);
  return offer;
}

function worked(terms: Terms, charges: readonly Charge[]): Offer {
  const promised = promiseOf(terms, charges);
  const promise = promiseSentences(promised);
  const mixed = promised.central < promised.local ? promised.central : null;
  const turns = turnsLeft(terms, charges);
  return { ...explain(terms), terms, promise, turns, lifetime: promised.local, mixed };
}
