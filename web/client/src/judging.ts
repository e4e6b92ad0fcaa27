/** Whether an epoch may have a batch: the one rule, from public data, the ledger and the owner's choices. */

import { turnsLeft } from "./agreement.js";
import { isWithin } from "./ledger.js";
import type { Manifest } from "./manifest.js";
import type { Standing } from "./outbox.js";
import type { Outcome } from "./outcome.js";
import { brokenBy } from "./terms.js";
import { isTime } from "./timing.js";

/** Asked before it is made and when it is kept; the history is not in it. */
export function judged(
  standing: Standing,
  manifest: Manifest,
  now: number,
): Outcome | "make it" | "deliver it" {
  const { settings, batch, charges, waiting } = standing;
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
  if (settings.terms === null || brokenBy(settings.terms, manifest.terms).length > 0) {
    return "not accepted"; // or better terms were accepted while this was fetched
  }
  if (settings.paused || waiting !== undefined) {
    return "paused"; // a batch of another epoch still waits only if its owner said so
  }
  if (!isTime(manifest, now)) {
    return "not open";
  }
  if (charges.some((charge) => charge.epoch === manifest.epoch)) {
    return "already charged";
  }
  if (!isWithin(settings.limit, charges, manifest.terms)) {
    return "limit reached";
  }
  return turnsLeft(manifest.terms, charges) > 0 ? "make it" : "lifetime over";
}
