/**
 * The shelf: which catalogue holds now, signed, whatever the epoch.
 *
 * Reports are made for an epoch's catalogue, which stays as it is until the epoch is over. Lists are not: an
 * article that is withdrawn must be gone at once, and a new one can be recommended by its tags. Nobody can go
 * back to an older shelf.
 */

import { fromHex, sha256, toHex } from "./bytes.js";
import { type Catalogue, catalogueOf } from "./catalogue.js";
import type { Manifest, Terms } from "./epoch.js";
import { ProtocolError, UntrustedError } from "./errors.js";
import * as strict from "./json.js";
import { checkShape, type Matrix } from "./model.js";
import { type Kind, mostBytes, openSigned } from "./signing.js";

export interface Shelf {
  /** The Unix second of signing, or the one after that of the shelf before: it always grows. */
  readonly published: number;
  /** Of the catalogue file, in hexadecimal. */
  readonly catalogue: string;
  /** SHA-256 of the shelf's bytes, in hexadecimal. */
  readonly hash: string;
}

const VERSION = 2;
const SIGNED: Kind = { name: "shelf", magic: "SVS2", most: 1024 };
/** Bytes of the longest signed shelf. */
export const MAX_SIGNED_SHELF = mostBytes(SIGNED);

/** Any bytes give a shelf or a `ProtocolError`. */
export function decodeShelf(raw: Uint8Array): Omit<Shelf, "hash"> {
  const given = strict.readObject(raw, SIGNED.most, "shelf");
  strict.exactKeys(given, ["version", "published", "catalogue"], "shelf");
  strict.whole(given.version, VERSION, VERSION, "shelf: version");
  const most = Number.MAX_SAFE_INTEGER;
  return {
    published: strict.whole(given.published, 0, most, "shelf: published"),
    catalogue: toHex(strict.hexadecimal(given.catalogue, "shelf: catalogue")),
  };
}

export async function openShelf(data: Uint8Array, trusted: Uint8Array): Promise<Shelf> {
  const { text } = await openSigned(SIGNED, data, trusted);
  return { ...decodeShelf(text), hash: toHex(await sha256(text)) };
}

/**
 * Shelves never go back, and everybody is told the same. One of more than a day ahead is refused: a
 * clock was wrong when it was signed, and for long none could come after it.
 */
export function checkShelf(known: Shelf | null, { published, hash }: Shelf): void {
  const isOld =
    known &&
    (published < known.published || (published === known.published && hash !== known.hash));
  if (isOld || published > Date.now() / 1000 + 86_400) {
    throw new UntrustedError(
      `shelf of second ${published}: older than one seen, or of a wrong clock`,
    );
  }
}

/** It must be one that the next epoch could have: devices agreed to no larger model. */
export function checkShelved({ items }: Catalogue, { mostItems, factors }: Terms): void {
  if (items.length > mostItems) {
    throw new ProtocolError(`shelf: ${items.length} items, the terms allow ${mostItems}`);
  }
  checkShape(items.length, factors);
}

/** As it is; of one beyond the terms, those items that the model knows, or null if none is left. */
export function shelved(shelf: Catalogue, known: Catalogue, terms: Terms): Catalogue | null {
  try {
    checkShelved(shelf, terms);
    return shelf;
  } catch {
    const items = shelf.items.filter(({ id }) => known.numbers.has(id));
    return items.length > 0 ? catalogueOf(items) : null;
  }
}

/**
 * The catalogue that lists are made from: of the two that was signed later. A server signs a shelf with every
 * manifest; one that is older than the manifest was kept back.
 */
export function listedCatalogue({ catalogue, opens }: Manifest, shelf: Shelf): Uint8Array {
  return opens > shelf.published ? catalogue : fromHex(shelf.catalogue);
}

/** V for another catalogue: rows go with their items, and those of new ones are zero. */
export function movedRows(V: Matrix, before: Catalogue, after: Catalogue): Matrix {
  const { columns } = V;
  const values = new Float32Array(after.items.length * columns);
  for (const [row, { id }] of after.items.entries()) {
    const from = before.numbers.get(id);
    if (from === undefined) continue;
    values.set(V.values.subarray(from * columns, (from + 1) * columns), row * columns);
  }
  return { values, rows: after.items.length, columns };
}
