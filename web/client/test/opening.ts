/** The server's side of sealing, for tests alone: no client can open a report. */

import { concat } from "../src/bytes.js";
import { INFO, SEALED, suite } from "../src/sealing.js";

/** The reports in a run of sealed ones; throws at the first that does not open. */
export async function openSealed(
  sealed: Uint8Array,
  privateKey: Uint8Array,
  manifestHash: Uint8Array,
): Promise<number[]> {
  const recipientKey = await suite.kem.deserializePrivateKey(privateKey);
  const info = concat([INFO, manifestHash]);
  const reports: number[] = [];
  for (let at = 0; at < sealed.length; at += SEALED) {
    const [enc, ciphertext] = [sealed.slice(at, at + 32), sealed.slice(at + 32, at + SEALED)];
    const plain = await suite.open({ recipientKey, enc, info }, ciphertext);
    reports.push(new DataView(plain).getUint32(0, true));
  }
  return reports;
}
