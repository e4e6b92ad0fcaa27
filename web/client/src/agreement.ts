/** What a device's owner agreed to, at most; a server cannot ask for more by asking again. */

import type { Charge } from "./amount.js";
import { SettingsError, TermsError } from "./errors.js";
import { brokenBy, readTerms, type Terms, writtenTerms } from "./terms.js";

/** Refuse whatever is worse. Whoever has not been asked yet has nothing that could be broken. */
export function checkTerms(accepted: Terms | null, asked: Terms): void {
  const worse = accepted === null ? [] : brokenBy(accepted, asked);
  if (worse.length > 0) throw new TermsError(worse, asked);
}

/** Terms as an application hands them in: all fields, in range, and nothing else. */
export function checkedTerms(terms: Terms): Terms {
  if (terms?.training === undefined)
    throw new SettingsError("hand in terms, such as `offer.terms`");
  try {
    return readTerms(writtenTerms(terms));
  } catch (error) {
    throw new SettingsError(
      `these are no terms: ${error instanceof Error ? error.message : error}`,
    );
  }
}

/** Counted by the device: no server makes it spend more, by discarding epochs or otherwise. */
export function turnsLeft(terms: Terms, charges: readonly Charge[]): number {
  return Math.max(terms.epochs - epochsOf(terms, charges), 0);
}

/** In how many epochs of the terms' training the device took part, whatever became of the batches. */
export function epochsOf({ training }: Terms, charges: readonly Charge[]): number {
  return charges.filter((charge) => charge.training === training).length;
}
