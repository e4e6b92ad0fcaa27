/**
 * The catalogue: which thing is item number i, and what is publicly known of it. The same for everybody,
 * named by its hash.
 *
 * A device keeps what its owner touched under the product's own names (`id`) and finds the numbers
 * here, so that nobody has to be asked about an item.
 */

import { ProtocolError } from "./errors.js";
import * as strict from "./json.js";
import { type Tags, type Traits, tagsOf } from "./tags.js";

export interface Item {
  /** The product's own name for it, unique in the catalogue. */
  readonly id: string;
  /** For people. */
  readonly title: string;
  /** What is publicly known of it, by kind: labels (genre, brand), or a number (year, price). */
  readonly tags: Traits;
}

/** All items; the position is the row of V. */
export interface Catalogue {
  readonly items: readonly Item[];
  /** From an item's id to its row of V. */
  readonly numbers: ReadonlyMap<string, number>;
  /** The columns that recommending uses. */
  readonly tags: Tags;
}

export const MAX_CATALOGUE = 64 * 2 ** 20;
const VERSION = 2;
const MAX_TEXT = 512;
const MAX_KINDS = 32;
/** Of one item, of all kinds together. */
const MAX_LABELS = 64;
// Of a catalogue: a device must hold them, and count how many items share each.
const MAX_ALL_LABELS = 2 ** 22;
const MAX_DISTINCT_LABELS = 2 ** 17;
const KIND = /^[a-z][a-z0-9_]{0,31}$/;

/** Any bytes give a catalogue or a `ProtocolError`. */
export function decodeCatalogue(data: Uint8Array): Catalogue {
  const given = strict.readObject(data, MAX_CATALOGUE, "catalogue");
  strict.exactKeys(given, ["version", "items"], "catalogue");
  strict.whole(given.version, VERSION, VERSION, "catalogue: version");
  const entries = given.items;
  if (!Array.isArray(entries) || entries.length === 0) {
    throw new ProtocolError("catalogue: items must be a list that is not empty");
  }
  return catalogueOf(entries.map(readItem));
}

/** With all that follows from the items. */
export function catalogueOf(items: readonly Item[]): Catalogue {
  const numbers = new Map(items.map((item, number) => [item.id, number]));
  if (numbers.size !== items.length) {
    throw new ProtocolError("catalogue: two items have the same id");
  }
  checkKinds(items);
  checkLabels(items);
  let tags: Tags | undefined;
  return {
    items,
    numbers,
    get tags() {
      tags ??= tagsOf(items.map((item) => item.tags)); // whoever does not recommend needs none
      return tags;
    },
  };
}

/** The rows of those items that the catalogue knows, ascending. */
export function rowsOf(
  { numbers }: Pick<Catalogue, "numbers">,
  touched: Iterable<string>,
): number[] {
  const rows = [...touched].map((id) => numbers.get(id));
  return rows.filter((row) => row !== undefined).sort((a, b) => a - b);
}

function readItem(entry: unknown): Item {
  if (!strict.isObject(entry)) throw new ProtocolError("catalogue: an item is a JSON object");
  strict.exactKeys(entry, ["id", "title", "tags"], "catalogue: item");
  const tags = entry.tags;
  if (!strict.isObject(tags)) throw new ProtocolError("catalogue: tags must be an object, by kind");
  return {
    id: strict.text(entry.id, MAX_TEXT, "catalogue: id"),
    title: strict.text(entry.title, MAX_TEXT, "catalogue: title"),
    tags: Object.fromEntries(
      Object.entries(tags).map(([kind, values]) => [readKind(kind), readValues(values)]),
    ),
  };
}

function readKind(kind: string): string {
  if (!KIND.test(kind)) {
    throw new ProtocolError(
      `catalogue: a kind of tag is ${KIND.source}, not ${strict.shown(kind)}`,
    );
  }
  return kind;
}

function readValues(values: unknown): readonly string[] | number {
  if (!Array.isArray(values)) {
    return strict.real(values, 0, Number.MAX_SAFE_INTEGER, "catalogue: tag");
  }
  const labels = values.map((label) => strict.text(label, MAX_TEXT, "catalogue: label"));
  if (new Set(labels).size !== labels.length) {
    throw new ProtocolError("catalogue: an item has the same label twice");
  }
  return labels;
}

/** A kind has labels for all items or numbers for all: else its bands would mean nothing. */
function checkKinds(items: readonly Item[]): void {
  const types = new Map<string, string>();
  for (const { tags } of items) {
    for (const [kind, values] of Object.entries(tags)) {
      const known = types.get(kind) ?? typeof values;
      if (known !== typeof values) {
        throw new ProtocolError(
          "catalogue: a kind of tag has labels for some items, numbers for others",
        );
      }
      types.set(kind, known);
    }
  }
  if (types.size > MAX_KINDS) {
    throw new ProtocolError(
      `catalogue: ${types.size} kinds of tags, at most ${MAX_KINDS} are read`,
    );
  }
}

/** Not more than a device can count. */
function checkLabels(items: readonly Item[]): void {
  let total = 0;
  const distinct = new Set<string>();
  for (const { tags } of items) {
    const labels = Object.entries(tags).flatMap(([kind, values]) => {
      return typeof values === "number" ? [] : values.map((label) => `${kind} ${label}`);
    });
    if (labels.length > MAX_LABELS) {
      throw new ProtocolError(`catalogue: an item has more than ${MAX_LABELS} labels`);
    }
    total += labels.length;
    for (const label of labels) distinct.add(label);
    if (total > MAX_ALL_LABELS || distinct.size > MAX_DISTINCT_LABELS) {
      throw new ProtocolError(
        `catalogue: at most ${MAX_ALL_LABELS} labels, ${MAX_DISTINCT_LABELS} different ones`,
      );
    }
  }
}
