/**
 * Makes batches: the only place where private data becomes data that may leave the device.
 *
 * Each report is sealed separately with the server's key of one epoch (HPKE base mode, RFC 9180),
 * so that a proxy can separate the reports of one person. A sealed report is bound to the hash of
 * the manifest, so it opens only in its own epoch and under its own manifest. A batch contains all
 * reports of one device in one epoch, and its size is the same for all devices:
 *
 *     0    4   "SVB2"
 *     4    4   epoch, little endian
 *     8   32   manifest hash
 *     40  16   batch id, random, for this batch only
 *     56  64   output of the token for this id (see `accounts`); absent if reports need no tokens
 *     .   52k  the sealed reports
 */

import { type Bytes, concatenate, encodeUtf8, hashSha256, toHex } from "./bytes.js";
import { findRows } from "./catalogue.js";
import type { Entropy, Words } from "./coin.js";
import { endOfEpoch } from "./epoch.js";
import { SettingsError } from "./errors.js";
import { asksForNames, makeReports, type ReadableReport } from "./mechanism/registry.js";
import type { MadeBatch } from "./outbox.js";
import type { Reportable } from "./release.js";
import { SEALED_REPORT_BYTES, sealReports } from "./sealing.js";
import { BATCH_ID_BYTES, type Token } from "./timing.js";

/** A history, and the data that belong to the batch made from it. */
export interface OwnHistory {
  /** The moment of each item that the owner touched, by id; a later moment is larger. */
  touched: ReadonlyMap<string, number>;
  /** Generation in the settings, read before the history was read. */
  generation: string;
  /** Token of the batch, if the terms require one. */
  token?: Token | undefined;
}

/** Sources of random numbers. */
export interface Randomness {
  words: Words;
  entropy: Entropy;
}

/**
 * Make a batch of exactly k sealed reports from a history. `sendAt` is in Unix seconds.
 *
 * An empty history gives just as many reports, because silence would reveal that it is empty. For
 * the same reason, nothing here can fail because of the items of a history (see `bounds`).
 */
export async function makeBatch(
  release: Reportable,
  { touched, generation, token }: OwnHistory,
  sendAt: number,
  { words, entropy }: Randomness,
): Promise<MadeBatch> {
  const { manifest, hash: manifestHash } = release.signed;
  const { epoch } = manifest;
  const { training, mechanism, epsilon, reports, loudFraction } = manifest.terms;
  const { minClients: clients, dummies } = manifest.terms;
  if (manifest.publicKey === null) {
    throw new SettingsError(`epoch ${epoch} must ask for reports`);
  }
  const own = findReportedRows(release, touched);
  const encoded = await makeReports(manifest, release.V, own, words(reports));
  const sealed = await sealReports(encoded.reports, manifest.publicKey, manifestHash);
  const { id, output } = token ?? { id: entropy(BATCH_ID_BYTES), output: null };
  const bytes = encodeBatch({ epoch, manifestHash, id, sealed, output });
  const purpose = toHex(await hashSha256(bytes));
  return {
    batch: {
      epoch,
      state: "charged",
      purpose,
      sendAt,
      ends: endOfEpoch(manifest),
      notBefore: 0,
      bytes,
    },
    charge: {
      ...{ training, epoch, purpose, mechanism, epsilon, reports },
      ...{ loudFraction, clients, dummies },
    },
    shown: {
      only: 1,
      epoch,
      bytes,
      reports: encoded.readable,
      titles: listTitles(release, encoded.readable),
      mechanism,
      epsilon,
      purpose,
    },
    generation,
  };
}

/**
 * Return the rows of the items that reports are made of, in ascending order.
 *
 * These are all touched items that the catalogue knows. In a training of names, they are only those
 * that were touched last.
 */
export function findReportedRows(
  { signed, catalogue }: Pick<Reportable, "signed" | "catalogue">,
  touched: ReadonlyMap<string, number>,
): number[] {
  const listed = [...touched].filter(([id]) => catalogue.rowsById.has(id));
  const latest = listed.reduce((most, [, moment]) => Math.max(most, moment), 0);
  const hasNames = asksForNames(signed.manifest.terms);
  const reported = listed.filter(([, moment]) => !hasNames || moment === latest);
  return findRows(
    catalogue,
    reported.map(([id]) => id),
  );
}

/**
 * Return a list with the title of the item that each report names, or null for a report that names
 * none. If reports do not name items, return null instead of a list.
 */
function listTitles(
  { signed, catalogue }: Reportable,
  reports: readonly ReadableReport[],
): (string | null)[] | null {
  if (!asksForNames(signed.manifest.terms)) return null;
  return reports.map(({ row }) => catalogue.items[row]?.title ?? null);
}

/** Size of the header without a token. */
export const HEADER_BYTES = 56;
const BATCH_MAGIC = encodeUtf8("SVB2");
const HASH_BYTES = 32;

/**
 * The parts of an encoded batch. A batch is sealed once, stored, and resent byte for byte, because
 * sealing a new one would spend the budget a second time.
 */
export interface Batch {
  readonly epoch: number;
  readonly manifestHash: Uint8Array;
  readonly id: Uint8Array;
  readonly sealed: Uint8Array;
  /** Output of the token, if the terms require one. */
  readonly output?: Uint8Array | null;
}

export function encodeBatch(batch: Batch): Bytes {
  const { epoch, manifestHash, id, sealed, output } = batch;
  const isComplete = manifestHash.length === HASH_BYTES && id.length === BATCH_ID_BYTES;
  if (!isComplete || sealed.length === 0 || sealed.length % SEALED_REPORT_BYTES !== 0) {
    throw new SettingsError(
      "a batch needs a hash of 32 bytes, an id of 16 bytes and whole sealed reports",
    );
  }
  const epochBytes = new Uint8Array(4);
  new DataView(epochBytes.buffer).setUint32(0, epoch, true);
  return concatenate([
    BATCH_MAGIC,
    epochBytes,
    manifestHash,
    id,
    output ?? new Uint8Array(),
    sealed,
  ]);
}
