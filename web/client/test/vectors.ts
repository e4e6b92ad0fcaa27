/**
 * The vectors that every implementation shares, and ways to read them.
 */

import ledger from "../../../tests/vectors/ledger.json" with { type: "json" };
import mechanisms from "../../../tests/vectors/mechanisms.json" with { type: "json" };
import plans from "../../../tests/vectors/plans.json" with { type: "json" };
import promises from "../../../tests/vectors/promises.json" with { type: "json" };
import protocol from "../../../tests/vectors/protocol.json" with { type: "json" };
import recommending from "../../../tests/vectors/recommending.json" with { type: "json" };
import thresholds from "../../../tests/vectors/thresholds.json" with { type: "json" };
import { concatenate } from "../src/bytes.js";
import type { Manifest, Terms } from "../src/epoch.js";
import type { Charge } from "../src/ledger.js";
import { decodeManifest } from "../src/manifest.js";
import { HPKE_INFO_PREFIX, hpkeSuite, SEALED_REPORT_BYTES } from "../src/sealing.js";

export { ledger, mechanisms, plans, promises, protocol, recommending, thresholds };

/** A charge as the vectors write it. */
export type WrittenCharge = Omit<Charge, "loudFraction"> & { loud_fraction: number };

export function readCharge({ loud_fraction: loudFraction, ...rest }: WrittenCharge): Charge {
  return { ...rest, loudFraction };
}

const FLOAT = /^(-?)0x([01])\.([0-9a-f]+)p([+-]\d+)$/;

/** Parse a float as Python's `float.hex` writes it. */
export function fromFloatHex(text: string): number {
  const [, sign, first, rest, exponent] = FLOAT.exec(text) ?? [];
  if (rest === undefined) throw new Error(`no float: ${text}`);
  const size = Number.parseInt(`${first}${rest}`, 16) * 2 ** (Number(exponent) - 4 * rest.length);
  return sign === "-" ? -size : size;
}

/** Parse words as the vectors write them: hexadecimal, without a prefix. */
export function fromWords(words: readonly string[]): BigUint64Array {
  return BigUint64Array.from(words, (word) => BigInt(`0x${word}`));
}

/** Return the vectors' manifest with some fields changed; those of its terms replace one by one. */
export function manifestWith(changes: Changes): Manifest {
  const manifest = decodeManifest(new TextEncoder().encode(protocol.manifest.text));
  return { ...manifest, ...changes, terms: { ...manifest.terms, ...changes.terms } };
}

export type Changes = Partial<Omit<Manifest, "terms">> & { terms?: Partial<Terms> };

/** Return a generator of numbers in [0, 1) that are the same in every run (mulberry32). */
export function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Draw a 64-bit word from such numbers. */
export function wordFrom(random: () => number): bigint {
  const half = () => BigInt(Math.floor(random() * 2 ** 32));
  return (half() << 32n) | half();
}

/** Open a run of sealed reports; throw at the first that does not open. */
export async function openSealed(
  sealed: Uint8Array,
  recipientKey: CryptoKey,
  manifestHash: Uint8Array,
): Promise<number[]> {
  const info = concatenate([HPKE_INFO_PREFIX, manifestHash]);
  const reports: number[] = [];
  for (let at = 0; at < sealed.length; at += SEALED_REPORT_BYTES) {
    const [enc, ciphertext] = [
      sealed.slice(at, at + 32),
      sealed.slice(at + 32, at + SEALED_REPORT_BYTES),
    ];
    const plain = await hpkeSuite.open({ recipientKey, enc, info }, ciphertext);
    reports.push(new DataView(plain).getUint32(0, true));
  }
  return reports;
}
