/**
 * A fast upper bound of the central epsilon: how much the server learns about one device from the
 * mixed reports of a crowd.
 *
 * This is the bound of `sottovoce.privacy.bound`, which explains steps 1 to 6.
 * `tests/vectors/promises.json` checks that both give the same digits, and docs/privacy.md proves
 * that the two output distributions used here are the worst case.
 *
 * With E = e^eps, c = E - 1 and gamma = 1 / (1 + rho c), one round has these random parts: a
 * blanket of m - 1 uniform reports by others or by the proxy; s reports on the loud directions of
 * one history or of the other; and the difference v of s fair signs. The two histories make v
 * likelier by the factors 1 + t and 1 - t, where t = (c v / 2) / (m + c s / 2) = tanh(loss / 2).
 * Each loss is divided between two points of a grid so that the mean of t stays the same, and the
 * Renyi moments of the grid are composed over all rounds.
 *
 * The Python code uses sinh and cosh of losses where this code uses t. Both give the same shares.
 */

import { MIN_LOUD_RATIO } from "./terms.js";

/** Reports of one kind, each mixed with reports of others. */
export interface ReportGroup {
  readonly epsilon: number;
  /** The loud fraction rho: the share of signed directions that are loud for one history. */
  readonly loudFraction: number;
  /** Number of reports in all epochs. */
  readonly rounds: number;
  /** Number of honest devices, including this one. */
  readonly clients: number;
  /** Number of the proxy's dummies for each report of a device. */
  readonly cover: number;
}

/** Probabilities of consecutive whole numbers, beginning with `first`. */
interface Distribution {
  readonly first: number;
  readonly probabilities: Float64Array;
}

/** Share of delta that pays for cutting off the ends of the binomial distributions. */
const TAIL_SHARE = 1e-3;
/** Shares of delta to try for cutting off the largest losses. */
const LOSS_SHARES = [0, 0.01, 0.05, 0.1, 0.4, 0.7];
/** Sizes that differ by at most this share are grouped. */
const SIZE_TOLERANCE = 0.004;
/** Ratio of neighbouring losses on the grid. */
const GRID_RATIO = 1.025;
/** Number of points of the grid besides 0 and epsilon. */
const GRID_POINTS = 800;
const RENYI_ORDERS = Array.from({ length: 270 }, (_, at) => 1 + 0.01 * 1.1 ** at);

/**
 * Maximum number of groups that are composed. So a server that changes its terms in every epoch
 * cannot keep a device busy.
 */
const MAX_GROUPS = 8;

/**
 * Return an epsilon that holds, with this delta, for all groups together if all reports are
 * shuffled.
 */
export function computeCentralBound(groups: readonly ReportGroup[], delta: number): number {
  const isHidden = ({ clients, cover }: ReportGroup) => (clients > 1 || cover > 0 ? 1 : 0);
  const byCost = [...groups].sort(
    (one, other) => isHidden(other) - isHidden(one) || sumPure([other]) - sumPure([one]),
  );
  const hidden = byCost.slice(0, MAX_GROUPS).filter(isHidden);
  const pure = sumPure(byCost);
  if (hidden.length === 0) return pure;
  return Math.min(pure, sumPure(byCost.slice(hidden.length)) + compose(hidden, delta));
}

/** Return the epsilon that holds in every case. */
function sumPure(groups: readonly ReportGroup[]): number {
  return groups.reduce((sum, { epsilon, rounds }) => sum + epsilon * rounds, 0);
}

/** Return the epsilon of the composed groups, with the best of several cuts of large losses. */
function compose(groups: readonly ReportGroup[], delta: number): number {
  const rounds = groups.reduce((sum, group) => sum + group.rounds, 0);
  const spread = Math.log((2 * 4 * rounds) / TAIL_SHARE) - Math.log(delta);
  const weighted = groups.map((group) => ({ ...group, weights: computeWeights(group, spread) }));
  const cuts = LOSS_SHARES.map((share) => {
    const parts = weighted.map((group) => cutLosses(group, (share * delta) / groups.length));
    const spentDelta = parts.reduce((sum, part) => sum + part.spent, 0);
    const pointCounts = parts.map(({ points }) => points);
    return { pointCounts, delta: (1 - TAIL_SHARE) * delta - spentDelta };
  });
  return findLeastEpsilon(weighted, cuts);
}

/** A group, and the probability of each point of its grid of losses. */
type WeightedGroup = ReportGroup & { readonly weights: Float64Array };

/**
 * Cut off the largest losses of a group.
 *
 * Their probability in all rounds together is at most `maxSpent`. Return the number of grid points
 * that are left, and the probability that was spent.
 */
function cutLosses(
  { rounds, weights }: WeightedGroup,
  maxSpent: number,
): { points: number; spent: number } {
  let [points, above] = [weights.length, 0];
  for (; points > 0; points--) {
    const chance = getEntry(weights, points - 1) + above; // probability of such a loss in one round
    if (rounds * chance > maxSpent) break;
    above = chance;
  }
  return { points, spent: rounds * above };
}

function getEntry(values: Float64Array, at: number): number {
  return values[at] as number;
}

/** Return gamma, the probability that a report is drawn uniformly at random. */
function computeUniformChance({ epsilon, loudFraction }: ReportGroup): number {
  return 1 / (1 + loudFraction * (Math.exp(epsilon) - 1));
}

/**
 * Return the lowest probability with which a dummy counts towards the blanket, over all values of
 * rho that a manifest may have.
 */
function computeDummyChance(group: ReportGroup): number {
  return MIN_LOUD_RATIO + (1 - MIN_LOUD_RATIO) * computeUniformChance(group);
}

/** Return the weights of the grid's points (steps 1 to 4). */
function computeWeights(group: ReportGroup, spread: number): Float64Array {
  const blankets = listBlankets(group, spread);
  const largest = blankets.at(-1)?.size ?? 1;
  const starts = groupStarts(0, largest, spread);
  const rows = blankets.map(({ size, chance }) => ({
    ...{ size, chance },
    counts: computeCounts(group, size - 1, starts, spread),
  }));
  const grid = new LossGrid(group.epsilon);
  starts.forEach((start, place) => {
    const reached = rows.filter(({ counts }) => getEntry(counts, place) > 0);
    if (reached.length === 0) return;
    const largestCount = (starts[place + 1] ?? largest + 1) - 1;
    const signs = computeBinomial(largestCount, 0.5, spread);
    for (const { size, chance, counts } of reached) {
      grid.add(group, { size, start, most: largestCount }, signs, chance * getEntry(counts, place));
    }
  });
  return grid.weights;
}

/** Return the sizes m in ascending order, and their probabilities (step 1). */
function listBlankets(group: ReportGroup, spread: number) {
  const people = computeBinomial(group.clients - 1, computeUniformChance(group), spread);
  const dummies = computeBinomial(group.cover, computeDummyChance(group), spread);
  const uniform = new Float64Array(people.probabilities.length + dummies.probabilities.length - 1);
  for (const { size, chance } of groupSizes(dummies, spread)) {
    const offset = size - dummies.first;
    people.probabilities.forEach((share, place) => {
      uniform[offset + place] = getEntry(uniform, offset + place) + chance * share;
    });
  }
  const sizes = groupSizes({ first: people.first + dummies.first, probabilities: uniform }, spread);
  return sizes.map(({ size, chance }) => ({ size: size + 1, chance }));
}

/** Group neighbouring sizes. The size of a group is the smallest of its sizes. */
function groupSizes({ first, probabilities }: Distribution, spread: number) {
  const starts = groupStarts(first, first + probabilities.length - 1, spread);
  return starts.map((start, place) => {
    const stop = starts[place + 1] ?? first + probabilities.length;
    const part = probabilities.subarray(start - first, stop - first);
    const chance = part.reduce((sum, probability) => sum + probability, 0);
    return { size: start, chance };
  });
}

/** Return the probability of each group of values of s, given the number of others (step 2). */
function computeCounts(
  kind: ReportGroup,
  others: number,
  starts: readonly number[],
  spread: number,
) {
  const { loudFraction: rho } = kind;
  const hit = 1 - computeUniformChance(kind) * (1 - 2 * rho);
  const { first, probabilities } = computeBinomial(others, 2 * rho, spread);
  const counts = new Float64Array(starts.length);
  let group = 0;
  for (let place = 0; place <= probabilities.length; place++) {
    while ((starts[group + 1] ?? Number.POSITIVE_INFINITY) <= first + place) group++;
    const stayed = place < probabilities.length ? getEntry(probabilities, place) * (1 - hit) : 0;
    const joined = place > 0 ? getEntry(probabilities, place - 1) * hit : 0;
    counts[group] = getEntry(counts, group) + stayed + joined;
  }
  return counts;
}

/**
 * The grid of losses with its weights (step 4). A loss is stored as t, and as 1 - t, which is more
 * precise where t is close to 1.
 */
class LossGrid {
  readonly weights: Float64Array;
  readonly #t: Float64Array;
  readonly #rest: Float64Array;

  constructor(epsilon: number) {
    const losses = makePoints(epsilon);
    this.#t = losses.map((loss) => Math.tanh(loss / 2));
    this.#rest = losses.map((loss) => 2 / (Math.exp(loss) + 1));
    this.weights = new Float64Array(losses.length);
  }

  /**
   * Add to the grid the losses of all differences v of `most` signs. `size` is m, `start` is the
   * smallest s of its group, and `weight` the probability of both.
   */
  add(
    { epsilon }: ReportGroup,
    { size, start, most }: { size: number; start: number; most: number },
    signs: Distribution,
    weight: number,
  ): void {
    const half = Math.expm1(epsilon) / 2;
    const whole = size + half * start;
    let lower = 0;
    // Go from the middle of the distribution outwards. Then t grows, so its place on the grid only
    // moves up.
    for (
      let value = Math.ceil(most / 2);
      value < signs.first + signs.probabilities.length;
      value++
    ) {
      const v = 2 * value - most;
      const both = v === 0 ? 1 : 2;
      const chance = both * weight * getEntry(signs.probabilities, value - signs.first);
      const [t, rest] = [(half * v) / whole, (size + half * (start - v)) / whole];
      while (lower < GRID_POINTS && this.#hasReached(lower + 1, t, rest)) lower++;
      this.#split(lower, this.#computeUpperShare(lower, t, rest), chance);
    }
  }

  #hasReached(point: number, t: number, rest: number): boolean {
    return t < 0.5 ? getEntry(this.#t, point) <= t : getEntry(this.#rest, point) >= rest;
  }

  /** Return the share of the upper of two grid points with which the mean of t stays the same. */
  #computeUpperShare(lower: number, t: number, rest: number): number {
    const [points, here] = t < 0.5 ? [this.#t, t] : [this.#rest, rest];
    const low = getEntry(points, lower);
    return (here - low) / (getEntry(points, lower + 1) - low);
  }

  #split(lower: number, up: number, chance: number): void {
    this.weights[lower] = getEntry(this.weights, lower) + chance * (1 - up);
    this.weights[lower + 1] = getEntry(this.weights, lower + 1) + chance * up;
  }
}

function makePoints(epsilon: number): Float64Array {
  const points = Array.from(
    { length: GRID_POINTS + 1 },
    (_, at) => epsilon * GRID_RATIO ** (at - GRID_POINTS),
  );
  return Float64Array.of(0, ...points);
}

/** What is left after a cut: the number of points of each group's grid, and the delta for them. */
interface LossCut {
  readonly pointCounts: readonly number[];
  readonly delta: number;
}

/**
 * Compose the Renyi moments and convert them to an epsilon (steps 5 and 6). Return the smallest
 * epsilon over all cuts and orders.
 */
function findLeastEpsilon(groups: readonly WeightedGroup[], cuts: readonly LossCut[]): number {
  const losses = groups.map(({ epsilon }) => makePoints(epsilon));
  const candidates = RENYI_ORDERS.flatMap((order) => {
    const moments = groups.map(({ weights }, at) =>
      computeMoments(weights, losses[at] as Float64Array, order - 1),
    );
    return cuts.map(({ pointCounts, delta }) => {
      const logs = groups.map(({ rounds }, at) => {
        const moment = getEntry(moments[at] as Float64Array, pointCounts[at] as number);
        return rounds * Math.log1p(moment);
      });
      const renyi = logs.reduce((sum, log) => sum + log, 0) / (order - 1);
      return renyi + Math.log1p(-1 / order) - (Math.log(delta) + Math.log(order)) / (order - 1);
    });
  });
  return Math.max(0, Math.min(...candidates));
}

/** Return the running sums of the moments of all points, beginning with 0. */
function computeMoments(weights: Float64Array, losses: Float64Array, order: number): Float64Array {
  const sums = new Float64Array(weights.length + 1);
  for (let at = 0; at < weights.length; at++) {
    const weight = getEntry(weights, at);
    const more = weight > 0 ? weight * computeMoment(getEntry(losses, at), order) : 0;
    sums[at + 1] = getEntry(sums, at) + more;
  }
  return sums;
}

/**
 * Return the moment of one loss. If it is infinite, this order gives no bound, but other orders do.
 */
function computeMoment(loss: number, order: number): number {
  return 2 * Math.sinh((order * loss) / 2) ** 2 + Math.tanh(loss / 2) * Math.sinh(order * loss);
}

/**
 * Return the first sizes of groups of neighbouring sizes.
 *
 * Small sizes are not grouped, because a difference of signs could be as large as a small size. So
 * no t comes close to 1.
 */
function groupStarts(first: number, last: number, spread: number): number[] {
  const starts: number[] = [];
  for (let start = first; start <= last; ) {
    starts.push(start);
    start += 1 + (start > 8 * spread ? Math.floor(SIZE_TOLERANCE * start) : 0);
  }
  return starts;
}

/**
 * Return the binomial distribution Bin(n, p) without its ends, whose probability is at most 2
 * e^-spread (Bernstein's inequality).
 */
function computeBinomial(n: number, p: number, spread: number): Distribution {
  if (p === 1 || n === 0) return { first: n, probabilities: Float64Array.of(1) };
  const width = spread / 3 + Math.sqrt(spread ** 2 / 9 + 2 * spread * n * p * (1 - p));
  const first = Math.max(0, Math.ceil(n * p - width));
  const last = Math.min(n, Math.floor(n * p + width));
  const logs = new Float64Array(last - first + 1);
  for (let at = 1; at < logs.length; at++) {
    const value = first + at;
    logs[at] = getEntry(logs, at - 1) + Math.log(((n - value + 1) / value) * (p / (1 - p)));
  }
  const highest = logs.reduce((max, log) => Math.max(max, log), Number.NEGATIVE_INFINITY);
  const weights = logs.map((log) => Math.exp(log - highest));
  const sum = weights.reduce((total, weight) => total + weight, 0);
  return { first, probabilities: weights.map((weight) => weight / sum) };
}
