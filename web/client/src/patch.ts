/** Patches: how to make a published file from one of its earlier versions (docs/protocol.md). */

import { concatenate, toHex } from "./bytes.js";

/** Maximum size of a patch. */
export const MAX_PATCH_BYTES = 2 ** 22;
const MAGIC = 0x32505653; // "SVP2", little endian
const HEAD_BYTES = 8;
const HASH_BYTES = 32;
const SLICE_BYTES = 8;

/** The part of a patch that belongs to one earlier version. */
export interface PatchPart {
  /** Hash of the earlier version, in hexadecimal. */
  readonly base: string;
  /** Slices of that version followed by the literals: offset and length, four bytes each. */
  readonly slices: DataView;
  /** Bytes that the earlier version lacks. */
  readonly literals: Uint8Array;
}

/**
 * Return the part for the first of the stored files that a patch lists; null if it lists none or
 * is malformed. `stored` are hashes in hexadecimal.
 */
export function choosePart(patch: Uint8Array, stored: readonly string[]): PatchPart | null {
  const { buffer, byteOffset, byteLength } = patch;
  const view = new DataView(buffer, byteOffset, byteLength);
  let part: Omit<PatchPart, "literals"> | null = null;
  try {
    if (view.getUint32(0, true) !== MAGIC) return null;
    let at = HEAD_BYTES;
    for (let left = view.getUint32(4, true); left > 0; left--) {
      const base = toHex(patch.subarray(at, at + HASH_BYTES));
      const size = SLICE_BYTES * view.getUint32(at + HASH_BYTES, true);
      at += HASH_BYTES + 4;
      const slices = new DataView(buffer, byteOffset + at, size);
      at += size;
      if (at > byteLength) return null;
      if (stored.includes(base)) part ??= { base, slices };
    }
    return part && { ...part, literals: patch.subarray(at) };
  } catch {
    return null; // a number or a slice would be beyond the end
  }
}

/**
 * Make a file from an earlier version. Return null if it would have more than `maxBytes`, or if a
 * slice is beyond the end. The caller checks the hash of the result.
 */
export function applyPart(
  { slices, literals }: PatchPart,
  base: Uint8Array,
  maxBytes: number,
): Uint8Array | null {
  const source = concatenate([base, literals]);
  const pieces: Uint8Array[] = [];
  let size = 0;
  for (let at = 0; at < slices.byteLength; at += SLICE_BYTES) {
    const begin = slices.getUint32(at, true);
    const length = slices.getUint32(at + 4, true);
    size += length;
    if (begin + length > source.length || size > maxBytes) return null;
    pieces.push(source.subarray(begin, begin + length));
  }
  return concatenate(pieces);
}
