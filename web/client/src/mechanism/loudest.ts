/**
 * `loudest`: a report names a direction at random, or one of those that agree most with the
 * gradient.
 *
 * A person's gradient makes exactly L of the 2n signed directions loud. If the random word of a
 * report is below the threshold, the report names a uniform one of all 2n; otherwise it names a
 * uniform one of the L loud ones. L is the same for everybody. So every history has the same two
 * output probabilities, and the threshold makes their ratio e^epsilon.
 */

import { computeUniformThreshold, pickBelow } from "../coin.js";
import type { Manifest, Terms } from "../epoch.js";
import type { Draw, Mechanism, Odds, Person, ReadableReport } from "./base.js";
import { computeRowWeights, countDirections } from "./directions.js";
import { findLoud } from "./loud.js";

/** Largest block size b. */
const MAX_BLOCK_ITEMS = 1024;

/** The default mechanism. The parameter `block` is b, and `loud` is L. */
export const loudest: Mechanism = {
  name: "loudest",
  meaning:
    "a report names one of many public directions in which the model could be moved. The few that " +
    "speak for what you touched most are your loudest. A report names one of these or one drawn at random, " +
    "and only this device knows which it was.",
  parameters: {
    directions_seed: { min: 0, maxIn: () => Number.MAX_SAFE_INTEGER, isFree: true },
    block: { min: 1, maxIn: () => MAX_BLOCK_ITEMS, isPowerOfTwo: true, isFree: false },
    // At most half of the signed directions can be loud. The parameter is free because
    // `loud_fraction` in the terms bounds it.
    loud: { min: 1, maxIn: countDirections, isFree: true },
  },
  countDirections,
  computeLoudFraction,
  makeReports,
  computeOdds,
};

/** Return rho = L / 2n. */
function computeLoudFraction(manifest: Manifest): number {
  return getLoudCount(manifest) / (2 * countDirections(manifest));
}

function getLoudCount({ terms }: Manifest): number {
  return terms.parameters.loud as number;
}

/**
 * Return the odds of a report that is uniform with probability gamma, and otherwise one of the L
 * loud directions of 2n.
 */
function computeOdds({ epsilon, loudFraction: rho }: Terms): Odds {
  const gamma = 1 / (1 + rho * (Math.exp(epsilon) - 1));
  return { truth: gamma * rho + (1 - gamma), chance: rho, random: gamma };
}

/** Make one report for each draw; `ties` breaks ties between equal agreements. */
async function makeReports(
  person: Person,
  draws: readonly Draw[],
  ties: bigint,
): Promise<ReadableReport[]> {
  const { manifest, x } = person;
  const [n, count] = [countDirections(manifest), getLoudCount(manifest)];
  const uniformBelow = computeUniformThreshold(manifest.terms.epsilon, count, n);
  const settings = { a: await computeRowWeights(person), x, count, offset: pickBelow(ties, 2 * n) };
  const ranks = draws.map(({ direction }) => pickBelow(direction, count));
  const loudDirections = await findLoud(settings, ranks);
  return draws.map(({ direction, coin }, number) => {
    const isRandom = coin < uniformBelow;
    const signedIndex = isRandom ? pickBelow(direction, 2 * n) : (loudDirections[number] as number);
    const index = Math.floor(signedIndex / 2);
    const [row, column] = [Math.floor(index / x.length), index % x.length];
    const bit = (signedIndex % 2) as 0 | 1;
    return { index, bit, row, column, coin: isRandom ? "random" : "kept" };
  });
}
