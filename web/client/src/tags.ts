/**
 * Tags: public properties of items, as columns that many items share.
 *
 * A device uses tags only to recommend; no report depends on them. A column is a label that enough
 * items have (a genre, a brand) or a band of a number (years, prices), which is the set of items
 * between two values. The rules of docs/protocol.md derive the labels and bands from the catalogue.
 */

/** Tags of one item. Each kind has either a list of labels or a number. */
export type ItemTags = Readonly<Record<string, readonly string[] | number>>;

/**
 * Minimum number of items that a tag must have, or a fiftieth of the catalogue if that is less (but
 * at least 2).
 */
const MIN_TAG_ITEMS = 20;
/**
 * Maximum number of tags; the most frequent ones are used. A device solves one more equation for
 * each tag.
 */
const MAX_TAGS = 128;
/** Number of bands of a number; all bands have about the same number of items. */
const BANDS_PER_NUMBER = 10;

/** The name of a tag. */
export interface Tag {
  /** Kind of the tag, such as "genre" or "year". */
  readonly kind: string;
  /** The label, or the band: "1990 to 1994". */
  readonly name: string;
  /** The edges of a band; a label has none. */
  readonly band?: Band;
}

/** The edges of a band of numbers; the lowest band has no lower one, the highest no upper one. */
export interface Band {
  readonly low: number | null;
  readonly high: number | null;
}

/** All tag columns in use, and the items that have them. */
export interface TagColumns {
  readonly names: readonly Tag[];
  /**
   * The columns of item i are the entries of `columns` from index `starts[i]` up to, but not
   * including, `starts[i + 1]`.
   */
  readonly starts: Uint32Array;
  /** Columns of each item, ascending, item after item. */
  readonly columns: Uint16Array;
}

/** A tag and the items that have it, ascending. */
interface Column {
  readonly tag: Tag;
  readonly items: number[];
}

/** Build the columns of a catalogue: labels in the order in which they first appear, then bands. */
export function buildTags(items: readonly ItemTags[]): TagColumns {
  const minItems = Math.min(MIN_TAG_ITEMS, Math.max(2, Math.ceil(items.length / 50)));
  const frequent = [...collectLabels(items), ...collectBands(items)].filter((column) => {
    return column.items.length >= minItems;
  });
  const mostFrequent = new Set(
    [...frequent].sort((a, b) => b.items.length - a.items.length).slice(0, MAX_TAGS),
  );
  return sortByItem(
    frequent.filter((column) => mostFrequent.has(column)),
    items.length,
  );
}

export function getItemColumns({ starts, columns }: TagColumns, item: number): Uint16Array {
  return columns.subarray(starts[item], starts[item + 1]);
}

function sortByItem(columnsInUse: readonly Column[], length: number): TagColumns {
  const starts = new Uint32Array(length + 1);
  for (const { items } of columnsInUse) {
    for (const item of items) starts[item + 1] = (starts[item + 1] as number) + 1;
  }
  for (let item = 0; item < length; item++) {
    starts[item + 1] = (starts[item + 1] as number) + (starts[item] as number);
  }
  const columns = new Uint16Array(starts[length] as number);
  const next = starts.slice();
  columnsInUse.forEach(({ items }, column) => {
    for (const item of items) {
      const place = next[item] as number;
      columns[place] = column;
      next[item] = place + 1;
    }
  });
  return { names: columnsInUse.map(({ tag }) => tag), starts, columns };
}

/** Return a column for each label. */
function collectLabels(items: readonly ItemTags[]): Iterable<Column> {
  const columnsByLabel = new Map<string, Column>();
  items.forEach((traits, item) => {
    for (const [kind, names] of Object.entries(traits)) {
      if (typeof names === "number") continue;
      for (const name of names) {
        const key = `${kind} ${name}`; // unambiguous, because no kind contains a space
        const column = columnsByLabel.get(key) ?? { tag: { kind, name }, items: [] };
        column.items.push(item);
        columnsByLabel.set(key, column);
      }
    }
  });
  return columnsByLabel.values();
}

/** Return a column for each band of each kind of number, from the lowest band up. */
function collectBands(items: readonly ItemTags[]): Column[] {
  const numbers = new Map<string, Map<number, number>>();
  items.forEach((traits, item) => {
    for (const [kind, number] of Object.entries(traits)) {
      if (typeof number !== "number") continue;
      const numbersByItem = numbers.get(kind) ?? new Map<number, number>();
      numbers.set(kind, numbersByItem.set(item, number));
    }
  });
  return [...numbers].flatMap(([kind, numbersByItem]) => splitIntoBands(kind, numbersByItem));
}

function splitIntoBands(kind: string, numbersByItem: ReadonlyMap<number, number>): Column[] {
  const ascending = Float64Array.from(numbersByItem.values()).sort();
  const beginnings = Array.from({ length: BANDS_PER_NUMBER }, (_, band) => {
    return ascending[Math.floor((band * ascending.length) / BANDS_PER_NUMBER)] as number;
  });
  const edges = [...new Set(beginnings)];
  const rows = edges.map(() => [] as number[]);
  for (const [item, number] of numbersByItem) {
    rows[edges.filter((edge) => edge <= number).length - 1]?.push(item);
  }
  const values = rows.map((members) => members.map((item) => numbersByItem.get(item) as number));
  const bands = findBands(values.map((band) => Float64Array.from(band).sort()));
  return bands.map((band, at) => ({
    tag: { kind, name: nameBand(band), band },
    items: rows[at] as number[],
  }));
}

/** Name a band: "under 1990", "1990 to 1994", "1995 or more", or a single value. */
function nameBand({ low, high }: Band): string {
  if (low === high) return `${low}`;
  if (high === null) return `${low} or more`;
  return low === null ? `under ${high}` : `${low} to ${high}`;
}

/**
 * Find round edges of bands. A band of a single value has that value as both edges.
 *
 * If all values are whole numbers, a band between others ends with its last number. Otherwise it
 * ends with the number at which the next band begins: 10 to 12.5, 12.5 to 15.
 */
function findBands(bands: readonly Float64Array[]): Band[] {
  const ends = bands.map((values) => [values[0], values.at(-1)] as [number, number]);
  const edges = ends
    .slice(1)
    .map(([first], at) => roundEdge((ends[at] as [number, number])[1], first));
  const step = bands.every((values) => values.every(Number.isInteger)) ? 1 : 0;
  return ends.map(([low, high], place) => {
    const begin = place > 0 ? (edges[place - 1] as number) : low;
    const end = edges[place];
    if (low === high) return { low, high };
    if (end === undefined) return { low: begin, high: null };
    return place > 0 ? { low: begin, high: end - step } : { low: null, high: end };
  });
}

/**
 * Return the roundest number above `before` and at most `first`: one with the fewest digits, and of
 * these the nearest to `first`.
 */
function roundEdge(before: number, first: number): number {
  const [mantissa = "", exponent = "0"] = first.toExponential().split("e");
  const digits = mantissa.replace(".", "");
  for (let digitCount = 1; digitCount < digits.length; digitCount += 1) {
    const candidate = Number(`${digits.slice(0, digitCount)}e${Number(exponent) - digitCount + 1}`);
    if (candidate > before) return candidate;
  }
  return first;
}
