/**
 * Which directions one person's gradient makes loud: exactly L of 2n, whatever the gradient.
 *
 * A signed direction is `index << 1 | bit`, bit 1 for plus. The gradient `-2 e x^T` agrees with the
 * direction (r, f) by `|a_r| |x_f|`, with the sign of `-a_r x_f`. Two float32 multiplied in float64
 * have no rounding, so everybody finds the same order in every language.
 */

import { slices } from "../slices.js";
import { ascendingOrder } from "./sorting.js";

const MAGNITUDE = 0x7fffffff;
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

/** The rows by falling magnitude, of equal ones the lower first, and the sizes of the factors. */
interface Sizes {
  readonly order: Uint32Array;
  /** Magnitudes of the rows in that order. */
  readonly rows: Float32Array;
  readonly factors: Float32Array;
}

/**
 * The loud directions at these ranks, from 0 to L - 1.
 *
 * First those above the least agreement that is loud: factor after factor, each with its rows by
 * falling magnitude. In this order the loud rows of a factor are the first few, so nothing has to be
 * listed. Then those with exactly the least agreement: in the order of `(signed + offset) mod 2n`,
 * until there are L. So there are L also if everything is zero.
 */
export async function loudAt(voice: Voice, ranks: readonly number[]): Promise<number[]> {
  const sizes = sizesOf(voice);
  const least = leastLoud(sizes, voice.count);
  const steps = Array.from(sizes.factors, (size) => reaching(sizes.rows, size, least, false));
  const above = steps.reduce((sum, step) => sum + step, 0);
  const beyond = ranks.map((rank) => rank - above).filter((rank) => rank >= 0);
  const tied = await tiedAt(voice, least, beyond);
  return ranks.map((rank) => tied.get(rank - above) ?? loudAbove(voice, sizes, steps, rank));
}

function sizesOf({ a, x }: Voice): Sizes {
  const bits = new Uint32Array(a.buffer, a.byteOffset, a.length);
  // The bits of a float without its sign order like magnitudes.
  const order = ascendingOrder(bits.map((each) => MAGNITUDE - (each & MAGNITUDE)));
  const rows = new Float32Array(a.length);
  for (let place = 0; place < rows.length; place++) {
    rows[place] = Math.abs(a[order[place] as number] as number);
  }
  return { order, rows, factors: x.map(Math.abs) };
}

/** How many rows agree with a factor of this size by more than a value, or by as much too. */
function reaching(rows: Float32Array, size: number, value: number, orAsMuch: boolean): number {
  let [from, to] = [0, rows.length];
  while (from < to) {
    const middle = Math.floor((from + to) / 2);
    const agreement = (rows[middle] as number) * size;
    if (agreement > value || (orAsMuch && agreement === value)) from = middle + 1;
    else to = middle;
  }
  return from;
}

/** The least agreement that is loud, found in the bits of a float64, which order alike. */
function leastLoud({ rows, factors }: Sizes, count: number): number {
  const value = Float64Array.of(Number.MAX_VALUE);
  const bits = new BigUint64Array(value.buffer);
  // `low` is reached by at least `count`, `high` by fewer.
  let [low, high] = [0n, bits[0] as bigint];
  while (high - low > 1n) {
    const middle = (low + high) / 2n;
    bits[0] = middle;
    const tried = value[0] as number;
    const reached = factors.reduce((sum, size) => sum + reaching(rows, size, tried, true), 0);
    if (reached >= count) low = middle;
    else high = middle;
  }
  bits[0] = low;
  return value[0] as number;
}

/** One above the least agreement; `steps` says how many of them each factor has. */
function loudAbove(voice: Voice, sizes: Sizes, steps: readonly number[], rank: number): number {
  let [factor, place] = [0, rank];
  for (; place >= (steps[factor] as number); factor++) place -= steps[factor] as number;
  const row = sizes.order[place] as number;
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
