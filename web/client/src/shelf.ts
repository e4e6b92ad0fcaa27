/**
 * The shelf: a signed statement that names the newest catalogue, in any epoch.
 *
 * Reports are made for the catalogue of the epoch, which does not change until the epoch is over.
 * Lists use the newest catalogue: an article that is withdrawn must disappear at once, and a new
 * one can be recommended by its tags. A device never accepts a shelf that is older than its last
 * one.
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
  /** Unix second of signing. It is larger than that of the previous shelf, by at least one. */
  readonly published: number;
  /** SHA-256 of the catalogue file, in hexadecimal. */
  readonly catalogue: string;
  /** SHA-256 of a patch that makes this file from earlier catalogues; null if there is none. */
  readonly patch: Uint8Array | null;
  /** SHA-256 of the shelf's bytes, in hexadecimal. */
  readonly hash: string;
}

const SHELF_VERSION = 2;
const SIGNED_KIND: SignedKind = { name: "shelf", magic: "SVS2", maxBytes: 1024 };
export const MAX_SIGNED_SHELF_BYTES = computeMaxSignedBytes(SIGNED_KIND);

/** Decode a shelf. Throws a `ProtocolError` if the bytes are not valid. */
export function decodeShelf(raw: Uint8Array): Omit<Shelf, "hash"> {
  const fields = strict.parseObject(raw, SIGNED_KIND.maxBytes, "shelf");
  strict.checkKeys(fields, ["version", "published", "catalogue", "patch"], "shelf");
  strict.parseWhole(fields.version, SHELF_VERSION, SHELF_VERSION, "shelf: version");
  const most = Number.MAX_SAFE_INTEGER;
  return {
    published: strict.parseWhole(fields.published, 0, most, "shelf: published"),
    catalogue: toHex(strict.parseHex(fields.catalogue, "shelf: catalogue")),
    patch: fields.patch === null ? null : strict.parseHex(fields.patch, "shelf: patch"),
  };
}

/** Check the signature of a shelf, and decode it. */
export async function openShelf(data: Uint8Array, trusted: Uint8Array): Promise<Shelf> {
  const { text } = await openSigned(SIGNED_KIND, data, trusted);
  return { ...decodeShelf(text), hash: toHex(await hashSha256(text)) };
}

/**
 * Check that a shelf is not older than the previous one, and is not another shelf of the same
 * second.
 *
 * A shelf whose time is more than a day ahead is also refused. The server's clock must have been
 * wrong, and no other shelf could follow until that time.
 */
export function checkShelf(previous: Shelf | null, { published, hash }: Shelf): void {
  const isOutdated =
    previous &&
    (published < previous.published ||
      (published === previous.published && hash !== previous.hash));
  if (isOutdated || published > Date.now() / 1000 + 86_400) {
    throw new UntrustedError(
      `the shelf of second ${published} is older than the last one, or signed with a wrong clock`,
    );
  }
}

/** Check that the next epoch could use this catalogue: the owner agreed to no larger model. */
export function checkShelfSize({ items }: Catalogue, { maxItems, factors }: Terms): void {
  if (items.length > maxItems) {
    throw new ProtocolError(
      `shelf: its catalogue has ${items.length} items, but the terms allow ${maxItems}`,
    );
  }
  checkShape(items.length, factors);
}

/**
 * Return the catalogue of the shelf. If it is larger than the terms allow, return only its items
 * that the model has; null if there are none.
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
 * Return the hash of the catalogue from which lists are made: that of the manifest or of the shelf,
 * whichever was signed later.
 *
 * A server signs a shelf with every manifest. So if the shelf is older than the manifest, the proxy
 * has withheld a newer shelf.
 */
export function findListedCatalogue({ catalogue, opens }: Manifest, shelf: Shelf): Uint8Array {
  return opens > shelf.published ? catalogue : fromHex(shelf.catalogue);
}

/**
 * Return V for another catalogue. Rows move with their items, and the rows of new items are zero.
 */
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
