/**
 * Seals reports: encrypts each report separately with the public key of the epoch (HPKE base mode,
 * RFC 9180).
 */

import { Aes128Gcm, CipherSuite, DhkemX25519HkdfSha256, HkdfSha256 } from "@hpke/core";
import type { Bytes } from "./bytes.js";
import { concatenate, encodeUtf8, toOwnBuffer } from "./bytes.js";
import { ProtocolError } from "./errors.js";

/** Bytes of a sealed report: the encapsulated key (32), the report (4) and the tag (16). */
export const SEALED_REPORT_BYTES = 52;
/** Prefix of HPKE's `info`; the hash of the manifest follows it. */
export const HPKE_INFO_PREFIX = encodeUtf8("sottovoce report 2\0");
/** The only HPKE suite of version 2 of the protocol. */
export const hpkeSuite = new CipherSuite({
  kem: new DhkemX25519HkdfSha256(),
  kdf: new HkdfSha256(),
  aead: new Aes128Gcm(),
});

/**
 * Throw a `ProtocolError` for a key of small order: anyone could open reports that are sealed with
 * it.
 */
export async function checkPublicKey(publicKey: Uint8Array): Promise<void> {
  await sealReports(Uint32Array.of(0), publicKey, new Uint8Array(32));
}

/**
 * Seal each report separately, and return the sealed reports of `SEALED_REPORT_BYTES` bytes one
 * after the other.
 *
 * Throws a `ProtocolError` if the key agreement fails, as it does for a key of small order.
 */
export async function sealReports(
  reports: Uint32Array,
  publicKey: Uint8Array,
  manifestHash: Uint8Array,
): Promise<Bytes> {
  const info = concatenate([HPKE_INFO_PREFIX, manifestHash]);
  try {
    const recipient = await hpkeSuite.kem.deserializePublicKey(toOwnBuffer(publicKey));
    const seal = (report: number) => sealOne(report, recipient, info);
    return concatenate(await Promise.all(Array.from(reports, seal)));
  } catch (error) {
    throw new ProtocolError("no report can be sealed to this public_key", {
      cause: error,
    });
  }
}

async function sealOne(report: number, recipientPublicKey: CryptoKey, info: Bytes): Promise<Bytes> {
  const plain = new DataView(new ArrayBuffer(4));
  plain.setUint32(0, report, true);
  const { enc, ct } = await hpkeSuite.seal({ recipientPublicKey, info }, plain.buffer);
  const sealed = concatenate([new Uint8Array(enc), new Uint8Array(ct)]);
  if (sealed.length !== SEALED_REPORT_BYTES)
    throw new RangeError(
      `a sealed report must have ${SEALED_REPORT_BYTES} bytes, not ${sealed.length}`,
    );
  return sealed;
}
