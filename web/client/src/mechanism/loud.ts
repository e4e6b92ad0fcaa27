/**
 * Which directions one person's gradient makes loud: exactly L of 2n, whatever the gradient.
 *
 * A signed direction is `index << 1 | bit`, bit 1 for plus. The gradient `-2 e x^T` agrees with the
 * direction (r, f) by `|a_r| |x_f|`, with the sign of `-a_r x_f`. Two float32 multiplied in float64
 * have no rounding, so everybody finds the same order in every language.
 */

import { slices } from "../slices.js";

/** Directions that are looked at at once: some milliseconds. */
const SLICE = 2 ** 20;

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
  for await (const [start, end] of slices(a.length, Math.ceil(SLICE / x.length))) {
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
  for await (const [start, end] of slices(all, SLICE)) {
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
