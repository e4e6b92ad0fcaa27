/**
 * A light upper bound of the central epsilon: what the server sees of one device in a mixed crowd.
 *
 * The same bound as `sottovoce.privacy.bound`, whose text has the steps and their reasons; the digits
 * are held against `tests/vectors/promises.json`. The pair of laws is proved in docs/privacy.md. With
 * E = e^eps, c = E - 1 and gamma = 1 / (1 + rho c), one round is: a blanket of m - 1 uniform reports of
 * others or of the proxy; s reports on the loud directions of one history or the other; a difference v of
 * s fair signs. Two histories make v likelier by 1 + t and 1 - t, t = (c v / 2) / (m + c s / 2) =
 * tanh(loss / 2). Losses are put onto a grid so that the mean of t stays, and Renyi moments of the grid are composed.
 *
 * Where the Python code has sinh and cosh of losses, this has t itself: the shares are the same.
 */

import { MIN_LOUD_RATIO } from "./terms.js";

/** Reports of one kind, each mixed with those of others. */
export interface Group {
  readonly epsilon: number;
  /** rho. */
  readonly loudFraction: number;
  /** Reports, in all epochs. */
  readonly rounds: number;
  /** Honest devices, this one included. */
  readonly clients: number;
  /** Dummies of the proxy for each. */
  readonly cover: number;
}

/** Chances of the whole numbers from `first` on. */
interface Chances {
  readonly first: number;
  readonly of: Float64Array;
}

/** The share of delta that the ends of the binomials are cut for. */
const UNSEEN = 1e-3;
/** Shares of delta that may be spent on the largest losses. */
const SPENT = [0, 0.01, 0.05, 0.1, 0.4, 0.7];
/** Sizes that differ by less than this share are taken together. */
const COARSENESS = 0.004;
/** Of the grid of losses: the ratio, and how many points beside 0 and epsilon. */
const RATIO = 1.025;
const POINTS = 800;
const ORDERS = Array.from({ length: 270 }, (_, at) => 1 + 0.01 * 1.1 ** at);

/** So many are composed: a server that changes its terms in every epoch keeps no device busy. */
const MOST_GROUPS = 8;

/** An epsilon that holds with this delta for all groups together, if all reports are shuffled. */
export function centralBound(groups: readonly Group[], delta: number): number {
  const isHidden = ({ clients, cover }: Group) => (clients > 1 || cover > 0 ? 1 : 0);
  const dearest = [...groups].sort(
    (one, other) => isHidden(other) - isHidden(one) || pureOf([other]) - pureOf([one]),
  );
  const hidden = dearest.slice(0, MOST_GROUPS).filter(isHidden);
  const pure = pureOf(dearest);
  if (hidden.length === 0) return pure;
  return Math.min(pure, pureOf(dearest.slice(hidden.length)) + composed(hidden, delta));
}

/** Holds whatever happens. */
function pureOf(groups: readonly Group[]): number {
  return groups.reduce((sum, { epsilon, rounds }) => sum + epsilon * rounds, 0);
}

function composed(groups: readonly Group[], delta: number): number {
  const rounds = groups.reduce((sum, group) => sum + group.rounds, 0);
  const spread = Math.log((2 * 4 * rounds) / UNSEEN) - Math.log(delta);
  const seen = groups.map((group) => ({ ...group, weights: histogram(group, spread) }));
  const ways = SPENT.map((share) => {
    const parts = seen.map((group) => butFor(group, (share * delta) / groups.length));
    const spent = parts.reduce((sum, part) => sum + part.spent, 0);
    return { kept: parts.map(({ kept }) => kept), delta: (1 - UNSEEN) * delta - spent };
  });
  return leastEpsilon(seen, ways);
}

/** A group with the weights of its grid. */
type Seen = Group & { readonly weights: Float64Array };

/** How many points are left without losses that, in any of the rounds, are no likelier than `most`. */
function butFor({ rounds, weights }: Seen, most: number): { kept: number; spent: number } {
  let [kept, above] = [weights.length, 0];
  for (; kept > 0; kept--) {
    const chance = entry(weights, kept - 1) + above; // of a loss so large
    if (rounds * chance > most) break;
    above = chance;
  }
  return { kept, spent: rounds * above };
}

function entry(values: Float64Array, at: number): number {
  return values[at] as number;
}

function blanketOf({ epsilon, loudFraction }: Group): number {
  return 1 / (1 + loudFraction * (Math.exp(epsilon) - 1));
}

/** The chance that each dummy counts: what holds then holds at every rho that a manifest may have. */
function dummyShareOf(group: Group): number {
  return MIN_LOUD_RATIO + (1 - MIN_LOUD_RATIO) * blanketOf(group);
}

/** The weights of the grid's points; steps 1 to 4. */
function histogram(group: Group, spread: number): Float64Array {
  const blankets = blanketsOf(group, spread);
  const largest = blankets.at(-1)?.size ?? 1;
  const starts = groupStarts(0, largest, spread);
  const rows = blankets.map(({ size, chance }) => ({
    ...{ size, chance },
    counts: countsOf(group, size - 1, starts, spread),
  }));
  const grid = new Grid(group.epsilon);
  starts.forEach((start, place) => {
    const reached = rows.filter(({ counts }) => entry(counts, place) > 0);
    if (reached.length === 0) return;
    const most = (starts[place + 1] ?? largest + 1) - 1;
    const signs = binomial(most, 0.5, spread);
    for (const { size, chance, counts } of reached) {
      grid.add(group, { size, start, most }, signs, chance * entry(counts, place));
    }
  });
  return grid.weights;
}

/** Sizes m, ascending, and their chances; step 1. */
function blanketsOf(group: Group, spread: number) {
  const people = binomial(group.clients - 1, blanketOf(group), spread);
  const dummies = binomial(group.cover, dummyShareOf(group), spread);
  const uniform = new Float64Array(people.of.length + dummies.of.length - 1);
  for (const { size, chance } of groupSizes(dummies, spread)) {
    const offset = size - dummies.first;
    people.of.forEach((share, place) => {
      uniform[offset + place] = entry(uniform, offset + place) + chance * share;
    });
  }
  const sizes = groupSizes({ first: people.first + dummies.first, of: uniform }, spread);
  return sizes.map(({ size, chance }) => ({ size: size + 1, chance }));
}

/** Neighbouring sizes together, each group at its smallest. */
function groupSizes({ first, of }: Chances, spread: number) {
  const starts = groupStarts(first, first + of.length - 1, spread);
  return starts.map((start, place) => {
    const stop = starts[place + 1] ?? first + of.length;
    const chance = of.subarray(start - first, stop - first).reduce((sum, each) => sum + each, 0);
    return { size: start, chance };
  });
}

/** The chance of each group of s among so many others; step 2. */
function countsOf(kind: Group, others: number, starts: readonly number[], spread: number) {
  const { loudFraction: rho } = kind;
  const hit = 1 - blanketOf(kind) * (1 - 2 * rho);
  const { first, of } = binomial(others, 2 * rho, spread);
  const counts = new Float64Array(starts.length);
  let group = 0;
  for (let place = 0; place <= of.length; place++) {
    while ((starts[group + 1] ?? Number.POSITIVE_INFINITY) <= first + place) group++;
    const stayed = place < of.length ? entry(of, place) * (1 - hit) : 0;
    const joined = place > 0 ? entry(of, place - 1) * hit : 0;
    counts[group] = entry(counts, group) + stayed + joined;
  }
  return counts;
}

/** The grid of losses with its weights; step 4. A loss is kept as t, and where that nears 1 as 1 - t. */
class Grid {
  readonly weights: Float64Array;
  readonly #t: Float64Array;
  readonly #rest: Float64Array;

  constructor(epsilon: number) {
    const losses = pointsOf(epsilon);
    this.#t = losses.map((loss) => Math.tanh(loss / 2));
    this.#rest = losses.map((loss) => 2 / (Math.exp(loss) + 1));
    this.weights = new Float64Array(losses.length);
  }

  /** All differences of `most` signs, for a blanket of `size` and from `start` loud reports on. */
  add(
    { epsilon }: Group,
    { size, start, most }: { size: number; start: number; most: number },
    signs: Chances,
    weight: number,
  ): void {
    const half = Math.expm1(epsilon) / 2;
    const whole = size + half * start;
    let lower = 0;
    // From the middle outwards: t grows, and its place on the grid with it.
    for (let value = Math.ceil(most / 2); value < signs.first + signs.of.length; value++) {
      const v = 2 * value - most;
      const both = v === 0 ? 1 : 2;
      const chance = both * weight * entry(signs.of, value - signs.first);
      const [t, rest] = [(half * v) / whole, (size + half * (start - v)) / whole];
      while (lower < POINTS && this.#reaches(lower + 1, t, rest)) lower++;
      this.#split(lower, this.#share(lower, t, rest), chance);
    }
  }

  #reaches(point: number, t: number, rest: number): boolean {
    return t < 0.5 ? entry(this.#t, point) <= t : entry(this.#rest, point) >= rest;
  }

  /** What goes to the upper point, so that the mean of t stays. */
  #share(lower: number, t: number, rest: number): number {
    const [points, here] = t < 0.5 ? [this.#t, t] : [this.#rest, rest];
    const low = entry(points, lower);
    return (here - low) / (entry(points, lower + 1) - low);
  }

  #split(lower: number, up: number, chance: number): void {
    this.weights[lower] = entry(this.weights, lower) + chance * (1 - up);
    this.weights[lower + 1] = entry(this.weights, lower + 1) + chance * up;
  }
}

function pointsOf(epsilon: number): Float64Array {
  const points = Array.from({ length: POINTS + 1 }, (_, at) => epsilon * RATIO ** (at - POINTS));
  return Float64Array.of(0, ...points);
}

/** How many points of each group's grid, and what is left of delta for them. */
interface Way {
  readonly kept: readonly number[];
  readonly delta: number;
}

/** Renyi moments, composed and converted; steps 5 and 6. The best way at the best order counts. */
function leastEpsilon(groups: readonly Seen[], ways: readonly Way[]): number {
  const losses = groups.map(({ epsilon }) => pointsOf(epsilon));
  const found = ORDERS.flatMap((order) => {
    const moments = groups.map(({ weights }, at) =>
      momentsOf(weights, losses[at] as Float64Array, order - 1),
    );
    return ways.map(({ kept, delta }) => {
      const logs = groups.map(({ rounds }, at) => {
        const moment = entry(moments[at] as Float64Array, kept[at] as number);
        return rounds * Math.log1p(moment);
      });
      const renyi = logs.reduce((sum, each) => sum + each, 0) / (order - 1);
      return renyi + Math.log1p(-1 / order) - (Math.log(delta) + Math.log(order)) / (order - 1);
    });
  });
  return Math.max(0, Math.min(...found));
}

/** Of none of the points, of the first, of the first two, and so on: a way has some of them. */
function momentsOf(weights: Float64Array, losses: Float64Array, order: number): Float64Array {
  const sums = new Float64Array(weights.length + 1);
  for (let at = 0; at < weights.length; at++) {
    const weight = entry(weights, at);
    const more = weight > 0 ? weight * momentOf(entry(losses, at), order) : 0;
    sums[at + 1] = entry(sums, at) + more;
  }
  return sums;
}

/** An infinite one bounds nothing: other orders do. */
function momentOf(loss: number, order: number): number {
  return 2 * Math.sinh((order * loss) / 2) ** 2 + Math.tanh(loss / 2) * Math.sinh(order * loss);
}

/**
 * Where groups of neighbouring sizes begin. Sizes that the differences of signs could span stay alone,
 * so that no t comes near 1.
 */
function groupStarts(first: number, last: number, spread: number): number[] {
  const starts: number[] = [];
  for (let start = first; start <= last; ) {
    starts.push(start);
    start += 1 + (start > 8 * spread ? Math.floor(COARSENESS * start) : 0);
  }
  return starts;
}

/** Of Bin(n, p), but for ends of at most 2 e^-spread (Bernstein). */
function binomial(n: number, p: number, spread: number): Chances {
  if (p === 1 || n === 0) return { first: n, of: Float64Array.of(1) };
  const width = spread / 3 + Math.sqrt(spread ** 2 / 9 + 2 * spread * n * p * (1 - p));
  const first = Math.max(0, Math.ceil(n * p - width));
  const last = Math.min(n, Math.floor(n * p + width));
  const logs = new Float64Array(last - first + 1);
  for (let at = 1; at < logs.length; at++) {
    const value = first + at;
    logs[at] = entry(logs, at - 1) + Math.log(((n - value + 1) / value) * (p / (1 - p)));
  }
  const highest = logs.reduce((most, each) => Math.max(most, each), Number.NEGATIVE_INFINITY);
  const of = logs.map((each) => Math.exp(each - highest));
  const sum = of.reduce((all, each) => all + each, 0);
  return { first, of: of.map((chance) => chance / sum) };
}
