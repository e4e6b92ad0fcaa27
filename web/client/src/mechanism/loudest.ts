/**
 * `loudest`: name a direction at random, or one of those that agree with the gradient most.
 *
 * A person's gradient makes exactly L of the 2n signed directions loud. Below the threshold a report
 * names a uniform one of all 2n, else a uniform one of the L. L is the same for everybody, so whatever
 * the history there are two output probabilities, and the threshold makes their ratio e^epsilon.
 */

import { concat, sha256, utf8 } from "../bytes.js";
import { pick, uniformThreshold } from "../coin.js";
import type { Manifest, Terms } from "../epoch.js";
import { ascendingOrder, dot } from "../vector.js";
import type { Draw, Mechanism, Odds, Person, Told } from "./base.js";

/** Our default; `block` is b, `loud` is L. */
export const loudest: Mechanism = {
  name: "loudest",
  about:
    "a report names one of many public directions in which the model could be moved. The few that " +
    "speak for what you touched most are your loudest. A report names one of these or one drawn at random, " +
    "and only this device knows which it was.",
  parameters: {
    directions_seed: { least: 0, most: () => Number.MAX_SAFE_INTEGER, isFree: true },
    block: { least: 1, most: () => MOST_BLOCK, isPowerOfTwo: true, isFree: false },
    // At most half of the signed directions. Free: `loud_fraction` of the terms bounds it.
    loud: { least: 1, most: blockDirections, isFree: true },
  },
  directions: blockDirections,
  loudFraction,
  reports,
  odds,
};

/** rho = L / 2n. */
function loudFraction(manifest: Manifest): number {
  return loudCount(manifest) / (2 * blockDirections(manifest));
}

function loudCount({ terms }: Manifest): number {
  return terms.parameters.loud as number;
}

/** A uniform direction with probability gamma, else one of the L that fit best, out of 2n. */
function odds({ epsilon, loudFraction: rho }: Terms): Odds {
  const gamma = 1 / (1 + rho * (Math.exp(epsilon) - 1));
  return { truth: gamma * rho + (1 - gamma), chance: rho, random: gamma };
}

/** `ties` is the word that settles equal agreements. */
async function reports(person: Person, draws: readonly Draw[], ties: bigint): Promise<Told[]> {
  const { manifest, x } = person;
  const [n, count] = [blockDirections(manifest), loudCount(manifest)];
  const uniformBelow = uniformThreshold(manifest.terms.epsilon, count, n);
  const voice = { a: await allRows(person), x, count, offset: pick(ties, 2 * n) };
  const ranks = draws.map(({ direction }) => pick(direction, count));
  const named = await loudAt(voice, ranks);
  return draws.map(({ direction, coin }, number) => {
    const isRandom = coin < uniformBelow;
    const signed = isRandom ? pick(direction, 2 * n) : (named[number] as number);
    const index = Math.floor(signed / 2);
    const [row, column] = [Math.floor(index / x.length), index % x.length];
    const bit = (signed % 2) as 0 | 1;
    return { index, bit, row, column, coin: isRandom ? "random" : "kept" };
  });
}

/**
 * The directions of `loudest`: Hadamard rows inside blocks of items, times single factors.
 *
 * Items are laid by a public permutation into blocks of b, a power of two; R = b ceil(M / b) rows. The
 * direction (r, f), index `r F + f`, is the matrix with `s_i H[r mod b, place of i in its block]` in
 * column f for the items of row r's block, and 0 elsewhere; s are public signs. A gradient `-2 e x^T`
 * agrees with it by `-2 a_r x_f`, with `a_r = sum_i s_i H[r mod b, place of i] e_i` over the block.
 */

const { fround } = Math;
const MOST_BLOCK = 1024;
/** Items are added within so many rows one by one, the rest of a block by butterflies. */
const ONE_BY_ONE = 128;
/** Numbers that are worked on at once: some milliseconds. */
const NUMBERS_AT_ONCE = 2 ** 18;

/** Where the items lie, and with which sign: the same for everybody. */
interface Layout {
  /** s, one for each item. */
  readonly signs: Int8Array;
  /** The item at each place. */
  readonly items: Uint32Array;
  /** The place of each item. */
  readonly places: Uint32Array;
}

function blockOf({ terms }: Manifest): number {
  return terms.parameters.block as number;
}

function rowsOf(manifest: Manifest): number {
  const block = blockOf(manifest);
  return Math.ceil(manifest.items / block) * block;
}

/** n = R F. */
function blockDirections(manifest: Manifest): number {
  return rowsOf(manifest) * manifest.terms.factors;
}

/**
 * `a` at every row: what touched items add, item after item, less everybody's part `x.W_r`, with
 * `W = H (s * V)`. Of W there is never more than a block.
 */
export async function allRows(person: Person): Promise<Float32Array> {
  const { V, x, manifest } = person;
  const size = blockOf(manifest);
  const layout = await publicLayout(manifest);
  const a = await historyRows(person, layout);
  const wide = new Float64Array(size * V.columns);
  const W = new Float32Array(wide.length);
  const some = Math.ceil(NUMBERS_AT_ONCE / wide.length);
  for await (const [first, end] of slices(a.length / size, some)) {
    for (let start = first * size; start < end * size; start += size) {
      fillBlock(wide, person, layout, start);
      transform(wide, V.columns);
      W.set(wide);
      for (let row = 0; row < size; row++) {
        a[start + row] = (a[start + row] as number) - dot(x, W, row * V.columns);
      }
    }
  }
  return a;
}

/** Neighbours in a catalogue are none here: items lie in the order of public numbers. */
async function publicLayout(manifest: Manifest): Promise<Layout> {
  const seed = manifest.terms.parameters.directions_seed as number;
  const n = manifest.items;
  const bytes = await publicBytes(seed, "order", 4 * n);
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  const items = ascendingOrder(new Uint32Array(n).map((_, item) => view.getUint32(4 * item, true)));
  const places = new Uint32Array(n);
  items.forEach((item, place) => {
    places[item] = place;
  });
  return { signs: await publicSigns(seed, n), items, places };
}

/** `s * V` at the places from `start` on; those without an item are zero. */
function fillBlock(wide: Float64Array, { V }: Person, layout: Layout, start: number): void {
  wide.fill(0);
  for (let at = 0, place = start; at < wide.length && place < layout.items.length; place++) {
    const item = layout.items[place] as number;
    const sign = layout.signs[item] as number;
    for (let from = item * V.columns, end = from + V.columns; from < end; from++, at++) {
      wide[at] = sign * (V.values[from] as number);
    }
  }
}

/** `H` times the sparse weights of the touched items, block by block. */
async function historyRows(person: Person, { signs, places }: Layout): Promise<Float32Array> {
  const size = blockOf(person.manifest);
  const inner = Math.min(ONE_BY_ONE, size);
  const innerSigns = signTable(inner);
  const rows = new Float32Array(rowsOf(person.manifest));
  for await (const [first, end] of slices(person.own.length, NUMBERS_AT_ONCE / ONE_BY_ONE)) {
    for (const item of person.own.slice(first, end)) {
      const weight = (signs[item] as number) * historyWeight(person, item);
      const column = (places[item] as number) % inner;
      const start = (places[item] as number) - column;
      for (let row = 0; row < inner; row++) {
        const signed = weight * (innerSigns[column * inner + row] as number);
        rows[start + row] = (rows[start + row] as number) + signed;
      }
    }
  }
  for (let start = 0; start < rows.length; start += size) {
    transform(rows.subarray(start, start + size), inner);
  }
  return rows;
}

/** `(1 + alpha) - alpha x.v_i`: e is dense only through `-V x`; this is what a touched item adds. */
function historyWeight({ manifest, V, x }: Person, item: number): number {
  const alpha = fround(manifest.alpha);
  const share = fround(alpha * dot(x, V.values, item * V.columns));
  return fround(fround(1 + alpha) - share);
}

/** `H` of so many rows. */
function signTable(size: number): Int8Array {
  return new Int8Array(size * size).map((_, at) => hadamardSign(Math.floor(at / size), at % size));
}

/**
 * Which directions one person's gradient makes loud: exactly L of 2n, whatever the gradient.
 *
 * A signed direction is `index << 1 | bit`, bit 1 for plus. The gradient `-2 e x^T` agrees with the
 * direction (r, f) by `|a_r| |x_f|`, with the sign of `-a_r x_f`. Two float32 multiplied in float64
 * have no rounding, so everybody finds the same order in every language.
 */

/** Directions that are looked at at once: some milliseconds. */
const DIRECTIONS_AT_ONCE = 2 ** 20;

/** What a person's gradient is made of, and how much of it is loud. */
export interface Voice {
  /** One for each row. */
  readonly a: Float32Array;
  /** One for each factor. */
  readonly x: Float32Array;
  /** L, at most n = R F. */
  readonly count: number;
  /** Where the order of ties begins: random, so that ties favour nobody. */
  readonly offset: number;
}

/**
 * The loud directions at these ranks, from 0 to L - 1.
 *
 * First those above the least agreement that is loud, in the order of their index. Then those with
 * exactly the least agreement: in the order of `(signed + offset) mod 2n`, until there are L. So there
 * are L also if everything is zero. Nothing is listed: what is kept is one number for each row.
 */
export async function loudAt(voice: Voice, ranks: readonly number[]): Promise<number[]> {
  const least = leastLoud(voice);
  const ends = await loudUpTo(voice, least);
  const above = ends[ends.length - 1] as number;
  const beyond = ranks.map((rank) => rank - above).filter((rank) => rank >= 0);
  const tied = await tiedAt(voice, least, beyond);
  return ranks.map((rank) => tied.get(rank - above) ?? loudAbove(voice, least, ends, rank));
}

/** How many of the ascending magnitudes agree with a factor of this size by at least a value. */
function reaching(rows: Float32Array, size: number, value: number): number {
  let [from, to] = [0, rows.length];
  while (from < to) {
    const middle = Math.floor((from + to) / 2);
    if ((rows[middle] as number) * size >= value) to = middle;
    else from = middle + 1;
  }
  return rows.length - from;
}

/** The least agreement that is loud, found in the bits of a float64, which order alike. */
function leastLoud({ a, x, count }: Voice): number {
  const [rows, factors] = [a.map(Math.abs).sort(), x.map(Math.abs)];
  const value = Float64Array.of(Number.MAX_VALUE);
  const bits = new BigUint64Array(value.buffer);
  // `low` is reached by at least `count`, `high` by fewer.
  let [low, high] = [0n, bits[0] as bigint];
  while (high - low > 1n) {
    const middle = (low + high) / 2n;
    bits[0] = middle;
    const tried = value[0] as number;
    const reached = factors.reduce((sum, size) => sum + reaching(rows, size, tried), 0);
    if (reached >= count) low = middle;
    else high = middle;
  }
  bits[0] = low;
  return value[0] as number;
}

/** Up to and with each row, how many directions lie above the least agreement. */
async function loudUpTo({ a, x }: Voice, least: number): Promise<Uint32Array> {
  const ends = new Uint32Array(a.length);
  let total = 0;
  for await (const [start, end] of slices(a.length, Math.ceil(DIRECTIONS_AT_ONCE / x.length))) {
    for (let row = start; row < end; row++) {
      for (const size of x) if (Math.abs((a[row] as number) * size) > least) total += 1;
      ends[row] = total;
    }
  }
  return ends;
}

/** One above the least agreement. */
function loudAbove(voice: Voice, least: number, ends: Uint32Array, rank: number): number {
  let [row, last] = [0, ends.length - 1];
  while (row < last) {
    const middle = Math.floor((row + last) / 2);
    if ((ends[middle] as number) > rank) last = middle;
    else row = middle + 1;
  }
  let left = rank - (row === 0 ? 0 : (ends[row - 1] as number));
  let factor = -1;
  while (left >= 0) {
    factor += 1;
    const product = (voice.a[row] as number) * (voice.x[factor] as number);
    if (Math.abs(product) > least) left -= 1;
  }
  return 2 * (row * voice.x.length + factor) + downhill(voice, row, factor);
}

/** The bit of `-a_r x_f`: down the loss. */
function downhill({ a, x }: Voice, row: number, factor: number): 0 | 1 {
  return (a[row] as number) > 0 !== (x[factor] as number) > 0 ? 1 : 0;
}

/**
 * Of those with exactly the least agreement (of zeros both signs) the ones at these ranks, by rank.
 *
 * They are looked for in their order, and not listed: of zeros alone there are 2n.
 */
async function tiedAt(
  voice: Voice,
  least: number,
  ranks: readonly number[],
): Promise<Map<number, number>> {
  const { a, x, offset } = voice;
  const all = 2 * a.length * x.length;
  const wanted = [...new Set(ranks)].sort((one, other) => one - other);
  const found = new Map<number, number>();
  let rank = 0;
  for await (const [start, end] of slices(all, DIRECTIONS_AT_ONCE)) {
    for (let place = start; place < end && found.size < wanted.length; place++) {
      const signed = place < offset ? place - offset + all : place - offset;
      if (!agreesBy(voice, signed, least)) continue;
      if (rank === wanted[found.size]) found.set(rank, signed);
      rank += 1;
    }
    if (found.size === wanted.length) break;
  }
  return found;
}

function agreesBy(voice: Voice, signed: number, value: number): boolean {
  const { a, x } = voice;
  const row = Math.floor(signed / 2 / x.length);
  const factor = (signed >>> 1) - row * x.length;
  const agreement = Math.abs((a[row] as number) * (x[factor] as number));
  return agreement === value && (value === 0 || downhill(voice, row, factor) === (signed & 1));
}

const DIGEST = 32;
/** Digests that are asked for at once. */
const TOGETHER = 256;

/**
 * `H` times each column of a matrix with `width` columns and a power of two rows, in place.
 *
 * Each pair of rows (u, v) at distance 1, 2, 4, ... becomes (u + v, u - v). A result is rounded when
 * it is stored: once, to float32 or float64, whichever the array holds.
 */
function transform(values: Float32Array | Float64Array, width = 1): void {
  for (let half = width; half < values.length; half *= 2) {
    for (let start = 0; start < values.length; start += 2 * half) {
      for (let low = start; low < start + half; low++) {
        const u = values[low] as number;
        const v = values[low + half] as number;
        values[low] = u + v;
        values[low + half] = u - v;
      }
    }
  }
}

/** `H[row, column]`: -1 to the number of ones that the two have in common. */
function hadamardSign(row: number, column: number): 1 | -1 {
  let bits = row & column;
  for (const shift of [16, 8, 4, 2, 1]) bits ^= bits >>> shift;
  return (bits & 1) === 1 ? -1 : 1;
}

/** `n` signs that everybody can compute from the seed in the manifest; a set bit is -1. */
async function publicSigns(seed: number, n: number): Promise<Int8Array> {
  const bytes = await publicBytes(seed, "signs", Math.ceil(n / 8));
  return new Int8Array(n).map((_, at) => (((bytes[at >> 3] as number) >> (at & 7)) & 1 ? -1 : 1));
}

/** Bytes that everybody can compute: digests of label, use, seed and number, one after the other. */
async function publicBytes(
  seed: number,
  use: "signs" | "order",
  size: number,
): Promise<Uint8Array> {
  const prefix = concat([utf8(`sottovoce directions v2\0${use}\0`), littleEndian(seed, 8)]);
  const digests = Math.ceil(size / DIGEST);
  const bytes = new Uint8Array(digests * DIGEST);
  for (let first = 0; first < digests; first += TOGETHER) {
    const numbers = Array.from(
      { length: Math.min(TOGETHER, digests - first) },
      (_, i) => first + i,
    );
    const digest = (number: number) => sha256(concat([prefix, littleEndian(number, 4)]));
    const found = await Promise.all(numbers.map(digest));
    found.forEach((each, i) => {
      bytes.set(each, (first + i) * DIGEST);
    });
  }
  return bytes.subarray(0, size);
}

function littleEndian(value: number, bytes: 4 | 8): Uint8Array {
  const view = new DataView(new ArrayBuffer(8));
  view.setBigUint64(0, BigInt(value), true);
  return new Uint8Array(view.buffer, 0, bytes);
}

/** From 0 to `n`, so many at once; between two slices everything else that waits has its turn. */
export async function* slices(n: number, size: number): AsyncGenerator<[number, number]> {
  for (let start = 0; start < n; start += size) {
    if (start > 0) await othersTurn();
    yield [start, Math.min(start + size, n)];
  }
}

/** Not by a timer: browsers slow those down in pages that nobody looks at. */
function othersTurn(): Promise<void> {
  const { port1, port2 } = new MessageChannel();
  return new Promise((resolve) => {
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}
