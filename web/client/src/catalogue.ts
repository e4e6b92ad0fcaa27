/**
 * The catalogue: which thing is item number i. Public, the same for everybody, named by its hash.
 *
 * A device keeps what its owner touched under the product's own names (`id`) and finds the numbers
 * here, so that nobody has to be asked about an item.
 */

import { ProtocolError } from "./errors.js";
import * as strict from "./strict.js";

/** One thing that can be recommended. */
export interface Item {
  /** The product's own name for it, unique in the catalogue. */
  readonly id: string;
  /** For people. */
  readonly title: string;
  /** Genres or the like. */
  readonly tags: readonly string[];
}

/** All items; the position is the row of V. */
export interface Catalogue {
  readonly items: readonly Item[];
  /** From an item's id to its row of V. */
  readonly numbers: ReadonlyMap<string, number>;
}

/** Bytes of the longest catalogue file. */
export const MAX_CATALOGUE = 64 * 2 ** 20;
const VERSION = 1;
const MAX_TEXT = 512;

/** Any bytes give a catalogue or a `ProtocolError`. */
export function decodeCatalogue(data: Uint8Array): Catalogue {
  const given = strict.readObject(data, MAX_CATALOGUE, "catalogue");
  strict.exactKeys(given, ["version", "items"], "catalogue");
  strict.whole(given.version, VERSION, VERSION, "catalogue: version");
  const entries = given.items;
  if (!Array.isArray(entries) || entries.length === 0) {
    throw new ProtocolError("catalogue: items must be a list that is not empty");
  }
  const items = entries.map(readItem);
  const numbers = new Map(items.map((item, number) => [item.id, number]));
  if (numbers.size !== items.length) {
    throw new ProtocolError("catalogue: two items have the same id");
  }
  return { items, numbers };
}

function readItem(entry: unknown): Item {
  if (!strict.isObject(entry)) throw new ProtocolError("catalogue: an item is a JSON object");
  strict.exactKeys(entry, ["id", "title", "tags"], "catalogue: item");
  const tags = entry.tags;
  if (!Array.isArray(tags)) throw new ProtocolError("catalogue: tags must be a list");
  return {
    id: strict.text(entry.id, MAX_TEXT, "catalogue: id"),
    title: strict.text(entry.title, MAX_TEXT, "catalogue: title"),
    tags: tags.map((tag) => strict.text(tag, MAX_TEXT, "catalogue: tag")),
  };
}
