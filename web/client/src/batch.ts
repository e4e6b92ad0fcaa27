/**
 * A batch: all that one device says in one epoch, on its way to the proxy. Always the same size.
 *
 *     0    4   "SVB2"
 *     4    4   epoch, little endian
 *     8   32   manifest hash
 *     40  16   batch id, random, for this batch alone
 *     56  52k  the sealed reports
 */

import { type Bytes, concat, utf8 } from "./bytes.js";
import { SettingsError } from "./errors.js";
import { SEALED } from "./sealing.js";

/** Bytes of a batch's id. */
export const BATCH_ID = 16;
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
}

/** As sent. */
export function encodeBatch(batch: Batch): Bytes {
  const { epoch, manifestHash, id, sealed } = batch;
  const fits = manifestHash.length === HASH && id.length === BATCH_ID;
  if (!fits || sealed.length === 0 || sealed.length % SEALED !== 0) {
    throw new SettingsError("a batch has a hash of 32 bytes, an id of 16 and whole sealed reports");
  }
  const number = new Uint8Array(4);
  new DataView(number.buffer).setUint32(0, epoch, true);
  return concat([MAGIC, number, manifestHash, id, sealed]);
}
