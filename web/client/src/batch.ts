/**
 * Making a batch: the one place where something private becomes something that may leave.
 *
 * Each report is sealed alone, to the server's key of one epoch (HPKE base mode, RFC 9180): so a proxy can
 * separate the reports of one person. It is bound to the manifest's hash, so that it opens in its own
 * epoch, under its own manifest, or not at all. A batch is all that one device says in one epoch, always
 * of the same size:
 *
 *     0    4   "SVB2"
 *     4    4   epoch, little endian
 *     8   32   manifest hash
 *     40  16   batch id, random, for this batch alone
 *     56  64   where reports need tokens: the output for this id (`accounts`)
 *     .   52k  the sealed reports
 */

import { Aes128Gcm, CipherSuite, DhkemX25519HkdfSha256, HkdfSha256 } from "@hpke/core";
import { type Bytes, concat, owned, sha256, toHex, utf8 } from "./bytes.js";
import { rowsOf } from "./catalogue.js";
import type { Entropy, Words } from "./coin.js";
import { endOf } from "./epoch.js";
import { ProtocolError, SettingsError } from "./errors.js";
import { makeReports } from "./mechanism/registry.js";
import type { MadeBatch } from "./outbox.js";
import type { Reportable } from "./release.js";
import { BATCH_ID, type Token } from "./timing.js";

/** What the owner touched, and the generation that the settings named before that was read. */
export interface Own {
  touched: Iterable<string>;
  generation: string;
  /** Where a batch needs one. */
  token?: Token | undefined;
}

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
  { touched, generation, token }: Own,
  sendAt: number,
  { words, entropy }: Coins,
): Promise<MadeBatch> {
  const { manifest, hash: manifestHash } = release.signed;
  const { epoch } = manifest;
  const { training, mechanism, epsilon, reports, loudFraction } = manifest.terms;
  const { leastClients: clients, dummies } = manifest.terms;
  if (manifest.publicKey === null) {
    throw new SettingsError("this manifest asks for no reports");
  }
  const own = rowsOf(release.catalogue, touched);
  const made = await makeReports(manifest, release.V, own, words(reports));
  const sealed = await sealReports(made.reports, manifest.publicKey, manifestHash);
  const { id, output } = token ?? { id: entropy(BATCH_ID), output: null };
  const bytes = encodeBatch({ epoch, manifestHash, id, sealed, output });
  const purpose = toHex(await sha256(bytes));
  return {
    batch: { epoch, state: "charged", purpose, sendAt, ends: endOf(manifest), notBefore: 0, bytes },
    charge: {
      ...{ training, epoch, purpose, mechanism, epsilon, reports },
      ...{ loudFraction, clients, dummies },
    },
    shown: { only: 1, epoch, bytes, told: made.told, mechanism, epsilon, purpose },
    generation,
  };
}

/** Bytes of a sealed report: encapsulated key (32), report (4), tag (16). */
export const SEALED = 52;
/** Before the manifest's hash in HPKE's `info`. */
export const INFO = utf8("sottovoce report 2\0");
/** The only suite of version 2. */
export const suite = new CipherSuite({
  kem: new DhkemX25519HkdfSha256(),
  kdf: new HkdfSha256(),
  aead: new Aes128Gcm(),
});

/** Refuse a key to which nothing can be sealed: one of small order, which anybody could open. */
export async function checkPublicKey(publicKey: Uint8Array): Promise<void> {
  await sealReports(Uint32Array.of(0), publicKey, new Uint8Array(32));
}

/**
 * Each report sealed alone, one after the other, `SEALED` bytes each.
 *
 * A key of small order, to which everybody could open, is refused: the key agreement fails then.
 */
export async function sealReports(
  reports: Uint32Array,
  publicKey: Uint8Array,
  manifestHash: Uint8Array,
): Promise<Bytes> {
  const info = concat([INFO, manifestHash]);
  try {
    const recipient = await suite.kem.deserializePublicKey(owned(publicKey));
    const seal = (report: number) => sealOne(report, recipient, info);
    return concat(await Promise.all(Array.from(reports, seal)));
  } catch (error) {
    throw new ProtocolError("nothing can be sealed to this epoch's key; no report is made of it", {
      cause: error,
    });
  }
}

async function sealOne(report: number, recipientPublicKey: CryptoKey, info: Bytes): Promise<Bytes> {
  const plain = new DataView(new ArrayBuffer(4));
  plain.setUint32(0, report, true);
  const { enc, ct } = await suite.seal({ recipientPublicKey, info }, plain.buffer);
  const sealed = concat([new Uint8Array(enc), new Uint8Array(ct)]);
  if (sealed.length !== SEALED) throw new RangeError(`sealed to ${sealed.length} bytes`);
  return sealed;
}

/** Bytes before the sealed reports. */
export const HEADER = 56;
const MAGIC = utf8("SVB2");
const HASH = 32;

/** Sealed once, kept, and resent byte for byte: sealing anew would spend the budget anew. */
export interface Batch {
  readonly epoch: number;
  readonly manifestHash: Uint8Array;
  readonly id: Uint8Array;
  readonly sealed: Uint8Array;
  /** Of its token; none where none is needed. */
  readonly output?: Uint8Array | null;
}

export function encodeBatch(batch: Batch): Bytes {
  const { epoch, manifestHash, id, sealed, output } = batch;
  const fits = manifestHash.length === HASH && id.length === BATCH_ID;
  if (!fits || sealed.length === 0 || sealed.length % SEALED !== 0) {
    throw new SettingsError("a batch has a hash of 32 bytes, an id of 16 and whole sealed reports");
  }
  const number = new Uint8Array(4);
  new DataView(number.buffer).setUint32(0, epoch, true);
  return concat([MAGIC, number, manifestHash, id, output ?? new Uint8Array(), sealed]);
}
