/**
 * The shelf: the signed statement which catalogue is the newest, in any epoch.
 *
 * Reports are made for an epoch's catalogue, which does not change until the epoch is over. Lists
 * may change: an article that is withdrawn must disappear at once, and a new one can be recommended
 * by its tags. Nobody can go back to an older shelf.
 */

import { checkShape } from "./bounds.js";
import { fromHex, hashSha256, toHex } from "./bytes.js";
import { type Catalogue, createCatalogue } from "./catalogue.js";
import type { Manifest, Terms } from "./epoch.js";
import { ProtocolError, UntrustedError } from "./errors.js";
import * as strict from "./json.js";
import type { Matrix } from "./model.js";
import { computeMaxSignedBytes, openSigned, type SignedKind } from "./signing.js";

/** A shelf whose signature was checked. */
export interface Shelf {
  /** Unix second of signing, or the one after the previous shelf's: it always grows. */
  readonly published: number;
  /** SHA-256 of the catalogue file, in hexadecimal. */
  readonly catalogue: string;
  /** SHA-256 of the shelf's bytes, in hexadecimal. */
  readonly hash: string;
}

const SHELF_VERSION = 2;
const SIGNED_KIND: SignedKind = { name: "shelf", magic: "SVS2", maxBytes: 1024 };
/** Longest signed shelf. */
export const MAX_SIGNED_SHELF_BYTES = computeMaxSignedBytes(SIGNED_KIND);

/** Decode a shelf; `ProtocolError` for any other bytes. */
export function decodeShelf(raw: Uint8Array): Omit<Shelf, "hash"> {
  const fields = strict.parseObject(raw, SIGNED_KIND.maxBytes, "shelf");
  strict.checkKeys(fields, ["version", "published", "catalogue"], "shelf");
  strict.parseWhole(fields.version, SHELF_VERSION, SHELF_VERSION, "shelf: version");
  const most = Number.MAX_SAFE_INTEGER;
  return {
    published: strict.parseWhole(fields.published, 0, most, "shelf: published"),
    catalogue: toHex(strict.parseHex(fields.catalogue, "shelf: catalogue")),
  };
}

/** Check the signature of a shelf, and decode it. */
export async function openShelf(data: Uint8Array, trusted: Uint8Array): Promise<Shelf> {
  const { text } = await openSigned(SIGNED_KIND, data, trusted);
  return { ...decodeShelf(text), hash: toHex(await hashSha256(text)) };
}

/**
 * Refuse an older shelf, and a second one of the same moment.
 *
 * One more than a day ahead is refused too: a clock was wrong when it was signed, and for long no
 * other shelf could follow it.
 */
export function checkShelf(previous: Shelf | null, { published, hash }: Shelf): void {
  const isOutdated =
    previous &&
    (published < previous.published ||
      (published === previous.published && hash !== previous.hash));
  if (isOutdated || published > Date.now() / 1000 + 86_400) {
    throw new UntrustedError(
      `shelf of second ${published}: older than the last one, or signed with a wrong clock`,
    );
  }
}

/** Check that the next epoch could have this catalogue: devices agreed to no larger model. */
export function checkShelfSize({ items }: Catalogue, { mostItems, factors }: Terms): void {
  if (items.length > mostItems) {
    throw new ProtocolError(
      `shelf: ${items.length} items, but the terms allow at most ${mostItems}`,
    );
  }
  checkShape(items.length, factors);
}

/**
 * Return the catalogue, or beyond the terms only the items that the model has; null if none is
 * left.
 */
export function limitShelf(
  shelf: Catalogue,
  modelCatalogue: Catalogue,
  terms: Terms,
): Catalogue | null {
  try {
    checkShelfSize(shelf, terms);
    return shelf;
  } catch {
    const items = shelf.items.filter(({ id }) => modelCatalogue.rowsById.has(id));
    return items.length > 0 ? createCatalogue(items) : null;
  }
}

/**
 * Return the hash of the catalogue that lists are made from: the one that was signed later.
 *
 * A server signs a shelf with every manifest, so a shelf older than the manifest was withheld.
 */
export function findListedCatalogue({ catalogue, opens }: Manifest, shelf: Shelf): Uint8Array {
  return opens > shelf.published ? catalogue : fromHex(shelf.catalogue);
}

/** Return V for another catalogue: rows move with their items, and new items have zeros. */
export function moveRows(V: Matrix, before: Catalogue, after: Catalogue): Matrix {
  const { columns } = V;
  const values = new Float32Array(after.items.length * columns);
  for (const [row, { id }] of after.items.entries()) {
    const from = before.rowsById.get(id);
    if (from === undefined) continue;
    values.set(V.values.subarray(from * columns, (from + 1) * columns), row * columns);
  }
  return { values, rows: after.items.length, columns };
}
