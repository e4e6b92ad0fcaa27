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
