/** Making a batch: the one place where something private becomes something that may leave. */

import { BATCH_ID, encodeBatch } from "./batch.js";
import { sha256, toHex } from "./bytes.js";
import { SettingsError } from "./errors.js";
import { endOf } from "./manifest.js";
import { makeReports } from "./mechanism/index.js";
import type { MadeBatch } from "./outbox.js";
import { type Reportable, rowsOf } from "./release.js";
import { sealReports } from "./sealing.js";
import type { Entropy, Words } from "./words.js";

/** When it is made, and when it may leave: decided before the history was read. */
export interface Moments {
  now: number;
  sendAt: number;
}

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
  release: Reportable,
  { touched, generation }: Own,
  { now, sendAt }: Moments,
  { words, entropy }: Coins,
): Promise<MadeBatch> {
  const { manifest, hash: manifestHash } = release.signed;
  const { epoch } = manifest;
  const { training, mechanism, epsilon, reports, loudFraction, leastClients } = manifest.terms;
  if (manifest.publicKey === null) {
    throw new SettingsError("this manifest asks for no reports");
  }
  const own = rowsOf(release.catalogue, touched);
  const made = await makeReports(manifest, release.V, own, words(reports));
  const sealed = await sealReports(made.reports, manifest.publicKey, manifestHash);
  const bytes = encodeBatch({ epoch, manifestHash, id: entropy(BATCH_ID), sealed });
  const purpose = toHex(await sha256(bytes));
  return {
    batch: { epoch, state: "charged", purpose, sendAt, ends: endOf(manifest), notBefore: 0, bytes },
    charge: {
      ...{ training, epoch, at: Math.floor(now), purpose, mechanism, epsilon, reports },
      ...{ loudFraction, clients: leastClients },
    },
    shown: { only: 1, epoch, bytes, told: made.told, mechanism, epsilon, purpose },
    generation,
  };
}
