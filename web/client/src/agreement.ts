/**
 * Decides from the owner's agreement whether an epoch may have a batch. A server cannot get more by
 * asking again.
 */

import { isEqual } from "./bytes.js";
import type { Settings } from "./database.js";
import type { Manifest, Terms } from "./epoch.js";
import { SettingsError, TermsError } from "./errors.js";
import { type Charge, isWithinLimit } from "./ledger.js";
import type { EpochState } from "./outbox.js";
import { listWorse, parseTermsBlock, toFields } from "./terms.js";
import { canStillSend, computeTokenDelay, type Token } from "./timing.js";

/**
 * Throw a `TermsError` if the new terms are worse than the accepted ones. Before the first yes, no
 * terms are worse.
 */
export function checkTerms(accepted: Terms | null, newTerms: Terms): void {
  const worse = accepted === null ? [] : listWorse(accepted, newTerms);
  if (worse.length > 0) throw new TermsError(worse, newTerms);
}

/**
 * Throw a `SettingsError` if the server no longer asks for these terms. Terms that grant no more
 * than the accepted ones are always allowed.
 *
 * The server may publish other terms while a question is displayed. A yes counts only for the
 * displayed terms, and only while the server still asks for them.
 */
export function checkStillAsked(
  { terms: accepted, asked }: Pick<Settings, "terms" | "asked">,
  terms: Terms,
): void {
  const grantsNoMore = accepted !== null && listWorse(accepted, terms).length === 0;
  if (asked === null || grantsNoMore) return;
  if (listWorse(asked, terms).length > 0 || listWorse(terms, asked).length > 0)
    throw new SettingsError(TERMS_CHANGED);
}

const TERMS_CHANGED =
  "terms must be those that the server asks for now; nothing was accepted: " +
  "show the new terms and ask again";

/**
 * Check terms that an application passes: they must have exactly the known fields, with values in
 * range.
 */
export function parseTerms(terms: Terms): Terms {
  if (terms?.training === undefined)
    throw new SettingsError("terms must be terms such as `offer.terms`");
  try {
    return parseTermsBlock(toFields(terms));
  } catch (error) {
    throw new SettingsError(
      `these terms are not valid: ${error instanceof Error ? error.message : error}`,
    );
  }
}

/**
 * Return the number of epochs in which the device may still take part. The device counts them
 * itself, so a server cannot make it spend more by discarding epochs.
 */
export function countTurnsLeft(terms: Terms, charges: readonly Charge[]): number {
  return Math.max(terms.epochs - countEpochs(terms, charges), 0);
}

/** Count the epochs of this training in which the device took part, including discarded ones. */
export function countEpochs({ training }: Terms, charges: readonly Charge[]): number {
  return charges.filter((charge) => charge.training === training).length;
}

/**
 * Decide about the batch of an epoch, before it is made and again when it is stored. The history
 * has no influence. `now` is in Unix seconds.
 */
export function judge(
  state: EpochState,
  manifest: Manifest,
  now: number,
): Outcome | "make it" | "deliver it" {
  const { batch, charges, token } = state;
  if (batch?.state === "sent") {
    return "already sent";
  }
  if (batch?.state === "dropped") {
    return "too late";
  }
  if (batch?.state === "charged") {
    return "deliver it"; // an earlier sync or another tab has made the batch; its bytes count only once
  }
  if (manifest.publicKey === null) {
    return "nothing asked";
  }
  const refusal = findRefusal(state, manifest);
  if (refusal !== null) {
    return refusal;
  }
  if (!canStillSend(manifest, now)) {
    return "not open";
  }
  if (charges.some((charge) => charge.epoch === manifest.epoch)) {
    return "already charged";
  }
  if (manifest.tokenKey !== null && !isUsableToken(token, manifest.tokenKey)) {
    return "no token";
  }
  return findLimit(state, manifest) ?? "make it";
}

function findRefusal({ settings, waiting }: EpochState, { terms }: Manifest): Outcome | null {
  if (settings.terms === null || listWorse(settings.terms, terms).length > 0) {
    return "not accepted"; // nothing was accepted, or other terms were accepted meanwhile
  }
  // A batch of another epoch still waits only because its owner has paused.
  return settings.paused || waiting !== undefined ? "paused" : null;
}

function findLimit({ settings, charges }: EpochState, { terms }: Manifest): Outcome | null {
  if (!isWithinLimit(settings.limit, charges, terms)) {
    return "limit reached";
  }
  return countTurnsLeft(terms, charges) > 0 ? null : "lifetime over";
}

/**
 * Check that the device has a token for this key. A token becomes unwanted if its answer was
 * invalid.
 */
function isUsableToken(token: Token | undefined, key: Uint8Array): boolean {
  return token?.key != null && token.wanted && token.answer !== null && isEqual(token.key, key);
}

/**
 * Check whether a device may request a token for the next epoch. The history has no influence.
 * `now` is in Unix seconds.
 *
 * No token may be requested soon after a batch. On many sites each click is a visit, and a proxy
 * that saw both requests would know whose batch it was.
 */
export function mayRequestToken(state: EpochState, manifest: Manifest, now: number): boolean {
  const refusal = findRefusal(state, manifest) ?? findLimit(state, manifest);
  const isLongAfterBatch = Math.abs(now - state.settings.lastOver) >= computeTokenDelay(manifest);
  return manifest.nextTokenKey !== null && refusal === null && isLongAfterBatch;
}

// Sentences about the current epoch only. The same sync may also have sent the batch of an earlier
// epoch.
const OUTCOME_SENTENCES = {
  sent: "The batch of epoch {epoch} was sent.",
  "already sent": "The batch of epoch {epoch} had been sent before; nothing was sent now.",
  "already charged":
    "A batch of epoch {epoch} was charged before and has been forgotten since; nothing is " +
    "reported in this epoch again.",
  "not accepted": "The terms have not been accepted yet. Recommendations work without them.",
  "not open": "Epoch {epoch} takes no reports at this time.",
  "no token": "This device has no token for epoch {epoch}.",
  "next visit": "This visit has asked for a token; a later visit will send the batch.",
  "sitting out": "This device does not take part in epoch {epoch}, which it has drawn at random.",
  missed: "Epoch {epoch} began before it was this device's turn to send.",
  paused: "Reporting is paused.",
  "limit reached": "The limit is reached: no more reports are sent. Recommendations continue.",
  "lifetime over":
    "All epochs of the accepted terms are used: no more reports are sent. Recommendations continue.",
  "too late":
    "The batch of epoch {epoch} came too late: as far as this device knows it was not counted; " +
    "the epsilon that was charged for it stays spent.",
  "nothing asked": "No reports are asked for at present.",
} as const;

/** The outcome of a sync for the current epoch. */
export type Outcome = keyof typeof OUTCOME_SENTENCES;

export const ALL_OUTCOMES = Object.keys(OUTCOME_SENTENCES) as readonly Outcome[];

/**
 * Return the sentence for an outcome, which is the same in every client.
 *
 * `abandonedEpoch` is an older epoch whose batch came too late, or null.
 */
export function formatOutcome(
  outcome: Outcome,
  epoch: number,
  abandonedEpoch: number | null,
): string {
  const sentence = OUTCOME_SENTENCES[outcome].replace("{epoch}", String(epoch));
  return abandonedEpoch === null
    ? sentence
    : `${sentence} ${formatOutcome("too late", abandonedEpoch, null)}`;
}
