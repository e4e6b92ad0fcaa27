/**
 * Sealing: each report alone, to the server's key of one epoch (HPKE base mode, RFC 9180).
 *
 * Alone, so that a proxy can separate the reports of one person. Bound to the manifest's hash, so
 * that a report opens in its own epoch, under its own manifest, or not at all.
 */

import { Aes128Gcm, CipherSuite, DhkemX25519HkdfSha256, HkdfSha256 } from "@hpke/core";
import { type Bytes, concat, owned, utf8 } from "./bytes.js";
import { ProtocolError } from "./errors.js";

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
    throw new ProtocolError("nothing can be sealed to this epoch's key; nothing is sent", {
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
