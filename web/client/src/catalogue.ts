/**
 * The catalogue: which thing is item number i, and what is publicly known of it. The same for everybody,
 * named by its hash.
 *
 * A device keeps what its owner touched under the product's own names (`id`) and finds the numbers
 * here, so that nobody has to be asked about an item.
 */

import * as strict from "./encoding.js";
import { ProtocolError } from "./errors.js";

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

/**
 * Tags: what is publicly known of the items, as columns that many of them share.
 *
 * A device uses them when it recommends and at no other time: they cost no report. A column is a
 * label that enough items have (a genre, a brand), or a band of a number (years, prices): the items
 * between two of its values. Which labels and bands there are follows from the catalogue alone, by
 * the rules of docs/protocol.md.
 */

/** Of one item, by kind: its labels, or its number. */
export type Traits = Readonly<Record<string, readonly string[] | number>>;

/** Items that a tag must have; a fiftieth of the catalogue where that is less. */
const ENOUGH_ITEMS = 20;
/** Of the most frequent ones: a device solves as many equations more. */
const MOST_TAGS = 128;
/** Of a number, with about as many items each. */
const BANDS = 10;

export interface Tag {
  /** `genre`, `year` ... */
  readonly kind: string;
  /** The label, or the band: "1990 to 1994". */
  readonly name: string;
}

/** All columns that count, and which items have them. */
export interface Tags {
  readonly names: readonly Tag[];
  /** Where each item's columns begin in `columns`; one more than there are items. */
  readonly starts: Uint32Array;
  /** Item after item, ascending. */
  readonly columns: Uint16Array;
}

/** A tag and the items that have it, ascending. */
interface Column {
  readonly tag: Tag;
  readonly items: number[];
}

/** The columns of a catalogue, in the order in which they first turn up. */
export function tagsOf(items: readonly Traits[]): Tags {
  const enough = Math.min(ENOUGH_ITEMS, Math.max(2, Math.ceil(items.length / 50)));
  const counted = [...labels(items), ...bands(items)].filter((column) => {
    return column.items.length >= enough;
  });
  const most = new Set(
    [...counted].sort((a, b) => b.items.length - a.items.length).slice(0, MOST_TAGS),
  );
  return byItem(
    counted.filter((column) => most.has(column)),
    items.length,
  );
}

export function columnsOf({ starts, columns }: Tags, item: number): Uint16Array {
  return columns.subarray(starts[item], starts[item + 1]);
}

function byItem(kept: readonly Column[], length: number): Tags {
  const starts = new Uint32Array(length + 1);
  for (const { items } of kept) {
    for (const item of items) starts[item + 1] = (starts[item + 1] as number) + 1;
  }
  for (let item = 0; item < length; item++) {
    starts[item + 1] = (starts[item + 1] as number) + (starts[item] as number);
  }
  const columns = new Uint16Array(starts[length] as number);
  const next = starts.slice();
  kept.forEach(({ items }, column) => {
    for (const item of items) {
      const place = next[item] as number;
      columns[place] = column;
      next[item] = place + 1;
    }
  });
  return { names: kept.map(({ tag }) => tag), starts, columns };
}

/** Of each label the items that have it. */
function labels(items: readonly Traits[]): Iterable<Column> {
  const found = new Map<string, Column>();
  items.forEach((traits, item) => {
    for (const [kind, names] of Object.entries(traits)) {
      if (typeof names === "number") continue;
      for (const name of names) {
        const key = `${kind} ${name}`; // no kind has a space
        const known = found.get(key) ?? { tag: { kind, name }, items: [] };
        known.items.push(item);
        found.set(key, known);
      }
    }
  });
  return found.values();
}

/** Of each kind of number its bands, from the lowest up. */
function bands(items: readonly Traits[]): Column[] {
  const numbers = new Map<string, Map<number, number>>();
  items.forEach((traits, item) => {
    for (const [kind, number] of Object.entries(traits)) {
      if (typeof number !== "number") continue;
      const known = numbers.get(kind) ?? new Map<number, number>();
      numbers.set(kind, known.set(item, number));
    }
  });
  return [...numbers].flatMap(([kind, known]) => bandsOf(kind, known));
}

function bandsOf(kind: string, known: ReadonlyMap<number, number>): Column[] {
  const ascending = Float64Array.from(known.values()).sort();
  const beginnings = Array.from({ length: BANDS }, (_, band) => {
    return ascending[Math.floor((band * ascending.length) / BANDS)] as number;
  });
  const edges = [...new Set(beginnings)];
  const rows = edges.map(() => [] as number[]);
  for (const [item, number] of known) {
    rows[edges.filter((edge) => edge <= number).length - 1]?.push(item);
  }
  const values = rows.map((inside) => inside.map((item) => known.get(item) as number));
  const names = bandNames(values.map((each) => Float64Array.from(each).sort()));
  return rows.map((inside, band) => ({
    tag: { kind, name: names[band] as string },
    items: inside,
  }));
}

/**
 * By round edges: "under 1990", "1990 to 1994", "1995 or more"; a single value by itself. Where all values
 * are whole, a band's name ends with the last number that is in it. Otherwise it ends where the next band
 * begins: "10 to 12.5", "12.5 to 15".
 */
function bandNames(bands: readonly Float64Array[]): string[] {
  const ends = bands.map((values) => [values[0], values.at(-1)] as [number, number]);
  const edges = ends.slice(1).map(([first], at) => edge((ends[at] as [number, number])[1], first));
  const step = bands.every((values) => values.every(Number.isInteger)) ? 1 : 0;
  return ends.map(([low, high], place) => {
    const begin = place > 0 ? edges[place - 1] : low;
    const end = edges[place];
    if (low === high) return `${low}`;
    if (end === undefined) return `${begin} or more`;
    return place > 0 ? `${begin} to ${end - step}` : `under ${end}`;
  });
}

/** The roundest number above the one and not above the other: fewest digits, then nearest. */
function edge(before: number, first: number): number {
  const [mantissa = "", exponent = "0"] = first.toExponential().split("e");
  const digits = mantissa.replace(".", "");
  for (let kept = 1; kept < digits.length; kept += 1) {
    const found = Number(`${digits.slice(0, kept)}e${Number(exponent) - kept + 1}`);
    if (found > before) return found;
  }
  return first;
}
