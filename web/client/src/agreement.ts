/**
 * What a device's owner agreed to, and whether an epoch may have a batch under it. A server cannot ask for
 * more by asking again.
 */

import { equal } from "./bytes.js";
import type { Manifest, Terms } from "./epoch.js";
import { SettingsError, TermsError } from "./errors.js";
import { type Charge, isWithin } from "./ledger.js";
import type { EpochState } from "./outbox.js";
import { brokenBy, readTerms, writtenTerms } from "./terms.js";
import { apart, isTime, type Token } from "./timing.js";

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

/** Asked before it is made and when it is kept; the history is not in it. */
export function judged(
  standing: EpochState,
  manifest: Manifest,
  now: number,
): Outcome | "make it" | "deliver it" {
  const { batch, charges, token } = standing;
  if (batch?.state === "sent") {
    return "already sent";
  }
  if (batch?.state === "dropped") {
    return "too late";
  }
  if (batch?.state === "charged") {
    return "deliver it"; // another tab has made it: the same bytes, once more, count once
  }
  if (manifest.publicKey === null) {
    return "nothing asked";
  }
  const unwilling = unwillingness(standing, manifest);
  if (unwilling !== null) {
    return unwilling;
  }
  if (!isTime(manifest, now)) {
    return "not open";
  }
  if (charges.some((charge) => charge.epoch === manifest.epoch)) {
    return "already charged";
  }
  if (manifest.tokenKey !== null && !isToken(token, manifest.tokenKey)) {
    return "no token";
  }
  return spentness(standing, manifest) ?? "make it";
}

function unwillingness({ settings, waiting }: EpochState, { terms }: Manifest): Outcome | null {
  if (settings.terms === null || brokenBy(settings.terms, terms).length > 0) {
    return "not accepted"; // or better terms were accepted while this was fetched
  }
  // A batch of another epoch still waits only if its owner said so.
  return settings.paused || waiting !== undefined ? "paused" : null;
}

function spentness({ settings, charges }: EpochState, { terms }: Manifest): Outcome | null {
  if (!isWithin(settings.limit, charges, terms)) {
    return "limit reached";
  }
  return turnsLeft(terms, charges) > 0 ? null : "lifetime over";
}

/** An answer that could not be believed is wanted no more. */
function isToken(token: Token | undefined, key: Uint8Array): boolean {
  return token?.key != null && token.wanted && token.answer !== null && equal(token.key, key);
}

/**
 * Whether a device may have a token for the next epoch; the history is not in it. Not soon after a batch:
 * on many sites each click is a visit, and whoever sees both would know whose batch it was.
 */
export function mayAsk(standing: EpochState, manifest: Manifest, now: number): boolean {
  const refusal = unwillingness(standing, manifest) ?? spentness(standing, manifest);
  const isApart = Math.abs(now - standing.settings.lastOver) >= apart(manifest);
  return manifest.nextTokenKey !== null && refusal === null && isApart;
}

// About the epoch alone: the same sync may have sent a batch that an earlier one left behind.
const SENTENCES = {
  sent: "The batch of epoch {epoch} was sent.",
  "already sent": "The batch of epoch {epoch} had been sent before; nothing more was.",
  "already charged":
    "A batch of epoch {epoch} was charged before and has been forgotten since; nothing is " +
    "reported in this epoch again.",
  "not accepted": "The terms have not been accepted yet; recommending works.",
  "not open": "Epoch {epoch} takes no reports at this time.",
  "no token": "This device has no token for epoch {epoch}.",
  "next visit": "This visit has asked for a token; the batch leaves in a later one.",
  "sitting out": "This device sits out epoch {epoch}, as its own coin decided.",
  missed: "Epoch {epoch} came before it was this device's turn to send.",
  paused: "Reporting is paused.",
  "limit reached": "The limit is reached: no more reports leave. Lists go on.",
  "lifetime over": "All that was agreed to is spent: no more reports leave. Lists go on.",
  "too late":
    "The batch of epoch {epoch} came too late: as far as this device knows it was not counted; " +
    "what was charged for it stays spent.",
  "nothing asked": "No reports are asked for at present.",
} as const;

export type Outcome = keyof typeof SENTENCES;

/** All of them, to list. */
export const OUTCOMES = Object.keys(SENTENCES) as readonly Outcome[];

/** The same sentence as every other client's; `lost` is an earlier epoch that came too late. */
export function sentenceOf(outcome: Outcome, epoch: number, lost: number | null): string {
  const said = SENTENCES[outcome].replace("{epoch}", String(epoch));
  return lost === null ? said : `${said} ${sentenceOf("too late", lost, null)}`;
}
