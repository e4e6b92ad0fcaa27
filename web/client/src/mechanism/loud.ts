/**
 * Finds the directions that one person's gradient makes loud: exactly L of the 2n signed
 * directions, for every gradient.
 *
 * A signed direction is the number `index << 1 | bit`, where the bit 1 means plus. Its agreement
 * with the gradient `-2 e x^T` is `|a_r| |x_f|` for the direction (r, f) with the sign of `-a_r
 * x_f`. The product of two float32 numbers is exact in float64, so all languages find the same
 * order.
 */

import { sliceRange } from "./slices.js";

/** Number of directions in one slice of work, which takes some milliseconds. */
const DIRECTIONS_PER_SLICE = 2 ** 20;

/** A person's gradient, and the number of its loud directions. */
export interface LoudSettings {
  /** The value `a_r` of each row. */
  readonly a: Float32Array;
  /** The user vector: one entry for each factor. */
  readonly x: Float32Array;
  /** The number of loud directions L, at most n = R F. */
  readonly count: number;
  /**
   * Signed direction with which the order of ties begins. It is random, so that ties favour no
   * direction.
   */
  readonly offset: number;
}

/**
 * Return the loud directions at these ranks, which are from 0 to L - 1.
 *
 * Directions whose agreement is above the least loud one come first, ordered by index. Those with
 * exactly the least loud agreement follow, in the order of `(signed + offset) mod 2n`, until there
 * are L. So there are L loud directions even if all agreements are zero. The directions are not
 * listed in memory, which holds only one number for each row.
 */
export async function findLoud(
  settings: LoudSettings,
  ranks: readonly number[],
): Promise<number[]> {
  const least = findLeastAgreement(settings);
  const ends = await countLoudUpTo(settings, least);
  const above = ends[ends.length - 1] as number;
  const beyond = ranks.map((rank) => rank - above).filter((rank) => rank >= 0);
  const tiedByRank = await findTied(settings, least, beyond);
  return ranks.map(
    (rank) => tiedByRank.get(rank - above) ?? findLoudAbove(settings, least, ends, rank),
  );
}

/**
 * Count the entries of `rows` whose product with `size` is at least `value`. `rows` has the
 * magnitudes of all a_r in ascending order, and `size` is the magnitude of one factor.
 */
function countReaching(rows: Float32Array, size: number, value: number): number {
  let [from, to] = [0, rows.length];
  while (from < to) {
    const middle = Math.floor((from + to) / 2);
    if ((rows[middle] as number) * size >= value) to = middle;
    else from = middle + 1;
  }
  return rows.length - from;
}

/**
 * Return the least agreement of a loud direction.
 *
 * It is found by bisection of the bits of a float64: for positive numbers, the bits have the same
 * order as the numbers.
 */
function findLeastAgreement({ a, x, count }: LoudSettings): number {
  const [rows, factors] = [a.map(Math.abs).sort(), x.map(Math.abs)];
  const value = Float64Array.of(Number.MAX_VALUE);
  const bits = new BigUint64Array(value.buffer);
  // At least `count` directions reach `low`, and fewer reach `high`.
  let [low, high] = [0n, bits[0] as bigint];
  while (high - low > 1n) {
    const middle = (low + high) / 2n;
    bits[0] = middle;
    const candidate = value[0] as number;
    const reached = factors.reduce((sum, size) => sum + countReaching(rows, size, candidate), 0);
    if (reached >= count) low = middle;
    else high = middle;
  }
  bits[0] = low;
  return value[0] as number;
}

/**
 * Count the directions whose agreement is above the least loud one, in all rows up to and including
 * each row.
 */
async function countLoudUpTo({ a, x }: LoudSettings, least: number): Promise<Uint32Array> {
  const ends = new Uint32Array(a.length);
  let total = 0;
  for await (const [start, end] of sliceRange(
    a.length,
    Math.ceil(DIRECTIONS_PER_SLICE / x.length),
  )) {
    for (let row = start; row < end; row++) {
      for (const size of x) if (Math.abs((a[row] as number) * size) > least) total += 1;
      ends[row] = total;
    }
  }
  return ends;
}

/** Return the direction at a rank, among those whose agreement is above the least loud one. */
function findLoudAbove(
  settings: LoudSettings,
  least: number,
  ends: Uint32Array,
  rank: number,
): number {
  let [row, last] = [0, ends.length - 1];
  while (row < last) {
    const middle = Math.floor((row + last) / 2);
    if ((ends[middle] as number) > rank) last = middle;
    else row = middle + 1;
  }
  let remaining = rank - (row === 0 ? 0 : (ends[row - 1] as number));
  let factor = -1;
  while (remaining >= 0) {
    factor += 1;
    const product = (settings.a[row] as number) * (settings.x[factor] as number);
    if (Math.abs(product) > least) remaining -= 1;
  }
  return 2 * (row * settings.x.length + factor) + getDownhillBit(settings, row, factor);
}

/** Return the sign bit of `-a_r x_f`, the direction that decreases the loss. */
function getDownhillBit({ a, x }: LoudSettings, row: number, factor: number): 0 | 1 {
  return (a[row] as number) > 0 !== (x[factor] as number) > 0 ? 1 : 0;
}

/**
 * Return, by rank, the directions whose agreement is exactly the least loud one. If this agreement
 * is zero, both signs of a direction have it.
 *
 * This function visits the directions in their order and makes no list of them: if all agreements
 * are zero, there are 2n of them.
 */
async function findTied(
  settings: LoudSettings,
  least: number,
  ranks: readonly number[],
): Promise<Map<number, number>> {
  const { a, x, offset } = settings;
  const all = 2 * a.length * x.length;
  const sortedRanks = [...new Set(ranks)].sort((one, other) => one - other);
  const directions = new Map<number, number>();
  let rank = 0;
  for await (const [start, end] of sliceRange(all, DIRECTIONS_PER_SLICE)) {
    for (let place = start; place < end && directions.size < sortedRanks.length; place++) {
      const signedIndex = place < offset ? place - offset + all : place - offset;
      if (!hasAgreement(settings, signedIndex, least)) continue;
      if (rank === sortedRanks[directions.size]) directions.set(rank, signedIndex);
      rank += 1;
    }
    if (directions.size === sortedRanks.length) break;
  }
  return directions;
}

function hasAgreement(settings: LoudSettings, signedIndex: number, value: number): boolean {
  const { a, x } = settings;
  const row = Math.floor(signedIndex / 2 / x.length);
  const factor = (signedIndex >>> 1) - row * x.length;
  const agreement = Math.abs((a[row] as number) * (x[factor] as number));
  return (
    agreement === value &&
    (value === 0 || getDownhillBit(settings, row, factor) === (signedIndex & 1))
  );
}
