/** Making a batch: the one place where something private becomes something that may leave. */

import { BATCH_ID, encodeBatch } from "./batch.js";
import { sha256, toHex } from "./bytes.js";
import { type Reportable, rowsOf } from "./edition.js";
import { SettingsError } from "./errors.js";
import { endOf } from "./manifest.js";
import { makeReports } from "./mechanism/index.js";
import type { MadeBatch } from "./outbox.js";
import { sealReports } from "./sealing.js";
import type { Entropy, Words } from "./words.js";

/** What the owner touched, and the generation that the settings named before that was read. */
export interface Own {
  touched: Iterable<string>;
  generation: string;
}

/** All the coins of a batch. */
export interface Coins {
  words: Words;
  entropy: Entropy;
}

/**
 * Exactly k sealed reports of whoever touched this; of nobody's history just as many. To stay silent
 * with nothing to say would be saying it. For the same reason nothing here can fail because of what
 * was touched: see `bounds`.
 */
export async function makeBatch(
  edition: Reportable,
  { touched, generation }: Own,
  sendAt: number,
  { words, entropy }: Coins,
): Promise<MadeBatch> {
  const { manifest, hash: manifestHash } = edition.signed;
  const { epoch } = manifest;
  const { training, mechanism, epsilon, reports, loudFraction, leastClients } = manifest.terms;
  if (manifest.publicKey === null) {
    throw new SettingsError("this manifest asks for no reports");
  }
  const own = rowsOf(edition.catalogue, touched);
  const made = await makeReports(manifest, edition.V, own, words(reports));
  const sealed = await sealReports(made.reports, manifest.publicKey, manifestHash);
  const bytes = encodeBatch({ epoch, manifestHash, id: entropy(BATCH_ID), sealed });
  const purpose = toHex(await sha256(bytes));
  return {
    batch: { epoch, state: "charged", purpose, sendAt, ends: endOf(manifest), notBefore: 0, bytes },
    charge: {
      ...{ training, epoch, purpose, mechanism, epsilon, reports },
      ...{ loudFraction, clients: leastClients },
    },
    shown: { only: 1, epoch, bytes, told: made.told, mechanism, epsilon, purpose },
    generation,
  };
}
