/**
 * The catalogue: which item each row of the model stands for, and the public tags of each item.
 *
 * All devices use the same catalogue file, which is named by its hash. A device stores its history
 * as the item ids of the app or site that uses this client, and finds the rows of the model in the catalogue. So it need not
 * ask a server about an item.
 */

import { ProtocolError } from "./errors.js";
import * as strict from "./json.js";
import { buildTags, type ItemTags, type TagColumns } from "./tags.js";

/** An item of the catalogue. */
export interface Item {
  /** Id of the item in the app or site that uses this client; unique in the catalogue. */
  readonly id: string;
  /** Title for people. */
  readonly title: string;
  /** Public tags by kind: a list of labels (genre, brand) or a number (year, price). */
  readonly tags: ItemTags;
}

/** The items of a catalogue; their positions are the rows of the item matrix V. */
export interface Catalogue {
  readonly items: readonly Item[];
  /** Row of V by item id. */
  readonly rowsById: ReadonlyMap<string, number>;
  /** Tag columns, which are used for recommending only. */
  readonly tags: TagColumns;
}

export const MAX_CATALOGUE_BYTES = 64 * 2 ** 20;
const FORMAT_VERSION = 2;
const MAX_TEXT_CHARACTERS = 512;
const MAX_TAG_KINDS = 32;
/** Labels of one item, over all kinds of tags. */
const MAX_LABELS_PER_ITEM = 64;
/** Labels of all items together. A device stores all of them. */
const MAX_ALL_LABELS = 2 ** 22;
/** Different labels. A device counts the items of each of them. */
const MAX_DISTINCT_LABELS = 2 ** 17;
const KIND_PATTERN = /^[a-z][a-z0-9_]{0,31}$/;

/** Decode a catalogue. Throws a `ProtocolError` if the bytes are not valid. */
export function decodeCatalogue(data: Uint8Array): Catalogue {
  const fields = strict.parseObject(data, MAX_CATALOGUE_BYTES, "catalogue");
  strict.checkKeys(fields, ["version", "items"], "catalogue");
  strict.parseWhole(fields.version, FORMAT_VERSION, FORMAT_VERSION, "catalogue: version");
  const entries = fields.items;
  if (!Array.isArray(entries) || entries.length === 0) {
    throw new ProtocolError("catalogue: items must be a list that is not empty");
  }
  return createCatalogue(entries.map(parseItem));
}

/**
 * Create a catalogue with its indexes. Throws a `ProtocolError` if the items contradict each other.
 */
export function createCatalogue(items: readonly Item[]): Catalogue {
  const rowsById = new Map(items.map((item, row) => [item.id, row]));
  if (rowsById.size !== items.length) {
    throw new ProtocolError("catalogue: two items have the same id");
  }
  checkKinds(items);
  checkLabels(items);
  let tags: TagColumns | undefined;
  return {
    items,
    rowsById,
    get tags() {
      tags ??= buildTags(items.map((item) => item.tags)); // built on first use: only recommending needs tags
      return tags;
    },
  };
}

/** Return the rows of the touched items that are in the catalogue, in ascending order. */
export function findRows(
  { rowsById }: Pick<Catalogue, "rowsById">,
  touched: Iterable<string>,
): number[] {
  const rows = [...touched].map((id) => rowsById.get(id));
  return rows.filter((row) => row !== undefined).sort((a, b) => a - b);
}

function parseItem(entry: unknown): Item {
  strict.checkKeys(entry, ["id", "title", "tags"], "catalogue: item");
  const tags = entry.tags;
  if (!strict.isObject(tags))
    throw new ProtocolError("catalogue: tags must be an object with a key for each kind");
  return {
    id: strict.parseText(entry.id, MAX_TEXT_CHARACTERS, "catalogue: id"),
    title: strict.parseText(entry.title, MAX_TEXT_CHARACTERS, "catalogue: title"),
    tags: Object.fromEntries(
      Object.entries(tags).map(([kind, values]) => [parseKind(kind), parseValues(values)]),
    ),
  };
}

function parseKind(kind: string): string {
  if (!KIND_PATTERN.test(kind)) {
    throw new ProtocolError(
      `catalogue: a kind of tag must match ${KIND_PATTERN.source}, not ${strict.formatValue(kind)}`,
    );
  }
  return kind;
}

function parseValues(values: unknown): readonly string[] | number {
  if (!Array.isArray(values)) {
    return strict.parseReal(values, 0, Number.MAX_SAFE_INTEGER, "catalogue: tag");
  }
  const labels = values.map((label) =>
    strict.parseText(label, MAX_TEXT_CHARACTERS, "catalogue: label"),
  );
  if (new Set(labels).size !== labels.length) {
    throw new ProtocolError("catalogue: an item has the same label twice");
  }
  return labels;
}

/** Check that no kind of tag has labels for one item and a number for another. */
function checkKinds(items: readonly Item[]): void {
  const types = new Map<string, string>();
  for (const { tags } of items) {
    for (const [kind, values] of Object.entries(tags)) {
      const type = types.get(kind) ?? typeof values;
      if (type !== typeof values) {
        throw new ProtocolError(
          `catalogue: ${kind} must have labels for all items, or numbers for all`,
        );
      }
      types.set(kind, type);
    }
  }
  if (types.size > MAX_TAG_KINDS) {
    throw new ProtocolError(
      `catalogue: it has ${types.size} kinds of tags, but at most ${MAX_TAG_KINDS} are allowed`,
    );
  }
}

/** Refuse more labels than a device can count. */
function checkLabels(items: readonly Item[]): void {
  let total = 0;
  const distinct = new Set<string>();
  for (const { tags } of items) {
    const labels = Object.entries(tags).flatMap(([kind, values]) => {
      return typeof values === "number" ? [] : values.map((label) => `${kind} ${label}`);
    });
    if (labels.length > MAX_LABELS_PER_ITEM) {
      throw new ProtocolError(`catalogue: an item has more than ${MAX_LABELS_PER_ITEM} labels`);
    }
    total += labels.length;
    for (const label of labels) distinct.add(label);
    if (total > MAX_ALL_LABELS || distinct.size > MAX_DISTINCT_LABELS) {
      throw new ProtocolError(
        `catalogue: it must have at most ${MAX_ALL_LABELS} labels, and ` +
          `${MAX_DISTINCT_LABELS} different ones`,
      );
    }
  }
}
