/** Making a batch: the one place where something private becomes something that may leave. */

import { BATCH_ID, encodeBatch } from "./batch.js";
import { sha256, toHex } from "./bytes.js";
import { SettingsError } from "./errors.js";
import { type Edition, rowsOf } from "./fetching.js";
import { makeReports } from "./mechanism/index.js";
import type { MadeBatch } from "./outbox.js";
import { sealReports } from "./sealing.js";
import type { Entropy, Words } from "./words.js";

/**
 * Exactly k sealed reports of whoever touched this; of nobody's history just as many. To stay silent
 * with nothing to say would be saying it.
 */
export async function makeBatch(
  edition: Edition,
  touched: readonly string[],
  words: Words,
  entropy: Entropy,
): Promise<MadeBatch> {
  const { manifest, hash: manifestHash } = edition.signed;
  const { epoch, mechanism, epsilon, reports, closes } = manifest;
  if (manifest.publicKey === null) {
    throw new SettingsError("this manifest asks for no reports");
  }
  const own = rowsOf(edition.catalogue, touched);
  const made = await makeReports(manifest, edition.V, own, words(reports));
  const sealed = await sealReports(made.reports, manifest.publicKey, manifestHash);
  const bytes = encodeBatch({ epoch, manifestHash, id: entropy(BATCH_ID), sealed });
  const purpose = toHex(await sha256(bytes));
  return {
    batch: { epoch, state: "charged", purpose, closes, notBefore: 0, bytes },
    charge: { epoch, purpose, mechanism, epsilon, reports },
    shown: { only: 1, epoch, bytes, told: made.told, mechanism, epsilon, purpose },
    touched,
  };
}

/** Uniform in [0, most): when a batch arrives must not say when its device woke up. */
export function pauseBeforeSending(most: number, entropy: Entropy): number {
  const random = entropy(8);
  const view = new DataView(random.buffer, random.byteOffset, random.byteLength);
  return most * (Number(view.getBigUint64(0, true) >> 11n) * 2 ** -53);
}
